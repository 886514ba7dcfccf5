// The value audit of a slab: counts of notable values, the smallest count, and the largest with its first place, over valid pixels of present
// frames. Reads every plane that holds a one once; works on 32 positions at a time, never on integers.
//
//   audit_values   half-warp = pixel stream of a block, lane = a word of 32 positions; grid: pixels / 16, blocks
//                  bound by the latency of the planes' loads, hidden behind the other lane's slab

#include <cuda_runtime.h>

#include "quantem/resident/sliced_encode.cuh"

namespace quantem::sliced_encode {
namespace {

using namespace bits;

// A half-warp per pixel stream. max_key[block]: value, then 511 - position, then the pixel from above: the largest key is the largest
// value at the first position, there at the first pixel.
__global__ void __launch_bounds__(256)
    audit_values(Slices px, PlaneRows rows, const u32* __restrict__ pixel_of_stream, const u32* __restrict__ valid,
                 u32 item_bits, u64 saturation, Totals* totals, u64* max_key) {
  __shared__ u32 sums[4], least;
  __shared__ u64 largest;
  const u32 k = threadIdx.x % 16, stream = (blockIdx.x * blockDim.x + threadIdx.x) / 16;
  const u64 block = blockIdx.y;
  if (threadIdx.x < 4) sums[threadIdx.x] = 0;
  if (threadIdx.x == 0) least = ~0u, largest = 0;
  __syncthreads();
  const bool mine = stream < px.n_streams;
  const u32 pixel = mine ? pixel_of_stream[stream] : 0;
  const bool counted = mine && (valid[pixel / 32] >> pixel % 32 & 1);
  const u64 at = block * px.n_streams + (mine ? stream : 0);
  const u32 used = counted ? static_cast<u32>(px.used[at]) : 0, here = rows.present[block * kWords + k];
  const u32* from = px.planes + at * px.n_planes * kWords + k;
  const auto plane = [&](u32 p) { return used >> p & 1 ? from[p * kWords] : 0; };
  u32 nonzero = 0, above_255 = 0, above_65535 = 0, at_least = here, candidates = here, value = 0;
  // from the top: `equal` are positions whose high bits equal those of the saturation value, `above` those that passed it
  u32 equal = here, above = 0;
  for (int p = static_cast<int>(item_bits) - 1; p >= 0; --p) {
    const u32 x = plane(p);
    nonzero |= x;
    if (p >= 8) above_255 |= x;
    if (p >= 16) above_65535 |= x;
    if (saturation >> p & 1)
      equal &= x;
    else
      above |= equal & x, equal &= ~x;
    const bool any = half_warp_any(candidates & x);
    if (any) candidates &= x, value |= 1u << p;
  }
  at_least = saturation >> item_bits ? 0 : equal | above;
  // the smallest value: 0 when a present position has no bit; else search downwards
  u32 low = here, smallest = 0;
  for (int p = static_cast<int>(item_bits) - 1; p >= 0; --p) {
    const u32 without = low & ~plane(p);
    if (half_warp_any(without))
      low = without;
    else
      smallest |= 1u << p;
  }
  const bool has_frame = half_warp_any(here);
  const u32 n0 = half_warp_sum(__popc(nonzero)), n1 = half_warp_sum(__popc(above_255)),
            n2 = half_warp_sum(__popc(above_65535)), n3 = half_warp_sum(counted ? __popc(at_least) : 0);
  u32 position = candidates ? k * 32 + __ffs(candidates) - 1 : 511;
  for (int d = 8; d; d /= 2) position = min(position, __shfl_xor_sync(~0u, position, d));
  if (k == 0 && counted && has_frame) {
    if (n0) atomicAdd(sums, n0);
    if (n1) atomicAdd(sums + 1, n1);
    if (n2) atomicAdd(sums + 2, n2);
    if (n3) atomicAdd(sums + 3, n3);
    atomicMin(&least, smallest);
    const u64 key = u64{value} << 32 | u64{511 - position} << 23 | ((1u << 23) - 1 - pixel);
    atomicMax(reinterpret_cast<unsigned long long*>(&largest), static_cast<unsigned long long>(key));
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
  audit_values<<<dim3((pixels.n_streams + 15) / 16, n_blocks), 256, 0, stream>>>(
      pixels, rows, pixel_of_stream, valid, item_bits, saturation, totals, max_key);
}

}  // namespace quantem::sliced_encode
