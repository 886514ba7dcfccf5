#pragma once
// What the kernels of the decoder share: how a frame is cut into LZ4 streams, the scratch of a slab, the steps between parse and copy.
//   bslz4_parse_cuda.cu   index and parse: every check of the bytes
//   bslz4_copy_cuda.cu    copy: checked steps -> windows -> bit planes
//   bslz4_cuda.cu         the decoder: scratch, and what is started in which order
// Times in these files are of 262,144 frames of 192 x 192 u16 (2.58 GB of chunks) in slabs of 8 blocks on one H200, measured with the
// prototype of the kernels. Starting is all that the functions do: the caller asks cudaGetLastError().

#include <cuda_runtime_api.h>

#include "quantem/io/bslz4_cuda.h"
#include "quantem/resident/device_bits.cuh"

namespace quantem::bslz4 {

using bits::u16;
using bits::u32;
using bits::u64;
using bits::u8;

inline constexpr u32 kBlockBytes = 8192;     // of an LZ4 block, decoded
inline constexpr u32 kLongestStream = 8240;  // no valid LZ4 stream of 8192 bytes is longer
inline constexpr u32 kLanes = 16;            // that copy one stream
inline constexpr u32 kSteps = 256;           // a stream may have before it takes the slow path
inline constexpr u32 kMostStaged = 8448;     // bytes of shared memory for a compressed stream; holds the longest

// How a frame is cut: blocks of 8192 bytes, at most one shorter (a multiple of 8 elements), then up to 7 raw elements.
struct Cut {
  u32 n_pixels, item_bits, item_bytes;
  u32 n_blocks;       // LZ4 blocks of a frame, the short one included
  u32 short_bytes;    // of the last block, decoded; 0: the last block is a full one
  u32 tail_elements;  // raw, behind the last block
  u32 chunk_bytes;    // decoded
  __host__ __device__ u32 bytes_of(u32 b) const { return short_bytes && b == n_blocks - 1 ? short_bytes : kBlockBytes; }
  __host__ __device__ u32 plane_bytes_of(u32 b) const { return bytes_of(b) / item_bits; }
};

enum Counter : u32 { kWide, kRest, kCounters };
inline constexpr u32 kFine = Bslz4Decoder::kFine, kRefused = Bslz4Decoder::kRefused, kAbsent = Bslz4Decoder::kAbsent;

// Scratch of one slab. Stream q = b * n_frames + frame: neighbours in q are alike, so warps stay in step.
struct Slab {
  Cut cut;
  u32 n_frames;
  const u8* bytes;           // compressed chunks as in the file
  const ChunkPlace* chunks;  // [frame]
  uint2* stream;             // [frame][n_blocks] {first byte, bytes}
  uint2* steps;              // [q / 32][kSteps][q % 32]
  u16* n_steps;              // [q]
  u32 *wide, *rest;          // streams with ones beyond the window; streams too long for the copy
  u32* counters;             // [kCounters]
  u32* verdict;              // [frame]
  u32* seen;                 // [n_blocks + 1] bytes of window that a block needs; longest stream
  const u32* valid;          // a row of pixel mask
};

// A step tells 16 lanes what to copy: literals, then a match.
//   x: 31 long step, 30..16 literals, 15..0 where they are relative to the window, signed (the compressed bytes lie below it)
//   y: 31..29 period of a match that repeats within 8 bytes (0: it does not), 26..14 offset, 13..0 match bytes
// A short step has at most 16 literals and 16 match bytes and overlaps its source by `period` only; what is longer is split here up to
// 32 bytes. A long step may be anything.
inline constexpr u32 kLong = 0x80000000u;

// bslz4_parse_cuda.cu: stream, verdict, steps, n_steps, seen; streams with too many steps go to rest.
void start_parse(const Slab& slab, cudaStream_t stream);

// bslz4_copy_cuda.cu. Streams of the LZ4 blocks order[0 .. n_blocks), in windows of `window` bytes, their compressed bytes in `staged`.
void start_copy(const Slab& slab, const PlaneRows& rows, u32 window, u32 staged, const u32* order, u32 n_blocks,
                cudaStream_t stream);
// What the copies before have left: streams with ones beyond their window, streams that are too long; then refused frames lose their bit.
void start_rest(const Slab& slab, const PlaneRows& rows, u32 staged, u32 n_ctas, cudaStream_t stream);
cudaError_t allow_copy();  // once, before the first of them

}  // namespace quantem::bslz4
