#pragma once
// The reference encoder and decoder of bit-sliced-v1: plain loops, the definition of right. Faster encoders make the
// same bytes.

#include <cstdint>
#include <span>

#include "quantem/core/result.h"
#include "quantem/resident/sliced.h"
#include "quantem/resident/sliced_block_writer.h"

namespace quantem {

// One block from plain values.
//   values  u8 u16 u32  (n_positions, det_rows, det_cols)  n_positions <= 512; bad pixels, flagged samples and missing
//   frames hold 0
// Tile sums and moments are sums over all of them, which are sums over the valid ones. `writer` is scratch.
template <class T>
Result<EncodedBlock> encode_block(const SlicedLayout& layout, std::span<const T> values, std::uint32_t n_positions,
                                  BlockWriter& writer);

// The 512 values of one stream; positions past the last one are 0.
void decode_stream(const SlicedBlock& block, std::uint32_t stream, std::span<std::uint64_t, kBlockPositions> values);
// The value of one stream at one position of the block.
std::uint64_t decode_value(const SlicedBlock& block, std::uint32_t stream, std::uint32_t position);

// encode_block over all positions, on all cores. values: (n_positions, det_rows, det_cols).
template <class T>
Result<SlicedStorage> encode_sliced(const SlicedLayout& layout, std::span<const T> values, std::uint64_t n_positions,
                                    int threads = 0);
template <class T>
Result<SlicedStorage> encode_sliced(Extent det, std::span<const T> values, std::uint64_t n_positions, int threads = 0) {
  return encode_sliced<T>(SlicedLayout(det), values, n_positions, threads);
}

}  // namespace quantem
