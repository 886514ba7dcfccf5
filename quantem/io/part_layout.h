#pragma once
// Where one frame lies among the chunks of its part.

#include <algorithm>
#include <cstdint>

#include "quantem/io/container.h"

namespace quantem {

// The chunks of a frame are consecutive in Part::chunks, row-major over the detector; all hold it at the same place.
struct FrameInPart {
  std::uint64_t first_chunk = 0, chunk_rows = 1, chunk_cols = 1;
  std::uint64_t frame_in_chunk = 0;  // flat over the leading axes of the chunk
  bool partial = false;              // the chunk reaches past the array along a leading axis
  [[nodiscard]] std::uint64_t n_chunks() const { return chunk_rows * chunk_cols; }
};
FrameInPart place_of(const Part& part, std::uint64_t frame_in_part);

// Frames that the leading axes of a box hold: all but the last two axes and `fixed_axis`.
std::uint64_t frames_in(const Part& part);
// False when the part is absent, or any chunk of the frame was never written or lies beyond the end of its file.
bool is_stored(const Part& part, std::uint64_t frame_in_part);

// One past the last of the frames from `frame_in_part` on that are stored or missing together (one chunk, one range).
std::uint64_t end_of_run(const Part& part, std::uint64_t frame_in_part);

// The part whose range holds `frame` (also an absent one), or null.
const Part* find_part(const Container& container, std::uint64_t frame);
// One past the last frame of all parts.
std::uint64_t end_of_parts(const Container& container);

// Leaves out the first n bytes of contiguous data; what a cut file lacks of them leaves an empty range at its end.
inline void skip_bytes(ByteRange& data, std::uint64_t n) {
  n = std::min(n, data.bytes);
  if (data.present()) data.offset += n;
  data.bytes -= n;
}

}  // namespace quantem
