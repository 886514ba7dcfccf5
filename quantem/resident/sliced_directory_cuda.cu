// Where every stream goes, and putting it there. 32 neighbouring streams of a block are a group.
//
//   decide_widths   thread = stream of a block    grid: streams / 256, blocks; bound by launch and latency
//   scan_groups     CTA of 1024 = block           a prefix sum over the groups
//   place_streams   warp = group of a block       grid: groups / 4, blocks; bound by memory: planes go once in, once out. Directory,
//                   planes and lists; eight planes at a time, whichever streams they belong to
//   mean_costs      thread = stream               once a load
// What is decided is what BlockWriter (sliced_encode.h) decides: the same widths, lists and order, byte for byte.

#include <cuda_runtime.h>

#include "quantem/resident/sliced_encode.cuh"

namespace quantem::sliced_encode {
namespace {

constexpr u32 kGroup = 32;
__host__ __device__ constexpr u32 n_groups_of(u32 n_streams) {
  return (n_streams + kGroup - 1) / kGroup;
}

// Sums over this lane and the lanes before it.
__device__ __forceinline__ u32 upto(u32 v) {
  const u32 lane = threadIdx.x % 32;
#pragma unroll
  for (u32 d = 1; d < 32; d *= 2)
    if (const u32 x = __shfl_up_sync(~0u, v, d); lane >= d) v += x;
  return v;
}

// The smallest width whose planes above are all listable, as BlockWriter decides it; and how much its group needs.
__global__ void decide_widths(Slices px, Slices tiles, u16* cut, uint2* groups) {
  const u32 n_all = px.n_streams + tiles.n_streams, stream = blockIdx.x * blockDim.x + threadIdx.x;
  const u64 block = blockIdx.y;
  u32 width = 0, listed = 0;
  if (stream < n_all) {
    const Slices& s = stream < px.n_streams ? px : tiles;
    const u64 at = block * s.n_streams + (stream < px.n_streams ? stream : stream - px.n_streams);
    const u64 used = s.used[at];
    width = 64 - __clzll(static_cast<long long>(used));
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
  const uint2 needs = make_uint2(__reduce_add_sync(~0u, width), __reduce_add_sync(~0u, listed));
  if (threadIdx.x % kGroup == 0 && stream < n_all) groups[block * n_groups_of(n_all) + stream / kGroup] = needs;
}

// CTA per block, a thread per group: needs -> planes and listed bits in front of each group.
__global__ void __launch_bounds__(1024)
    scan_groups(SlicedDeviceView view, uint2* groups, u32* list_start, uint2* totals, u64 first_block) {
  __shared__ uint2 of_warp[32];
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, n = n_groups_of(view.n_streams);
  const u64 block = first_block + blockIdx.x;
  uint2* mine = groups + u64{blockIdx.x} * n;
  uint2 before = make_uint2(0, 0);
  for (u32 group0 = 0; group0 < n; group0 += 1024) {
    const u32 group = group0 + threadIdx.x;
    const uint2 needs = group < n ? mine[group] : make_uint2(0, 0);
    const u32 planes = upto(needs.x), listed = upto(needs.y);
    __syncthreads();
    if (lane == 31) of_warp[warp] = make_uint2(planes, listed);
    __syncthreads();
    const uint2 w = of_warp[lane];
    const u32 x = upto(w.x), y = upto(w.y);
    const u32 warps_x = __shfl_sync(~0u, x, warp ? warp - 1 : 0), warps_y = __shfl_sync(~0u, y, warp ? warp - 1 : 0);
    const uint2 start = make_uint2(before.x + (warp ? warps_x : 0) + planes - needs.x,
                                   before.y + (warp ? warps_y : 0) + listed - needs.y);
    if (group < n) mine[group] = start;
    if (group < n && group % 2 == 0) list_start[directory_index(block, group / 2, view.n_sixty_fours)] = start.y;
    before.x += __shfl_sync(~0u, x, 31);
    before.y += __shfl_sync(~0u, y, 31);
  }
  if (threadIdx.x == 0) totals[blockIdx.x] = before;
}

// What a warp puts away: its streams, and a table of their planes.
struct Group {
  const u32* from[kGroup];  // planes of a stream
  u64 used[kGroup];         // which of them were written; the others are zero
  u16 items[kGroup * 48];   // stream << 6 | plane, in the order of the volume
};

// Fills the table with planes [first, end) of this lane's stream, those of `which`; returns how many the group has.
__device__ __forceinline__ u32 fill_items(Group& g, u64 which) {
  const u32 lane = threadIdx.x % 32, n = __popcll(which), end = upto(n);
  __syncwarp();
  u16* to = g.items + end - n;
  for (u64 left = which; left; left &= left - 1)
    *to++ = static_cast<u16>(lane << 6 | (__ffsll(static_cast<long long>(left)) - 1));
  __syncwarp();
  return __shfl_sync(~0u, end, 31);
}
// Four words of an item: lane i has words 4 (i % 4) .. + 3 of item i / 4 of eight.
__device__ __forceinline__ uint4 load_item(const Group& g, u32 item, u32 n_items) {
  if (item >= n_items) return make_uint4(0, 0, 0, 0);
  const u32 stream = g.items[item] >> 6, p = g.items[item] & 63;
  if (!(g.used[stream] >> p & 1)) return make_uint4(0, 0, 0, 0);
  return reinterpret_cast<const uint4*>(g.from[stream])[p * (kWords / 4) + threadIdx.x % 4];
}
__device__ void place_planes(const Group& g, u32 n_items, uint4* to) {
  const u32 lane = threadIdx.x % 32;
  for (u32 first = 0; first < n_items; first += 32) {
    uint4 v[4];
#pragma unroll
    for (u32 i = 0; i < 4; ++i) v[i] = load_item(g, first + 8 * i + lane / 4, n_items);
#pragma unroll
    for (u32 i = 0; i < 4; ++i)
      if (const u32 item = first + 8 * i + lane / 4; item < n_items) to[item * 4 + lane % 4] = v[i];
  }
}
// The set bits of the items, in order of item and position.
__device__ void place_lists(const Group& g, u32 n_items, u16* to) {
  const u32 lane = threadIdx.x % 32;
  uint4 next = load_item(g, lane / 4, n_items);
  for (u32 first = 0; first < n_items; first += 8) {
    const u32 word[4] = {next.x, next.y, next.z, next.w}, item = first + lane / 4;
    next = load_item(g, item + 8, n_items);
    const u32 n = __popc(word[0]) + __popc(word[1]) + __popc(word[2]) + __popc(word[3]), end = upto(n);
    const u32 plane = item < n_items ? g.items[item] & 63 : 0;
    u16* at = to + end - n;
#pragma unroll
    for (u32 i = 0; i < 4; ++i)
      for (u32 m = word[i]; m; m &= m - 1)
        *at++ = static_cast<u16>((lane % 4 * 128 + i * 32 + __ffs(m) - 1) << 2 | plane << 11);
    to += __shfl_sync(~0u, end, 31);
  }
}

// A warp per group: its part of the directory, planes below the widths, the set bits of the others.
__global__ void __launch_bounds__(128)
    place_streams(Slices px, Slices tiles, SlicedDeviceView view, u32* directory, u16* list_end,
                  const u16* __restrict__ cut, const uint2* __restrict__ groups, u64 first_block) {
  __shared__ Group shared[4];
  const u32 lane = threadIdx.x % 32, n = view.n_streams, n_groups = n_groups_of(n);
  const u32 group = blockIdx.x * 4 + threadIdx.x / 32, stream = group * kGroup + lane;
  if (group >= n_groups) return;
  Group& g = shared[threadIdx.x / 32];
  const u64 block = blockIdx.y, to_block = first_block + block;
  const u32 here = stream < n ? cut[block * n + stream] : 0, width = here & 63, listed = here >> 6;
  const Slices& s = stream < px.n_streams ? px : tiles;
  const u64 at = block * s.n_streams + (stream < px.n_streams ? stream : stream - px.n_streams);
  const u64 used = stream < n ? s.used[at] : 0;
  g.from[lane] = s.planes + at * s.n_planes * kWords;
  g.used[lane] = used;
  const uint2 start = groups[block * n_groups + group];
  const u32 planes_end = upto(width), listed_end = upto(listed);
  const u32 before =
      start.y - groups[block * n_groups + group / 2 * 2].y;  // listed in the other half of the 64 streams
  if (stream < n) {
    directory[directory_index(to_block, stream, n)] = (start.x + planes_end - width) << 6 | width;
    list_end[directory_index(to_block, stream, n)] = static_cast<u16>(before + listed_end);
  }
  const u32 n_planes = fill_items(g, (u64{1} << width) - 1);
  place_planes(g, n_planes, reinterpret_cast<uint4*>(view.plane_base[to_block]) + u64{start.x} * (kWords / 4));
  const u32 n_listed = fill_items(g, used >> width << width);
  place_lists(g, n_listed, reinterpret_cast<u16*>(view.list_base[to_block]) + start.y);
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

u64 group_bytes(u32 n_streams) {
  return u64{n_groups_of(n_streams)} * sizeof(uint2);
}

void start_widths(const Slices& pixels, const Slices& tiles, u16* cut, uint2* groups, u32 n_blocks,
                  cudaStream_t stream) {
  const u32 n_streams = pixels.n_streams + tiles.n_streams;
  decide_widths<<<dim3((n_streams + 255) / 256, n_blocks), 256, 0, stream>>>(pixels, tiles, cut, groups);
}

void start_scan(const SlicedDeviceView& view, const Directory& directory, uint2* groups, uint2* totals, u64 first_block,
                u32 n_blocks, cudaStream_t stream) {
  scan_groups<<<n_blocks, 1024, 0, stream>>>(view, groups, directory.list_start, totals, first_block);
}

void start_place(const Slices& pixels, const Slices& tiles, const SlicedDeviceView& view, const Directory& directory,
                 const u16* cut, const uint2* groups, u64 first_block, u32 n_blocks, cudaStream_t stream) {
  place_streams<<<dim3((n_groups_of(view.n_streams) + 3) / 4, n_blocks), 128, 0, stream>>>(
      pixels, tiles, view, directory.entry, directory.list_end, cut, groups, first_block);
}

void start_mean_costs(const SlicedDeviceView& view, float* planes, float* listed, cudaStream_t stream) {
  mean_costs<<<(view.n_streams + 255) / 256, 256, 0, stream>>>(view, planes, listed);
}

}  // namespace quantem::sliced_encode
