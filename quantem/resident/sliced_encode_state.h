#pragma once
// What PlaneEncoder keeps between its calls. Private to sliced_encode_simd.cpp and its per-target kernels.

#include <array>
#include <cstdint>
#include <vector>

#include "quantem/resident/sliced_encode_simd.h"

namespace quantem {

inline constexpr std::uint32_t kPlaneWords64 = kPlaneBytes / 8;

// A bit-sliced number per position: 512 integers that grow as they must.
struct SlicedNumber {
  static constexpr std::uint32_t kPlanes =
      56;  // 32 bits of a count + 10 of 1024 pixels + 5 of a coordinate, and carries
  alignas(64) std::uint64_t plane[kPlanes][kPlaneWords64];
  std::uint32_t n_planes = 0;
};

// Streams that come after the pixels in a block and are finished before them.
struct StreamQueue {
  std::vector<std::uint64_t> planes;
  std::vector<std::uint8_t> n_planes;
  void clear() {
    planes.clear();
    n_planes.clear();
  }
  void add(const SlicedNumber& number) {
    const auto* from = &number.plane[0][0];
    planes.insert(planes.end(), from, from + std::size_t{number.n_planes} * kPlaneWords64);
    n_planes.push_back(static_cast<std::uint8_t>(number.n_planes));
  }
};

struct PlaneEncoder::State {
  const SlicedLayout* layout = nullptr;
  std::uint32_t item_planes = 16;
  PlaneEncoderOptions options;
  std::vector<std::uint8_t> valid_bytes;  // of pixels, as in bitshuffle planes; empty when all are valid

  PositionBits valid{};
  const std::uint64_t* order = nullptr;
  std::uint32_t max_planes = 0, saturated_planes = 64;  // bits of audit.count_max and of options.saturated_from
  std::uint32_t next_pixel = 0;

  // The range at hand. Pieces of 32 frames x one vector of pixels, transposed: [plane][vector][group of frames][32 vectors].
  std::uint32_t range_first = 0, range_count = 0, vector_bytes = 0, n_vectors = 0;
  std::vector<std::uint8_t> range_mask;  // valid pixels of the range, zeros past its end
  std::vector<std::uint8_t> masked;      // per vector: not all bits of its mask are set
  Buffer pieces;
  std::vector<std::uint16_t> live_groups;  // [plane][vector]: bit k: group k's piece is not zero

  // The band of 8 detector rows at hand: planes of pixels [plane][8x8 tile][pixel of the tile][64 bytes]. Pixels past the
  // detector's right edge are zero; what of the rest is not zero is known from octet_planes.
  std::uint32_t band = 0;
  Buffer band_planes;
  std::size_t band_plane_bytes = 0;         // from one plane to the next
  std::vector<std::uint32_t> slot;          // flat pixel of the band -> 64-byte slot in a plane
  std::vector<std::uint32_t> octet_planes;  // 8 flat pixels of the band -> bit b: their plane b is not zero

  std::vector<SlicedNumber> sum32, row32, col32;  // of the row of 32x32 tiles at hand
  StreamQueue sums8, sums32, moments32, sums4;    // sums4: empty without 4x4 tiles
  BlockWriter writer;
  BlockAudit audit;
  std::vector<BlockSample> flagged;
};

}  // namespace quantem
