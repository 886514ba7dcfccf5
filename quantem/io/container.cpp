#include "quantem/io/container.h"

#include <sys/stat.h>

#include <algorithm>

#include "quantem/io/identity.h"
#include "quantem/io/part_layout.h"

namespace quantem {

bool Part::one_frame_per_chunk() const {
  if (chunk.empty() || chunk.size() != shape.size() || chunk.size() < 2) return false;
  const std::size_t n = chunk.size();
  for (std::size_t d = 0; d + 2 < n; ++d)
    if (chunk[d] != 1) return false;
  return fixed_axis >= n && chunk[n - 2] == shape[n - 2] && chunk[n - 1] == shape[n - 1];
}

FrameInPart place_of(const Part& part, std::uint64_t frame_in_part) {
  FrameInPart place;
  const std::size_t rank = part.shape.size();
  std::uint64_t index[4] = {};
  for (std::size_t d = rank - 2; d-- > 0;) {
    if (d == part.fixed_axis) {
      index[d] = part.fixed_index;
    } else {
      index[d] = frame_in_part % part.shape[d];
      frame_in_part /= part.shape[d];
    }
  }
  std::uint64_t cell = 0;
  for (std::size_t d = 0; d + 2 < rank; ++d) {
    const std::uint64_t c = part.chunk[d];
    cell = cell * ((part.shape[d] - 1) / c + 1) + index[d] / c;
    place.frame_in_chunk = place.frame_in_chunk * c + index[d] % c;
    place.partial = place.partial || index[d] / c * c + c > part.shape[d];
  }
  place.chunk_rows = (part.shape[rank - 2] - 1) / part.chunk[rank - 2] + 1;
  place.chunk_cols = (part.shape[rank - 1] - 1) / part.chunk[rank - 1] + 1;
  place.first_chunk = cell * place.n_chunks();
  return place;
}

std::uint64_t frames_in(const Part& part) {
  std::uint64_t n = 1;
  for (std::size_t d = 0; d + 2 < part.shape.size(); ++d)
    if (d != part.fixed_axis) n *= part.shape[d];
  return n;
}

namespace {

// Whole frames at the start of a contiguous part; fewer than n_frames where the file is cut off.
std::uint64_t contiguous_frames(const Part& part) {
  if (part.chunks.empty() || !part.chunks[0].present()) return 0;
  const std::size_t rank = part.shape.size();
  if (rank < 2 || part.frame_stride_bytes == 0) return part.n_frames;
  const std::uint64_t frame = part.shape[rank - 2] * part.shape[rank - 1] * item_bytes(part.dtype);
  const std::uint64_t bytes = part.chunks[0].bytes;
  return bytes < frame ? 0 : std::min(part.n_frames, (bytes - frame) / part.frame_stride_bytes + 1);
}

}  // namespace

bool is_stored(const Part& part, std::uint64_t frame_in_part) {
  if (!part.absent_reason.empty()) return false;
  if (part.chunk.empty()) return frame_in_part < contiguous_frames(part);
  const FrameInPart place = place_of(part, frame_in_part);
  for (std::uint64_t i = 0; i < place.n_chunks(); ++i)
    if (!part.chunks[place.first_chunk + i].present()) return false;
  return true;
}

std::uint64_t end_of_run(const Part& part, std::uint64_t frame_in_part) {
  if (!part.absent_reason.empty()) return part.n_frames;
  if (part.chunk.empty()) {
    const std::uint64_t stored = contiguous_frames(part);
    return frame_in_part < stored ? stored : part.n_frames;
  }
  const std::size_t rank = part.shape.size();
  std::size_t axis = rank - 2;  // the last of those that count frames
  while (axis > 0 && axis - 1 == part.fixed_axis) --axis;
  if (axis == 0) return part.n_frames;
  const std::uint64_t along = part.shape[axis - 1], chunk = part.chunk[axis - 1], at = frame_in_part % along;
  return frame_in_part - at + std::min((at / chunk + 1) * chunk, along);
}

const Part* find_part(const Container& container, std::uint64_t frame) {
  auto after = std::upper_bound(container.parts.begin(), container.parts.end(), frame,
                                [](std::uint64_t f, const Part& p) { return f < p.first_frame; });
  while (after != container.parts.begin()) {
    const Part& part = *--after;
    if (frame - part.first_frame < part.n_frames) return &part;
    if (part.n_frames != 0) return nullptr;
  }
  return nullptr;
}

std::uint64_t end_of_parts(const Container& container) {
  std::uint64_t end = 0;
  for (const Part& part : container.parts) end = std::max(end, part.first_frame + part.n_frames);
  return end;
}

std::uint64_t Container::frame_of(std::uint64_t position) const {
  const std::uint64_t cols = std::max<std::uint64_t>(shape.scan.cols, 1), row = position / cols, col = position % cols;
  const bool reversed = options.scan_order == ScanOrder::serpentine && row % 2 == 1;
  return options.skip_frames + row * (cols + options.flyback_cols) + (reversed ? cols - 1 - col : col);
}

const Part* Container::part_of(std::uint64_t frame) const {
  const Part* part = find_part(*this, frame);
  return part && is_stored(*part, frame - part->first_frame) ? part : nullptr;
}

Result<SourceFile> identify(const std::filesystem::path& path) {
  struct stat s {};
  if (::stat(path.c_str(), &s) != 0) return Error(Code::io, path.string() + ": no such file, or not readable");
  SourceFile file;
  file.name = path.filename().string();
  file.bytes = static_cast<std::uint64_t>(s.st_size);
#ifdef __APPLE__
  const auto& time = s.st_mtimespec;
#else
  const auto& time = s.st_mtim;
#endif
  file.mtime_ns = std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  return file;
}

Result<Done> check_unchanged(const Container& container) {
  for (std::size_t i = 0; i < container.files.size() && i < container.identity.size(); ++i) {
    const SourceFile& then = container.identity[i];
    const auto now = identify(container.files[i]);
    if (!now) return Error(Code::stale_source, then.name + " is gone since it was opened: load again");
    if (now->bytes != then.bytes)
      return Error(Code::stale_source, then.name + " changed while reading (bytes " + std::to_string(then.bytes) +
                                           " -> " + std::to_string(now->bytes) + "): load again");
    if (now->mtime_ns != then.mtime_ns)
      return Error(Code::stale_source, then.name + " changed while reading (written again, same size): load again");
  }
  return Done{};
}

}  // namespace quantem
