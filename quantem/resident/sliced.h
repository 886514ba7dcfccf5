#pragma once
// bit-sliced-v1: how an encoded volume lies in memory. docs/formats.md has the layout with a worked example.
//
// Flat scan positions are cut into blocks of 512. A block holds one *stream* of 512 non-negative integers for each
//   pixel        in tile order: 8x8 tiles row-major, pixels row-major inside a tile, tiles cut at the detector's edge
//   8x8 tile     sum of its valid pixels
//   32x32 tile   sum of its valid pixels
//   32x32 tile   two first moments: sum of (row inside the tile * count), then sum of (col inside the tile * count)
//   4x4 tile     sum of its valid pixels, where the load was asked for them (tiles_4): 8x8 tiles row-major, 4x4 tiles row-major inside.
//                About 12 % more memory; masked sums read a third less
// Plane b of a stream is 16 u32 words (64 bytes): bit j of word k is bit b of the value at position 512*B + 32*k + j.
// w = 1 + the highest plane with 24 or more set bits (0 if none). Planes 0..w-1 are stored; every set bit of a plane >=
// w is *listed* as u16 `position << 2 | plane << 11`, ordered by plane, then position; a stream that would list more
// than 255 raises w until it does not. Planes above 31 are always stored. value = sum of planes + sum of 1 << plane
// over listed bits. Positions past the last one, and missing positions, hold 0. Exact for u8, u16 and u32.

#include <cstdint>
#include <vector>

#include "quantem/core/array.h"
#include "quantem/core/region.h"
#include "quantem/core/shape.h"

namespace quantem {

inline constexpr std::uint32_t kBlockPositions = 512;
inline constexpr std::uint32_t kPlaneBytes = 64;  // 512 bits: one memory access, one AVX-512 register
inline constexpr std::uint32_t kListThreshold = 24, kMaxListed = 255, kMaxListedPlane = 31;

constexpr std::uint16_t listed_bit(std::uint32_t position, std::uint32_t plane) {
  return static_cast<std::uint16_t>(position << 2 | plane << 11);
}
constexpr std::uint32_t listed_position(std::uint16_t e) {
  return e >> 2 & 511u;
}
constexpr std::uint32_t listed_plane(std::uint16_t e) {
  return e >> 11;
}

// Which stream is what, for one detector shape.
struct SlicedLayout {
  explicit SlicedLayout(Extent det, bool tiles_4 = false);
  SlicedLayout() = default;

  Extent det, tiles8, tiles32;  // tiles: ceil(n / 8), ceil(n / 32)
  Extent tiles4{0, 0};          // ceil(n / 4), or none
  std::uint32_t n_pixels = 0, n_tiles8 = 0, n_tiles32 = 0, n_tiles4 = 0;
  std::uint32_t n_streams = 0;                 // n_pixels + n_tiles8 + 3 * n_tiles32 + n_tiles4
  std::vector<std::uint32_t> pixel_of_stream;  // flat detector pixel of stream s < n_pixels
  std::vector<std::uint32_t> stream_of_pixel;  // its inverse

  [[nodiscard]] std::uint32_t tile8_stream(std::uint32_t tile) const { return n_pixels + tile; }
  [[nodiscard]] std::uint32_t tile32_stream(std::uint32_t tile) const { return n_pixels + n_tiles8 + tile; }
  [[nodiscard]] std::uint32_t row_moment_stream(std::uint32_t tile32) const {
    return n_pixels + n_tiles8 + n_tiles32 + 2 * tile32;
  }
  [[nodiscard]] std::uint32_t col_moment_stream(std::uint32_t tile32) const { return row_moment_stream(tile32) + 1; }
  [[nodiscard]] bool has_tiles_4() const { return n_tiles4 != 0; }
  [[nodiscard]] std::uint32_t tile4_stream(std::uint32_t tile) const {
    return n_pixels + n_tiles8 + 3 * n_tiles32 + tile;
  }
  [[nodiscard]] std::vector<std::uint32_t> tile_levels() const;  // {8, 32} or {4, 8, 32}
  [[nodiscard]] Region tile8_region(std::uint32_t tile) const;   // cut at the detector's edge
  [[nodiscard]] Region tile32_region(std::uint32_t tile) const;
  // The 4x4 tiles of an 8x8 tile follow each other: its first one, and how many there are in rows and columns (1 or 2). Only with tiles_4.
  [[nodiscard]] std::uint32_t first_tile4(std::uint32_t tile8) const;
  [[nodiscard]] Extent tiles4_of(std::uint32_t tile8) const;
};

// One block of 512 positions. Pointers stay valid as long as the storage.
struct SlicedBlock {
  const std::byte* planes;         // 64-byte aligned
  const std::uint32_t* entry;      // per stream: byte offset of its planes | w in the six low bits
  const std::uint16_t* list_end;   // per stream: end of its list, relative to list_base[stream / 64]
  const std::uint32_t* list_base;  // per 64 streams
  const std::uint16_t* lists;

  [[nodiscard]] std::uint32_t width(std::uint32_t stream) const { return entry[stream] & 63u; }
  [[nodiscard]] const std::byte* stream_planes(std::uint32_t stream) const { return planes + (entry[stream] & ~63u); }
  [[nodiscard]] const std::uint16_t* list_begin(std::uint32_t stream) const {
    return lists + list_base[stream / 64] + (stream % 64 ? list_end[stream - 1] : 0);
  }
  [[nodiscard]] const std::uint16_t* list_stop(std::uint32_t stream) const {
    return lists + list_base[stream / 64] + list_end[stream];
  }
};

struct SlicedStorage {
  SlicedLayout layout;
  std::uint64_t n_positions = 0;
  // One allocation a block: planes | entry | list_base | list_end | lists, so that a block is finished and sized by one
  // thread.
  std::vector<Buffer> block_bytes;
  std::vector<SlicedBlock> blocks;

  [[nodiscard]] std::uint64_t n_blocks() const { return blocks.size(); }
  [[nodiscard]] std::uint64_t resident_bytes() const {
    std::uint64_t n = 0;
    for (const Buffer& b : block_bytes) n += b.n_bytes();
    return n;
  }
};

}  // namespace quantem
