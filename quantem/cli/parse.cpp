#include "quantem/cli/parse.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace quantem::cli {
namespace {

Error expected(std::string_view option, std::string_view form, std::string_view found) {
  return Error{Code::invalid_argument, fmt::format("{}: expected {}, found '{}'", option, form, found)};
}

template <class T>
bool read_whole(std::string_view text, T& value) {
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  return status == std::errc{} && end == text.data() + text.size() && !text.empty();
}

bool read_finite(std::string_view text, double& value) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);  // from_chars takes no plus
  return read_whole(text, value) && std::isfinite(value);
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

}  // namespace

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  for (std::size_t begin = 0;;) {
    const std::size_t end = text.find(separator, begin);
    pieces.push_back(text.substr(begin, end == std::string_view::npos ? end : end - begin));
    if (end == std::string_view::npos) return pieces;
    begin = end + 1;
  }
}

Result<std::uint64_t> parse_unsigned(std::string_view text, std::string_view option) {
  std::uint64_t value = 0;
  if (!read_whole(text, value)) return expected(option, "a whole number from 0", text);
  return value;
}

Result<double> parse_number(std::string_view text, std::string_view option) {
  double value = 0;
  if (!read_finite(text, value)) return expected(option, "a number", text);
  return value;
}

Result<double> parse_positive(std::string_view text, std::string_view option) {
  double value = 0;
  if (!read_finite(text, value) || value <= 0) return expected(option, "a number above 0", text);
  return value;
}

Result<Extent> parse_extent(std::string_view text, std::string_view option) {
  const auto pieces = split(text, 'x');
  Extent extent;
  if (pieces.size() != 2 || !read_whole(pieces[0], extent.rows) || !read_whole(pieces[1], extent.cols) ||
      extent.count() == 0)
    return expected(option, "ROWSxCOLS, as 512x256", text);
  return extent;
}

Result<Extent> parse_bin(std::string_view text, std::string_view option) {
  const auto pieces = split(text, ',');
  Extent bin;
  const bool good = pieces.size() <= 2 && read_whole(pieces[0], bin.rows) && read_whole(pieces.back(), bin.cols);
  if (!good || bin.count() == 0) return expected(option, "N or ROWS,COLS, each from 1", text);
  return bin;
}

Result<Region> parse_region(std::string_view text, std::string_view option) {
  const auto axes = split(text, ',');
  Region region;
  std::uint32_t* bounds[2][2] = {{&region.row_start, &region.row_stop}, {&region.col_start, &region.col_stop}};
  bool good = axes.size() == 2;
  for (std::size_t axis = 0; good && axis < 2; ++axis) {
    const auto ends = split(axes[axis], ':');
    good = ends.size() == 2 && read_whole(ends[0], *bounds[axis][0]) && read_whole(ends[1], *bounds[axis][1]);
  }
  if (!good) return expected(option, "ROW_START:ROW_STOP,COL_START:COL_STOP, as 0:64,8:72", text);
  return region;
}

Result<Point> parse_point(std::string_view text, std::string_view option) {
  const auto pieces = split(text, ',');
  Point point;
  if (pieces.size() != 2 || !read_finite(pieces[0], point.row) || !read_finite(pieces[1], point.col))
    return expected(option, "ROW,COL, as 95.5,96", text);
  return point;
}

Result<Pair> parse_step(std::string_view text, std::string_view option) {
  const auto pieces = split(text, ',');
  Pair step;
  const bool good = pieces.size() <= 2 && read_finite(pieces[0], step.row) && read_finite(pieces.back(), step.col);
  if (!good || step.row <= 0 || step.col <= 0) return expected(option, "STEP or ROW,COL, each above 0", text);
  return step;
}

Result<std::uint64_t> parse_bytes(std::string_view text, std::string_view option) {
  constexpr std::pair<std::string_view, double> kUnits[] = {{"", 1},
                                                            {"B", 1},
                                                            {"kB", 1e3},
                                                            {"KB", 1e3},
                                                            {"MB", 1e6},
                                                            {"GB", 1e9},
                                                            {"TB", 1e12},
                                                            {"k", 1e3},
                                                            {"M", 1e6},
                                                            {"G", 1e9},
                                                            {"T", 1e12},
                                                            {"KiB", 1024.0},
                                                            {"MiB", 1048576.0},
                                                            {"GiB", 1073741824.0},
                                                            {"TiB", 1099511627776.0}};
  const std::string_view whole = trimmed(text);
  const std::size_t n_digits = std::min(whole.find_first_not_of("0123456789."), whole.size());
  const std::string_view unit = trimmed(whole.substr(n_digits));
  double value = 0;
  if (read_finite(whole.substr(0, n_digits), value))
    for (const auto& [name, factor] : kUnits)
      if (name == unit && value * factor < 1.8e19) return static_cast<std::uint64_t>(value * factor);
  return expected(option, "a size as '8 GB', '512 MiB' or a number of bytes", text);
}

Result<RawLayout> parse_raw(std::string_view text, std::string_view option) {
  const auto pieces = split(text, ',');
  if (pieces.size() < 2 || pieces.size() > 4)
    return expected(option, "DTYPE,ROWSxCOLS[,OFFSET[,GAP]], as u16,192x192", text);
  RawLayout raw;
  std::string_view dtype = pieces[0];
  raw.big_endian = dtype.starts_with('>');
  if (dtype.starts_with('>') || dtype.starts_with('<')) dtype.remove_prefix(1);
  QUANTEM_TRY_ASSIGN(parsed, parse_dtype(dtype));
  raw.dtype = parsed;
  QUANTEM_TRY_ASSIGN(det, parse_extent(pieces[1], option));
  raw.det = det;
  if (pieces.size() > 2) {
    QUANTEM_TRY_ASSIGN(offset, parse_unsigned(pieces[2], option));
    raw.offset_bytes = offset;
  }
  if (pieces.size() > 3) {
    QUANTEM_TRY_ASSIGN(gap, parse_unsigned(pieces[3], option));
    raw.gap_bytes = gap;
  }
  return raw;
}

std::string format_bytes(std::uint64_t bytes) {
  const double value = static_cast<double>(bytes);
  if (value < 1e3) return fmt::format("{} bytes", bytes);
  if (value < 1e6) return fmt::format("{:.2f} kB", value / 1e3);
  if (value < 1e9) return fmt::format("{:.2f} MB", value / 1e6);
  return fmt::format("{:.2f} GB", value / 1e9);
}

std::string format_number(double value) {
  return fmt::format("{:.6g}", value);
}

std::string format_count(double value) {
  if (std::nearbyint(value) == value && std::abs(value) < 1e15) return fmt::format("{:.0f}", value);
  return format_number(value);
}

std::string with_option_names(const std::string& message) {
  constexpr std::pair<std::string_view, std::string_view> kOptions[] = {{"scan_shape", "--scan-shape"},
                                                                        {"dataset_path", "--dataset"},
                                                                        {"extra_frames=", "--extra-frames"},
                                                                        {"missing=", "--missing"},
                                                                        {"transpose=", "--transpose"},
                                                                        {"polarity=", "--polarity"},
                                                                        {"units=", "--units"},
                                                                        {"method=", "--method"},
                                                                        {"flagged=", "--flagged"},
                                                                        {"representation=", "--representation"},
                                                                        {"tiles_4", "--tiles-4"},
                                                                        {"skip_frames=", "--skip-frames"},
                                                                        {"flyback_cols=", "--flyback-cols"},
                                                                        {"center=", "--center"},
                                                                        {"radius=", "--radius"},
                                                                        {"rotation_deg=", "--rotation-deg"},
                                                                        {"scan_region=", "--scan-region"},
                                                                        {"det_bin=", "--det-bin"},
                                                                        {"semiangle_mrad", "--semiangle-mrad"},
                                                                        {"voltage_kV", "--voltage-kv"},
                                                                        {"scan_sampling", "--scan-step-a"},
                                                                        {"det_sampling", "--det-mrad"}};
  std::string options;
  for (const auto& [name, option] : kOptions)
    // A word of its own: not the end of another one, nor a piece of a path.
    for (std::size_t at = message.find(name); at != std::string::npos; at = message.find(name, at + 1)) {
      const char before = at == 0 ? ' ' : message[at - 1];
      if (before != ' ' && before != '(' && before != '.') continue;
      if (message.find(option) == std::string::npos) options += (options.empty() ? "" : ", ") + std::string(option);
      break;
    }
  return options.empty() ? message : message + " (" + options + ")";
}

}  // namespace quantem::cli
