#pragma once
// Copies between boxes of arrays in C order.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace quantem {

// Copies the part of a chunk that lies inside a wanted box. All of `rank` axes: the chunk has extent `chunk` and starts at
// `chunk_at` in the array; the box has extent `box` and starts at `box_at`. Both buffers are whole boxes in C order.
inline void copy_box(const std::byte* from, const std::uint64_t* chunk, const std::uint64_t* chunk_at, std::byte* to,
                     const std::uint64_t* box, const std::uint64_t* box_at, std::size_t rank,
                     std::uint64_t item_bytes) {
  const std::uint64_t start = *chunk_at > *box_at ? *chunk_at : *box_at;
  const std::uint64_t chunk_end = *chunk_at + *chunk, box_end = *box_at + *box;
  const std::uint64_t stop = chunk_end < box_end ? chunk_end : box_end;
  if (start >= stop) return;
  if (rank == 1) {
    std::memcpy(to + (start - *box_at) * item_bytes, from + (start - *chunk_at) * item_bytes,
                (stop - start) * item_bytes);
    return;
  }
  std::uint64_t chunk_stride = item_bytes, box_stride = item_bytes;
  for (std::size_t d = 1; d < rank; ++d) {
    chunk_stride *= chunk[d];
    box_stride *= box[d];
  }
  for (std::uint64_t i = start; i < stop; ++i)
    copy_box(from + (i - *chunk_at) * chunk_stride, chunk + 1, chunk_at + 1, to + (i - *box_at) * box_stride, box + 1,
             box_at + 1, rank - 1, item_bytes);
}

}  // namespace quantem
