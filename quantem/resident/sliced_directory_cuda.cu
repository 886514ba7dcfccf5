// Where every stream goes, and putting it there.
//
//   decide_widths     thread = stream of a block    grid: streams / 256, blocks   0.7 ms, bound by launch and latency
//   write_directory   CTA of 1024 = block           a prefix sum over the streams, 64 a thread
//   place_streams     warp = stream of a block      grid: streams / 8, blocks     bound by memory: planes go once in, once out
//   mean_costs        thread = stream               once a load
// What is decided is what BlockWriter (sliced_encode.h) decides: the same widths, lists and order, byte for byte.

#include <cuda_runtime.h>

#include "quantem/resident/sliced_encode.cuh"

namespace quantem::sliced_encode {
namespace {

// The smallest width whose planes above are all listable, as BlockWriter decides it.
__global__ void decide_widths(Slices px, Slices tiles, u16* cut, u32 n_blocks) {
  const u32 n_all = px.n_streams + tiles.n_streams, stream = blockIdx.x * blockDim.x + threadIdx.x;
  const u64 block = blockIdx.y;
  if (stream >= n_all || block >= n_blocks) return;
  const Slices& s = stream < px.n_streams ? px : tiles;
  const u64 at = block * s.n_streams + (stream < px.n_streams ? stream : stream - px.n_streams);
  const u64 used = s.used[at];
  u32 width = 64 - __clzll(static_cast<long long>(used)), listed = 0;
  while (width > 0) {
    const u32 p = width - 1;
    if (used >> p & 1) {
      const u32 n = s.set_bits[at * s.n_planes + p];
      if (n >= kListThreshold || listed + n > kMaxListed || p > kMaxListedPlane) break;
      listed += n;
    }
    --width;
  }
  cut[block * n_all + stream] = static_cast<u16>(width | listed << 6);
}

// CTA per block, a thread per 64 streams at a time: planes and listed bits in front of each stream.
__global__ void __launch_bounds__(1024)
    write_directory(SlicedDeviceView view, u32* directory, u16* list_end, u32* list_start, const u16* __restrict__ cut,
                    uint2* totals, u64 first_block) {
  __shared__ u32 planes_of[32], listed_of[32];
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, n = view.n_streams;
  const u64 block = first_block + blockIdx.x;
  const u16* mine = cut + u64{blockIdx.x} * n;
  u32 planes_before = 0, listed_before = 0;
  for (u32 group0 = 0; group0 < view.n_sixty_fours; group0 += 1024) {
    const u32 group = group0 + threadIdx.x, from = group * 64, to = min(from + 64, n);
    u32 planes = 0, listed = 0;
    for (u32 s = from; s < to; ++s) planes += mine[s] & 63, listed += mine[s] >> 6;
    u32 planes_upto = planes, listed_upto = listed;
    for (int d = 1; d < 32; d *= 2) {
      const u32 x = __shfl_up_sync(~0u, planes_upto, d), y = __shfl_up_sync(~0u, listed_upto, d);
      if (lane >= d) planes_upto += x, listed_upto += y;
    }
    __syncthreads();
    if (lane == 31) planes_of[warp] = planes_upto, listed_of[warp] = listed_upto;
    __syncthreads();
    u32 x = planes_of[lane], y = listed_of[lane];
    for (int d = 1; d < 32; d *= 2) {
      const u32 a = __shfl_up_sync(~0u, x, d), b = __shfl_up_sync(~0u, y, d);
      if (lane >= d) x += a, y += b;
    }
    const u32 warps_planes = warp ? __shfl_sync(~0u, x, warp - 1) : 0,
              warps_listed = warp ? __shfl_sync(~0u, y, warp - 1) : 0;
    u32 plane = planes_before + warps_planes + planes_upto - planes;
    const u32 start = listed_before + warps_listed + listed_upto - listed;
    u32 end = 0;
    if (group < view.n_sixty_fours) list_start[directory_index(block, group, view.n_sixty_fours)] = start;
    for (u32 s = from; s < to; ++s) {
      const u32 width = mine[s] & 63;
      end += mine[s] >> 6;
      directory[directory_index(block, s, n)] = plane << 6 | width;
      list_end[directory_index(block, s, n)] = static_cast<u16>(end);
      plane += width;
    }
    planes_before += __shfl_sync(~0u, x, 31);
    listed_before += __shfl_sync(~0u, y, 31);
  }
  if (threadIdx.x == 0) totals[blockIdx.x] = make_uint2(planes_before, listed_before);
}

// A warp per stream: planes below the width, two at a time, 64 bytes each; the set bits of the others in order of plane and position.
__global__ void __launch_bounds__(256) place_streams(Slices px, Slices tiles, SlicedDeviceView view, u64 first_block) {
  const u32 lane = threadIdx.x % 32, k = lane % 16, stream = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  if (stream >= view.n_streams) return;
  const u64 block = blockIdx.y, to_block = first_block + block;
  const Slices& s = stream < px.n_streams ? px : tiles;
  const u64 at = block * s.n_streams + (stream < px.n_streams ? stream : stream - px.n_streams);
  const u64 used = s.used[at];
  if (!used) return;
  const u32 entry = view.directory[directory_index(to_block, stream, view.n_streams)], width = entry & 63;
  u32* planes = reinterpret_cast<u32*>(view.plane_base[to_block] + (entry & ~63u));
  const u32* from = s.planes + at * s.n_planes * kWords + k;
  for (u32 p = lane / 16; p < width; p += 2) planes[p * kWords + k] = used >> p & 1 ? from[p * kWords] : 0;
  u64 above = used >> width << width;
  if (!above) return;
  const u32 start = view.list_start[directory_index(to_block, stream / 64, view.n_sixty_fours)] +
                    (stream % 64 ? view.list_end[directory_index(to_block, stream - 1, view.n_streams)] : 0);
  u16* list = reinterpret_cast<u16*>(view.list_base[to_block]) + start;
  for (; above; above &= above - 1) {
    const u32 p = __ffsll(static_cast<long long>(above)) - 1;
    const u32 word = lane < 16 ? from[p * kWords] : 0, n = __popc(word);
    u32 upto = n;
    for (int d = 1; d < 16; d *= 2)
      if (const u32 x = __shfl_up_sync(~0u, upto, d); lane >= d) upto += x;
    u16* to = list + upto - n;
    for (u32 m = word; m; m &= m - 1) *to++ = static_cast<u16>((k * 32 + __ffs(m) - 1) << 2 | p << 11);
    list += __shfl_sync(~0u, upto, 15);
  }
}

// Means over blocks of planes and listed bits of each stream: what the planner needs. A thread per stream.
__global__ void mean_costs(SlicedDeviceView view, float* planes, float* listed) {
  const u32 stream = blockIdx.x * blockDim.x + threadIdx.x;
  if (stream >= view.n_streams) return;
  u64 n_planes = 0, n_listed = 0;
  for (u32 b = 0; b < view.n_blocks; ++b) {
    n_planes += view.directory[directory_index(b, stream, view.n_streams)] & 63;
    n_listed += view.list_end[directory_index(b, stream, view.n_streams)] -
                (stream % 64 ? view.list_end[directory_index(b, stream - 1, view.n_streams)] : 0);
  }
  planes[stream] = static_cast<float>(n_planes) / view.n_blocks;
  listed[stream] = static_cast<float>(n_listed) / view.n_blocks;
}

}  // namespace

void start_widths(const Slices& pixels, const Slices& tiles, u16* cut, u32 n_blocks, cudaStream_t stream) {
  const u32 n_streams = pixels.n_streams + tiles.n_streams;
  decide_widths<<<dim3((n_streams + 255) / 256, n_blocks), 256, 0, stream>>>(pixels, tiles, cut, n_blocks);
}

void start_directory(const SlicedDeviceView& view, const Directory& directory, const u16* cut, uint2* totals,
                     u64 first_block, u32 n_blocks, cudaStream_t stream) {
  write_directory<<<n_blocks, 1024, 0, stream>>>(view, directory.entry, directory.list_end, directory.list_start, cut,
                                                 totals, first_block);
}

void start_place(const Slices& pixels, const Slices& tiles, const SlicedDeviceView& view, u64 first_block, u32 n_blocks,
                 cudaStream_t stream) {
  place_streams<<<dim3((view.n_streams + 7) / 8, n_blocks), 256, 0, stream>>>(pixels, tiles, view, first_block);
}

void start_mean_costs(const SlicedDeviceView& view, float* planes, float* listed, cudaStream_t stream) {
  mean_costs<<<(view.n_streams + 255) / 256, 256, 0, stream>>>(view, planes, listed);
}

}  // namespace quantem::sliced_encode
