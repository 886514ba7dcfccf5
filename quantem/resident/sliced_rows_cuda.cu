// Bits of pixels, frame by frame ("rows"), made from dense values where no decoder made them, and turned into bits of positions, stream by
// stream ("slices").
//
//   values_to_rows          warp = 32 pixels of a frame             grid: words of a row / 8, frames. Bound by reading the values.
//   clear_flagged_samples   thread = word of a row, u32 only        most return after one load
//   transpose_rows          CTA of 256 = 512 pixels x 512 positions grid: row words / 16, blocks. 3.9 ms, bound by latency and
//                           barriers (44 % of issue slots, DRAM 35 %), 33 KB of shared memory a CTA.

#include <cuda_runtime.h>

#include "quantem/resident/sliced_encode.cuh"

namespace quantem::sliced_encode {
namespace {

using namespace bits;

// A warp takes 32 pixels of one frame: lane i brings pixel i, lane p leaves with plane p. Reads each value once.
template <class T>
__global__ void values_to_rows(PlaneRows rows, const T* __restrict__ values, const u32* __restrict__ valid,
                               u32 n_pixels, u32 n_frames) {
  const u32 lane = threadIdx.x % 32, word = (blockIdx.x * blockDim.x + threadIdx.x) / 32, f = blockIdx.y;
  if (word >= rows.row_words || f >= n_frames) return;
  const u32 pixel = word * 32 + lane;
  u32 v = pixel < n_pixels ? values[u64{f} * n_pixels + pixel] : 0;
  if (word * 32 < n_pixels) v = valid[word] >> lane & 1 ? v : 0;
  const u32 live = __reduce_or_sync(~0u, v);
  const u64 block = f / kBlockPositions, position = f % kBlockPositions;
  for (u32 p = 0; p < rows.n_planes; ++p) {
    const u32 plane = __ballot_sync(~0u, v >> p & 1);
    if (lane == 0)
      rows.words[((block * rows.n_planes + p) * kBlockPositions + position) * rows.row_words + word] = plane;
  }
  if (lane == 0 && live)
    atomicOr(rows.live + (block * rows.n_segments + word / kSegmentWords) * kBlockPositions + position, live);
}

// u32 sources: a sample with all 32 bits set has no value. A thread per (frame, word); most return at once.
__global__ void clear_flagged_samples(PlaneRows rows, u64 first_position, u32 n_frames, FlaggedSample* list,
                                      u64 capacity, Totals* totals) {
  const u32 word = blockIdx.x * blockDim.x + threadIdx.x, f = blockIdx.y;
  if (word >= rows.row_words || f >= n_frames) return;
  const u64 block = f / kBlockPositions, position = f % kBlockPositions;
  if (rows.live[(block * rows.n_segments + word / kSegmentWords) * kBlockPositions + position] != ~0u) return;
  const auto at = [&](u32 p) { return ((block * 32 + p) * kBlockPositions + position) * rows.row_words + word; };
  u32 all = ~0u;
  for (u32 p = 0; p < 32; ++p) all &= rows.words[at(p)];
  if (!all) return;
  for (u32 p = 0; p < 32; ++p) rows.words[at(p)] &= ~all;
  u64 to = atomicAdd(reinterpret_cast<unsigned long long*>(&totals->n_flagged),
                     static_cast<unsigned long long>(__popc(all)));
  for (u32 m = all; m; m &= m - 1, ++to)
    if (to < capacity) list[to] = {first_position + f, word * 32 + __ffs(m) - 1};
}

// A half-warp holds 16 planes, lane c the word c of each: their set bits, lane c those of plane own_of(c). Two counts share a register, and
// every step halves what a lane keeps: 8 shuffles instead of 64.
__device__ __forceinline__ constexpr u32 own_of(u32 c) {
  return (c >> 3 & 1) << 2 | (c >> 2 & 1) << 1 | (c >> 1 & 1) | (c & 1) << 3;
}
__device__ __forceinline__ constexpr u32 owner_of(u32 plane) {
  return (plane >> 2 & 1) << 3 | (plane >> 1 & 1) << 2 | (plane & 1) << 1 | plane >> 3;
}
__device__ __forceinline__ u32 set_bits_of_16(const u32 (&v)[16]) {
  const u32 c = threadIdx.x % 16;
  u32 n[8];
#pragma unroll
  for (u32 i = 0; i < 8; ++i) n[i] = __popc(v[i]) | __popc(v[i + 8]) << 16;
#pragma unroll
  for (u32 m = 4; m; m /= 2) {  // lanes with the bit 2 m of c keep the upper half
#pragma unroll
    for (u32 i = 0; i < m; ++i) {
      const u32 keep = c & 2 * m ? n[i + m] : n[i], give = c & 2 * m ? n[i] : n[i + m];
      n[i] = keep + __shfl_xor_sync(~0u, give, 2 * m);
    }
  }
  n[0] += __shfl_xor_sync(~0u, n[0], 1);
  return c & 1 ? n[0] >> 16 : n[0] & 0xffff;
}

// CTA: 512 pixels (16 words of a row) x 512 positions, plane after plane. Half-warp k takes positions 32 k .. 32 k + 31, its lane c the
// word of pixels 32 c .. 32 c + 31: reads 64 bytes a frame, transposes in registers, hands whole planes over in shared memory
// (swizzled). Planes that no frame holds are skipped; a plane of a pixel is written when it has a one.
__global__ void __launch_bounds__(256)
    transpose_rows(PlaneRows rows, Slices out, const u32* __restrict__ stream_of_pixel, u32 n_pixels) {
  __shared__ u32 tile[512 * kWords], used[512], stream[512], any;
  const u32 lane = threadIdx.x % 32, c = threadIdx.x % 16, k = threadIdx.x / 16;
  const u64 block = blockIdx.y;
  const u32 word0 = blockIdx.x * kWords, pixel0 = word0 * 32;
  if (threadIdx.x == 0) any = 0;
  for (u32 i = threadIdx.x; i < 512; i += 256) {
    used[i] = 0;
    stream[i] = pixel0 + i < n_pixels ? __ldg(stream_of_pixel + pixel0 + i) : ~0u;
  }
  const u32* live = rows.live + (block * rows.n_segments + word0 / kSegmentWords) * kBlockPositions + (k & ~1u) * 32;
  const u32 live0 = live[lane], live1 = live[32 + lane];  // of the frames of both halves of this warp
  __syncthreads();
  const u32 of_warp = __reduce_or_sync(~0u, live0 | live1);
  if (lane == 0 && of_warp) atomicOr(&any, of_warp);
  __syncthreads();
  for (u32 left = any; left; left &= left - 1) {
    const u32 p = __ffs(left) - 1;
    const u32 alive0 = __ballot_sync(~0u, live0 >> p & 1), alive1 = __ballot_sync(~0u, live1 >> p & 1);
    const u32 alive = k % 2 ? alive1 : alive0;
    const u32* from =
        rows.words + ((block * rows.n_planes + p) * kBlockPositions + k * 32) * rows.row_words + word0 + c;
    {
      u32 a[32];
#pragma unroll
      for (u32 r = 0; r < 32; ++r) a[r] = alive >> r & 1 ? __ldcs(from + r * rows.row_words) : 0;
      transpose(a);
      __syncthreads();  // the plane before has been read
#pragma unroll
      for (u32 j = 0; j < 32; ++j) tile[(c * 32 + j) * kWords + (k ^ c)] = a[j];
    }
    __syncthreads();
#pragma unroll 1
    for (u32 turn = 0; turn < 2; ++turn) {  // half-warp k: pixels 16 i + k
      u32 v[16];
#pragma unroll
      for (u32 i = 0; i < 16; ++i) {
        const u32 pixel = (turn * 16 + i) * 16 + k;
        v[i] = tile[pixel * kWords + (c ^ (pixel / 32))];
      }
      const u32 n = set_bits_of_16(v), own = (turn * 16 + own_of(c)) * 16 + k;
      const bool wanted = n != 0 && stream[own] != ~0u;
      const u32 write = __ballot_sync(~0u, wanted) >> (lane & 16);
      if (wanted) {
        out.set_bits[(block * out.n_streams + stream[own]) * out.n_planes + p] = static_cast<u16>(n);
        used[own] |= 1u << p;
      }
#pragma unroll
      for (u32 i = 0; i < 16; ++i) {
        if (!(write >> owner_of(i) & 1)) continue;
        const u64 at = (block * out.n_streams + stream[(turn * 16 + i) * 16 + k]) * out.n_planes + p;
        out.planes[at * kWords + c] = v[i];
      }
    }
  }
  __syncthreads();
  for (u32 i = threadIdx.x; i < 512; i += 256)
    if (stream[i] != ~0u) out.used[block * out.n_streams + stream[i]] = used[i];
}

}  // namespace

void start_rows_from_values(const PlaneRows& rows, const void* values, u32 item_bits, const u32* valid, u32 n_pixels,
                            u32 n_frames, cudaStream_t stream) {
  const dim3 grid((rows.row_words + 7) / 8, n_frames);
  switch (item_bits) {
    case 8:
      values_to_rows<<<grid, 256, 0, stream>>>(rows, static_cast<const u8*>(values), valid, n_pixels, n_frames);
      break;
    case 16:
      values_to_rows<<<grid, 256, 0, stream>>>(rows, static_cast<const u16*>(values), valid, n_pixels, n_frames);
      break;
    default:
      values_to_rows<<<grid, 256, 0, stream>>>(rows, static_cast<const u32*>(values), valid, n_pixels, n_frames);
  }
}

void start_clear_flagged(const PlaneRows& rows, u64 first_position, u32 n_frames, FlaggedSample* list, u64 capacity,
                         Totals* totals, cudaStream_t stream) {
  clear_flagged_samples<<<dim3((rows.row_words + 127) / 128, n_frames), 128, 0, stream>>>(
      rows, first_position, n_frames, list, capacity, totals);
}

void start_transpose(const PlaneRows& rows, const Slices& pixels, const u32* stream_of_pixel, u32 n_pixels,
                     u32 n_blocks, cudaStream_t stream) {
  transpose_rows<<<dim3(rows.row_words / kWords, n_blocks), 256, 0, stream>>>(rows, pixels, stream_of_pixel, n_pixels);
}

}  // namespace quantem::sliced_encode
