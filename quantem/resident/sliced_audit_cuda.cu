// The value audit of a slab: counts of notable values, the smallest count, and the largest with its first place, over valid pixels of present
// frames. Works on 32 positions at a time, never on integers.
//
//   audit_values   warp = 32 pixel streams of a block, eight at a time, lane = four words of a stream; grid: pixels / 256, blocks
// Every plane that holds a one is read once, to count what is not zero. The planes that a stream uses, read as a number, bound its values:
// only streams that may hold the largest value of the block, or a notable one, are looked at again (audit_stream), one in ten of a
// typical scan.

#include <cuda_runtime.h>

#include "quantem/resident/sliced_encode.cuh"

namespace quantem::sliced_encode {
namespace {

using namespace bits;

// What a warp has found; the counts are sums over its lanes. key: value, then 511 - position, then the pixel from above: the largest key
// is the largest value at the first position, there at the first pixel.
struct Found {
  u32 n_nonzero = 0, n_above_255 = 0, n_above_65535 = 0, n_saturated = 0, least = ~0u;
  u64 key = 0;
};

// One stream in full. Lane k of either half has the words k, `from` is its word of plane 0; both halves do the same, the first counts.
__device__ void audit_stream(const u32* from, u32 used, u32 here, u32 pixel, u32 item_bits, u64 saturation, Found& f) {
  const u32 lane = threadIdx.x % 32, k = lane % 16;
  const auto plane = [&](u32 p) { return used >> p & 1 ? from[p * kWords] : 0; };
  u32 above_255 = 0, above_65535 = 0, candidates = here, value = 0;
  // from the top: `equal` are positions whose high bits equal those of the saturation value, `above` those that passed it
  u32 equal = here, above = 0;
  for (int p = static_cast<int>(item_bits) - 1; p >= 0; --p) {
    const u32 x = plane(p);
    if (p >= 8) above_255 |= x;
    if (p >= 16) above_65535 |= x;
    if (saturation >> p & 1)
      equal &= x;
    else
      above |= equal & x, equal &= ~x;
    if (half_warp_any(candidates & x)) candidates &= x, value |= 1u << p;
  }
  if (!half_warp_any(here)) return;
  // the smallest value: 0 when a present position has no bit; else search downwards
  u32 low = here, smallest = 0;
  for (int p = static_cast<int>(item_bits) - 1; p >= 0; --p) {
    const u32 without = low & ~plane(p);
    if (half_warp_any(without))
      low = without;
    else
      smallest |= 1u << p;
  }
  u32 position = candidates ? k * 32 + __ffs(candidates) - 1 : 511;
  for (int d = 8; d; d /= 2) position = min(position, __shfl_xor_sync(~0u, position, d));
  f.least = min(f.least, smallest);
  f.key = max(f.key, u64{value} << 32 | u64{511 - position} << 23 | ((1u << 23) - 1 - pixel));
  if (lane >= 16) return;
  f.n_above_255 += __popc(above_255);
  f.n_above_65535 += __popc(above_65535);
  f.n_saturated += saturation >> item_bits ? 0 : __popc(equal | above);
}

__device__ __forceinline__ u32 ones(uint4 v) {
  return __popc(v.x) + __popc(v.y) + __popc(v.z) + __popc(v.w);
}

// Streams first .. first + 31 of a block, eight at a time: lane i has words 4 (i % 4) .. + 3 of the (i / 4)-th of them.
__device__ void audit_streams(const Slices& px, const PlaneRows& rows, u64 block, u32 first, u32 used_here,
                              u32 pixel_here, u32 item_bits, u64 saturation, Found& f) {
  const u32 lane = threadIdx.x % 32;
  const uint4 here = *reinterpret_cast<const uint4*>(rows.present + block * kWords + lane % 4 * 4);
  const bool any_frame = __any_sync(~0u, here.x | here.y | here.z | here.w);
  for (u32 turn = 0; turn < 4; ++turn) {
    const u32 mine = turn * 8 + lane / 4, used = __shfl_sync(~0u, used_here, mine),
              counted = __shfl_sync(~0u, pixel_here, mine) != ~0u;
    const u32* planes = px.planes + (block * px.n_streams + first) * px.n_planes * kWords;
    const auto* from = reinterpret_cast<const uint4*>(planes + u64{mine} * px.n_planes * kWords) + lane % 4;
    uint4 nonzero = make_uint4(0, 0, 0, 0);
    for (u32 left = __reduce_or_sync(~0u, used); left; left &= left - 1) {
      const u32 p = __ffs(left) - 1;
      if (!(used >> p & 1)) continue;
      const uint4 x = from[p * (kWords / 4)];
      nonzero.x |= x.x, nonzero.y |= x.y, nonzero.z |= x.z, nonzero.w |= x.w;
    }
    f.n_nonzero += ones(nonzero);
    const u32 zeros = (here.x & ~nonzero.x) | (here.y & ~nonzero.y) | (here.z & ~nonzero.z) | (here.w & ~nonzero.w);
    const u32 with_zeros = __ballot_sync(~0u, counted && zeros);
    if (with_zeros) f.least = 0;
    for (u32 left = __ballot_sync(~0u, counted && any_frame && lane % 4 == 0); left; left &= left - 1) {
      const u32 i = turn * 8 + (__ffs(left) - 1) / 4, bound = __shfl_sync(~0u, used_here, i);
      if (bound < 256 && bound < saturation && (f.key && bound < f.key >> 32) && f.least == 0) continue;
      const u32 k = lane % 16;
      audit_stream(planes + u64{i} * px.n_planes * kWords + k, bound, rows.present[block * kWords + k],
                   __shfl_sync(~0u, pixel_here, i), item_bits, saturation, f);
    }
  }
}

__global__ void __launch_bounds__(256)
    audit_values(Slices px, PlaneRows rows, const u32* __restrict__ pixel_of_stream, const u32* __restrict__ valid,
                 u32 item_bits, u64 saturation, Totals* totals, u64* max_key) {
  __shared__ u32 sums[4], least;
  __shared__ u64 largest;
  const u32 lane = threadIdx.x % 32, first = blockIdx.x * blockDim.x + threadIdx.x / 32 * 32, stream = first + lane;
  const u64 block = blockIdx.y;
  if (threadIdx.x < 4) sums[threadIdx.x] = 0;
  if (threadIdx.x == 0) least = ~0u, largest = 0;
  __syncthreads();
  const u32 pixel = stream < px.n_streams ? pixel_of_stream[stream] : 0;
  const bool counted = stream < px.n_streams && (valid[pixel / 32] >> pixel % 32 & 1);
  const u32 used = counted ? static_cast<u32>(px.used[block * px.n_streams + stream]) : 0;
  Found f;
  // What others have found bounds the search; an old value is as good as none.
  f.least = __shfl_sync(~0u, *static_cast<volatile u32*>(&totals->count_min), 0) == 0 ? 0 : ~0u;
  f.key = __shfl_sync(~0u, *static_cast<volatile u64*>(max_key + block), 0);
  audit_streams(px, rows, block, first, used, counted ? pixel : ~0u, item_bits, saturation, f);
  const u32 found[4] = {f.n_nonzero, f.n_above_255, f.n_above_65535, f.n_saturated};
  for (u32 i = 0; i < 4; ++i) {
    const u32 n = __reduce_add_sync(~0u, found[i]);
    if (lane == 0 && n) atomicAdd(sums + i, n);
  }
  if (lane == 0) {
    atomicMin(&least, f.least);
    atomicMax(reinterpret_cast<unsigned long long*>(&largest), static_cast<unsigned long long>(f.key));
  }
  __syncthreads();
  if (threadIdx.x < 4 && sums[threadIdx.x])
    atomicAdd(reinterpret_cast<unsigned long long*>(&totals->n_nonzero) + threadIdx.x,
              static_cast<unsigned long long>(sums[threadIdx.x]));
  if (threadIdx.x == 0) {
    if (least != ~0u) atomicMin(&totals->count_min, least);
    if (largest)
      atomicMax(reinterpret_cast<unsigned long long*>(max_key + block), static_cast<unsigned long long>(largest));
  }
}

}  // namespace

void start_audit(const Slices& pixels, const PlaneRows& rows, const u32* pixel_of_stream, const u32* valid,
                 u32 item_bits, u64 saturation, Totals* totals, u64* max_key, u32 n_blocks, cudaStream_t stream) {
  audit_values<<<dim3((pixels.n_streams + 255) / 256, n_blocks), 256, 0, stream>>>(
      pixels, rows, pixel_of_stream, valid, item_bits, saturation, totals, max_key);
}

}  // namespace quantem::sliced_encode
