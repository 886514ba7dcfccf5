#include "quantem/io/scan_shape.h"

#include <algorithm>
#include <cmath>

#include "quantem/io/part_layout.h"

namespace quantem {
namespace {

std::uint64_t exact_root(std::uint64_t n) {
  auto r = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(n)));
  while (r * r > n) --r;
  while ((r + 1) * (r + 1) <= n) ++r;
  return r * r == n ? r : 0;
}

// "5x7, 7x5, 1x35, 35x1": shapes of n positions, squarest first.
std::string shapes_of(std::uint64_t n) {
  std::string text;
  int listed = 0;
  auto r = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(n)));
  for (; r >= 1 && listed < 3; --r) {
    if (n % r != 0) continue;
    if (listed == 2 && r != 1) continue;  // the last place is for the line scan
    ++listed;
    text += (text.empty() ? "" : ", ") + std::to_string(r) + "x" + std::to_string(n / r);
    if (r * r != n) text += ", " + std::to_string(n / r) + "x" + std::to_string(r);
  }
  return text;
}

// Columns of a square scan whose rows are followed by f flyback frames (perhaps not the last), or 0.
std::uint64_t square_side(std::uint64_t frames, std::uint64_t flyback) {
  if (flyback == 0) return exact_root(frames);
  for (const std::uint64_t n : {frames, frames + flyback}) {
    auto r = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(n)));
    for (std::uint64_t side = r > flyback ? r - flyback : 1; side <= r; ++side)
      if (side * (side + flyback) == n) return side;
  }
  return 0;
}

void refuse(Container& c, Code code, std::string message) {
  if (!c.not_ready) c.not_ready = Error(code, std::move(message));
}

// The shape and its origin; nothing when it is undetermined (then not_ready says so).
bool choose(Container& c, const ScanHints& hints, std::uint64_t frames) {
  const auto take = [&](const std::optional<Extent>& shape, Origin origin) {
    if (!shape) return false;
    c.shape.scan = *shape;
    c.scan_shape_origin = origin;
    return true;
  };
  if (take(c.options.scan_shape, Origin::caller)) {
    if (hints.side_file && *hints.side_file != c.shape.scan)
      c.warnings.push_back("scan shape " + to_string(c.shape.scan) + " is the caller's; the side file says " +
                           to_string(*hints.side_file));
    return true;
  }
  if (take(hints.array, Origin::file)) return true;
  if (take(hints.side_file, Origin::side_file) || take(hints.attribute, Origin::file)) return true;
  const std::uint64_t skip = c.options.skip_frames, left = frames > skip ? frames - skip : 0;
  if (left == 1) return take(Extent{1, 1}, Origin::derived);
  const std::uint64_t side = square_side(left, c.options.flyback_cols);
  if (side > 0 && side <= 0xffffffffu) {
    take(Extent{static_cast<std::uint32_t>(side), static_cast<std::uint32_t>(side)}, Origin::guessed);
    c.warnings.push_back("scan shape " + to_string(c.shape.scan) + " is a guess: the exact square root of " +
                         std::to_string(left) + " frames; give scan_shape to say otherwise");
    return true;
  }
  refuse(c, Code::undetermined,
         c.path.filename().string() + ": " + std::to_string(left) + " frames are not a square: give scan_shape" +
             (left > 1 ? " (for example " + shapes_of(left) + ")" : ""));
  return false;
}

// Scan positions among the frames [0, frame).
std::uint64_t positions_before(const Container& c, std::uint64_t frame) {
  if (frame <= c.options.skip_frames) return 0;
  const std::uint64_t cols = c.shape.scan.cols, stride = cols + c.options.flyback_cols;
  const std::uint64_t row = (frame - c.options.skip_frames) / stride, k = (frame - c.options.skip_frames) % stride;
  return row >= c.shape.scan.rows ? c.shape.n_positions() : row * cols + std::min(k, cols);
}

// Goes over what is stored, not over positions: a damaged file announces 2^40 of them for nothing.
std::uint64_t positions_present(const Container& c) {
  std::uint64_t present = 0;
  for (const Part& part : c.parts) {
    const bool whole =
        part.absent_reason.empty() && !part.chunk.empty() &&
        std::all_of(part.chunks.begin(), part.chunks.end(), [](const ByteRange& r) { return r.present(); });
    if (whole) {
      present += positions_before(c, part.first_frame + part.n_frames) - positions_before(c, part.first_frame);
      continue;
    }
    for (std::uint64_t f = 0, next = 0; f < part.n_frames; f = next) {
      next = end_of_run(part, f);
      if (is_stored(part, f))
        present += positions_before(c, part.first_frame + next) - positions_before(c, part.first_frame + f);
    }
  }
  return present;
}

void count_missing(Container& c) {
  const std::uint64_t positions = c.shape.n_positions(), cols = c.shape.scan.cols, present = positions_present(c);
  c.n_missing = positions - present;
  if (c.n_missing == 0) return;
  std::uint64_t first = 0;  // at most `present` steps
  while (first < positions && c.part_of(c.frame_of(first))) ++first;
  const Position at{static_cast<std::uint32_t>(first / cols), static_cast<std::uint32_t>(first % cols)};
  std::string text =
      std::to_string(present) + " of " + std::to_string(positions) + " frames present, first missing " + to_string(at);
  for (const Part& part : c.parts)
    if (!part.absent_reason.empty()) {
      text = part.absent_reason + ": " + text;
      break;
    }
  if (c.options.missing == Missing::mark)
    c.warnings.push_back(text);
  else
    refuse(c, Code::missing_data, text + "; missing=\"mark\" loads the rest");
}

}  // namespace

void resolve_scan_shape(Container& c, const ScanHints& hints) {
  const std::uint64_t end = end_of_parts(c), frames = std::max(end, c.n_expected);
  if (frames == 0) return refuse(c, Code::missing_data, c.path.filename().string() + ": no frames");
  if (!choose(c, hints, frames)) return;
  const std::uint64_t rows = c.shape.scan.rows, cols = c.shape.scan.cols, flyback = c.options.flyback_cols;
  if (rows == 0 || cols == 0) {
    const std::string found = to_string(c.shape.scan);
    c.shape.scan = {};
    return refuse(c, Code::invalid_argument, "scan_shape is " + found + "; both sides must be at least 1");
  }
  const std::uint64_t needed =
      c.options.skip_frames + (rows - 1) * (cols + flyback) + cols;  // below 2^65 only for absurd input
  const std::uint64_t whole = needed + flyback;                      // with flyback after the last row
  // The master may announce frames that were never stored; only stored ones can be extra.
  const std::uint64_t surplus = end > whole ? end - whole : 0;
  if (surplus > 0 && c.options.extra_frames == ExtraFrames::error) {
    std::string ways = "extra_frames=\"drop\" leaves out the last " + std::to_string(surplus) +
                       ", skip_frames=" + std::to_string(surplus) + " the first";
    if (rows > 1 && flyback == 0 && (surplus % rows == 0 || surplus % (rows - 1) == 0))
      ways += ", flyback_cols=" + std::to_string(surplus % rows == 0 ? surplus / rows : surplus / (rows - 1)) +
              " those after each row";
    const std::string source =
        c.scan_shape_origin == Origin::side_file ? " (scan shape of the side file " + hints.side_file_name + ")" : "";
    return refuse(c, Code::invalid_argument,
                  std::to_string(end) + " frames stored, scan_shape " + to_string(c.shape.scan) + " has " +
                      std::to_string(rows * cols) + " positions" +
                      (flyback || c.options.skip_frames ? " and needs " + std::to_string(whole) + " frames" : "") +
                      source + ": give scan_shape, or " + ways);
  }
  // ignored: everything stored that no position uses
  const std::uint64_t last_row = end > needed ? std::min(end, whole) - needed : 0;
  c.n_ignored_frames = std::min<std::uint64_t>(c.options.skip_frames, end) + surplus + last_row;
  if (flyback > 0 && rows > 1 && end > c.options.skip_frames) {
    const std::uint64_t full = std::min(rows - 1, (end - c.options.skip_frames) / (cols + flyback));
    c.n_ignored_frames += full * flyback;
  }
  if (c.n_ignored_frames > 0)
    c.warnings.push_back(std::to_string(c.n_ignored_frames) +
                         " frames belong to no position and are left out, as asked");
  if (c.scan_shape_origin != Origin::caller && c.shape.n_positions() > frames)
    c.warnings.push_back("scan shape " + to_string(c.shape.scan) + " has " + std::to_string(c.shape.n_positions()) +
                         " positions, " + std::to_string(end) + " frames are stored");
  count_missing(c);
}

}  // namespace quantem
