#include "quantem/resident/sliced_device_encode.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "quantem/resident/device_bits.cuh"

namespace quantem {
namespace {

using namespace bits;

constexpr u32 kWords = kBlockPositions / 32;  // of a plane

// Streams of a slab before they have a place: every plane apart, empty ones not written.
//   planes[((block * n_streams + stream) * n_planes + p) * 16 + word], written where bit p of used is set
//   set_bits[(block * n_streams + stream) * n_planes + p], likewise
struct Slices {
  u32* planes;
  u16* set_bits;
  u64* used;  // [block * n_streams + stream]
  u32 n_streams, n_planes;
};

// Everything of one lane.
struct Lane {
  PlaneRows rows;
  Slices pixels, tiles;
  u16* cut;       // [block][stream]: width | listed << 6
  uint2* totals;  // [block]: planes, listed bits
};

struct Totals {  // of the audit, in device memory, for the whole load
  u64 n_nonzero, n_above_255, n_above_65535, n_saturated;
  u32 count_min, padding;
  u64 n_flagged;
};

struct Geometry {
  u32 det_rows, det_cols, n_pixels, tiles8_cols, tiles32_cols, n_tiles8, n_tiles32;
};

// ---------------------------------------------------------------------------------------------------------------- rows
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

// ----------------------------------------------------------------------------------------------------------- transpose
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
    u32 a[32];
#pragma unroll
    for (u32 r = 0; r < 32; ++r) a[r] = alive >> r & 1 ? __ldcs(from + r * rows.row_words) : 0;
    transpose(a);
    __syncthreads();  // the plane before has been read
#pragma unroll
    for (u32 j = 0; j < 32; ++j) tile[(c * 32 + j) * kWords + (k ^ c)] = a[j];
    __syncthreads();
#pragma unroll 4
    for (u32 i = 0; i < 32; ++i) {
      const u32 pixel = i * 16 + k, v = tile[pixel * kWords + (c ^ (pixel / 32))], n = half_warp_sum(__popc(v));
      if (n == 0 || stream[pixel] == ~0u) continue;
      const u64 at = (block * out.n_streams + stream[pixel]) * out.n_planes + p;
      out.planes[at * kWords + c] = v;
      if (c == 0) {
        out.set_bits[at] = static_cast<u16>(n);
        used[pixel] |= 1u << p;
      }
    }
  }
  __syncthreads();
  for (u32 i = threadIdx.x; i < 512; i += 256)
    if (stream[i] != ~0u) out.used[block * out.n_streams + stream[i]] = used[i];
}

// --------------------------------------------------------------------------------------------------------------- tiles
// A half-warp stores one stream of which lane k holds word k of every plane. All 32 lanes come here; `store` may be false.
template <int N>
__device__ __forceinline__ void store_stream(const Slices& out, u64 block, u32 stream, const Sliced<N>& s, bool store) {
  const u32 k = threadIdx.x % 16;
  u64 used = 0;
  const u64 at = (block * out.n_streams + stream) * out.n_planes;
#pragma unroll
  for (int p = 0; p < N; ++p) {
    const u32 n = half_warp_sum(__popc(s.plane[p]));
    if (n == 0 || !store) continue;
    used |= u64{1} << p;
    out.planes[(at + p) * kWords + k] = s.plane[p];
    if (k == 0) out.set_bits[at + p] = static_cast<u16>(n);
  }
  if (store && k == 0) out.used[block * out.n_streams + stream] = used;
}

// Thread = word k of one 8x8 tile: its sum and first moments, from W planes a pixel. Row sums are made once and serve both the sum and the
// row moment; column sums stay in registers until the end.
template <int W>
struct TileSums {
  Sliced<W + 6> total;
  Sliced<W + 9> row, col;
};
template <int W>
__device__ __forceinline__ void sum_tile8(const Slices& px, u64 block, u32 first, u32 n_rows, u32 n_cols, u32 k,
                                          TileSums<W>& t) {
  t = {};
  Sliced<W + 3> cols[8] = {};
#pragma unroll 1
  for (u32 r = 0; r < n_rows; ++r) {
    Sliced<W + 3> row = {};
#pragma unroll
    for (u32 c = 0; c < 8; ++c) {
      if (c >= n_cols) continue;
      const u64 stream = block * px.n_streams + first + r * n_cols + c;
      const u32 used = static_cast<u32>(__ldg(px.used + stream));
      const u32* from = px.planes + stream * px.n_planes * kWords + k;
      Sliced<W> v;
#pragma unroll
      for (int p = 0; p < W; ++p) v.plane[p] = used >> p & 1 ? __ldg(from + p * kWords) : 0;
      add(row, v);
      add(cols[c], v);
    }
    add(t.total, row);
    if (r & 1) add<0>(t.row, row);
    if (r & 2) add<1>(t.row, row);
    if (r & 4) add<2>(t.row, row);
  }
#pragma unroll
  for (u32 c = 1; c < 8; ++c) {
    if (c & 1) add<0>(t.col, cols[c]);
    if (c & 2) add<1>(t.col, cols[c]);
    if (c & 4) add<2>(t.col, cols[c]);
  }
}

// The 16 8x8 tiles of a 32x32 tile, half-warp t each; then three half-warps add them up: the sum, the row moment, the column moment.
template <int W>
__device__ void sum_tile32(const Slices& px, const Slices& out, const Geometry& g, u64 block, u32 big, u32* shared) {
  const u32 k = threadIdx.x % 16, t = threadIdx.x / 16;
  const u32 tr = big / g.tiles32_cols * 4 + t / 4, tc = big % g.tiles32_cols * 4 + t % 4;  // of the 8x8 tile
  const bool inside = tr * 8 < g.det_rows && tc * 8 < g.det_cols;
  TileSums<W> sums = {};
  if (inside) {
    const u32 n_rows = min(8u, g.det_rows - tr * 8), n_cols = min(8u, g.det_cols - tc * 8);
    sum_tile8<W>(px, block, tr * 8 * g.det_cols + n_rows * tc * 8, n_rows, n_cols, k, sums);
  }
  __syncwarp();
  store_stream(out, block, tr * g.tiles8_cols + tc, sums.total, inside);
  const auto give = [&](const auto& s, int n) {  // to shared[plane][tile][word]
    __syncthreads();
    for (int p = 0; p < n; ++p) shared[(p * 16 + t) * 16 + k] = s.plane[p];
    __syncthreads();
  };
  const auto take = [&]<int N>(u32 tile, Sliced<N>& s) {
#pragma unroll
    for (int p = 0; p < N; ++p) s.plane[p] = shared[(p * 16 + tile) * 16 + k];
  };
  // Warps 0, 1 and 2 add; both halves of each do the same work, the first stores.
  const u32 role = threadIdx.x / 32;
  Sliced<W + 10> total = {};
  Sliced<W + 15> moment = {};
  give(sums.total, W + 6);
  if (role < 3)
    for (u32 i = 0; i < 16; ++i) {
      Sliced<W + 6> s;
      take(i, s);
      if (role == 0) add(total, s);
      const u32 coarse = role == 1 ? i / 4 : i % 4;  // rows or columns of eight in front of the tile
      if (role > 0 && coarse & 1) add<3>(moment, s);
      if (role > 0 && coarse & 2) add<4>(moment, s);
    }
  for (const u32 axis : {1u, 2u}) {
    axis == 1 ? give(sums.row, W + 9) : give(sums.col, W + 9);
    if (role == axis)
      for (u32 i = 0; i < 16; ++i) {
        Sliced<W + 9> s;
        take(i, s);
        add(moment, s);
      }
  }
  const bool first_half = threadIdx.x % 32 < 16;
  if (role == 0) store_stream(out, block, g.n_tiles8 + big, total, first_half);
  if (role == 1 || role == 2)
    store_stream(out, block, g.n_tiles8 + g.n_tiles32 + 2 * big + role - 1, moment, first_half);
}

// The widest pixel of the tile decides which of two kernels takes it, so that the usual narrow one keeps its registers; the other
// returns at once.
template <bool kWide>
__global__ void __launch_bounds__(256) sum_tiles(Slices px, Slices out, Geometry g) {
  extern __shared__ u32 shared[];
  __shared__ u32 used;
  const u32 big = blockIdx.x;
  const u64 block = blockIdx.y;
  if (threadIdx.x == 0) used = 0;
  __syncthreads();
  // The tile's pixels lie in at most four runs of streams, one a row of 8x8 tiles.
  const u32 row0 = big / g.tiles32_cols * 32, col0 = big % g.tiles32_cols * 32, n_cols = min(32u, g.det_cols - col0);
  u32 mine = 0;
  for (u32 i = threadIdx.x; i < 32 * 32; i += 256) {
    const u32 r = row0 + i / 32, c = i % 32;
    if (r >= g.det_rows || c >= n_cols) continue;
    const u32 tile_rows = min(8u, g.det_rows - r / 8 * 8), first = r / 8 * 8 * g.det_cols + tile_rows * col0;
    mine |= static_cast<u32>(__ldg(px.used + block * px.n_streams + first + r % 8 * n_cols + c));
  }
  mine = __reduce_or_sync(~0u, mine);
  if (threadIdx.x % 32 == 0 && mine) atomicOr(&used, mine);
  __syncthreads();
  const u32 widest = 32 - __clz(used);
  if constexpr (kWide) {
    if (widest <= 7) return;
    if (widest <= 16)
      sum_tile32<16>(px, out, g, block, big, shared);
    else
      sum_tile32<32>(px, out, g, block, big, shared);
  } else {
    if (widest <= 4)
      sum_tile32<4>(px, out, g, block, big, shared);
    else if (widest <= 7)
      sum_tile32<7>(px, out, g, block, big, shared);
  }
}
constexpr u32 tiles_shared_bytes(u32 widest) {
  return ((widest <= 7 ? 7 : widest <= 16 ? 16 : 32) + 9) * 16 * 16 * 4;
}

// ------------------------------------------------------------------------------------------------- widths and offsets
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

// --------------------------------------------------------------------------------------------------------------- place
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

// --------------------------------------------------------------------------------------------------------------- audit
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

// ------------------------------------------------------------------------------------------------------------ the builder
struct SlicedDeviceBuilder::State {
  CudaContext* context = nullptr;
  Options options;
  Geometry geometry{};
  std::shared_ptr<SlicedDevice> volume;
  std::uint64_t n_padded_blocks = 0;
  DeviceMemory stream_of_pixel, valid, totals, max_key, flagged;
  std::uint64_t flagged_capacity = 0;
  struct OneLane {
    Lane lane{};
    cudaStream_t stream = nullptr;
    cudaEvent_t offsets_done = nullptr;
    uint2* host_totals = nullptr;         // pinned
    std::uint64_t* host_bases = nullptr;  // pinned: plane bases, then list bases, of the slab
    std::uint64_t first_block = 0;
    std::uint32_t n_blocks = 0;  // 0: nothing to place
    std::vector<DeviceMemory> memory;
  };
  std::vector<OneLane> lanes;
  // The segment that blocks are placed into; a new one when the next slab does not fit.
  std::uint64_t segment_used = 0;
  std::vector<double> plane_totals;  // of all blocks, for the estimate of a segment's size
  std::uint64_t bytes_placed = 0, blocks_placed = 0;

  ~State() {
    for (OneLane& l : lanes) {
      if (l.stream) cudaStreamSynchronize(l.stream), cudaStreamDestroy(l.stream);
      if (l.offsets_done) cudaEventDestroy(l.offsets_done);
      cudaFreeHost(l.host_totals);
      cudaFreeHost(l.host_bases);
    }
  }
  [[nodiscard]] std::uint32_t n_streams() const { return options.layout.n_streams; }
};

namespace {

// Device bytes of one lane, by part.
struct LaneBytes {
  std::uint64_t words, live, present, pixel_planes, pixel_counts, pixel_used, tile_planes, tile_counts, tile_used, cut,
      totals;
  [[nodiscard]] std::uint64_t sum() const {
    return words + live + present + pixel_planes + pixel_counts + pixel_used + tile_planes + tile_counts + tile_used +
           cut + totals;
  }
};
LaneBytes lane_bytes(const SlicedDeviceBuilder::Options& o) {
  const std::uint64_t blocks = o.slab_blocks, px = o.layout.n_pixels, tiles = o.layout.n_streams - px,
                      planes = o.item_bits, tile_planes = o.item_bits + 15, words = row_words_of(o.layout.n_pixels);
  return {blocks * planes * kBlockPositions * words * 4,
          blocks * ((words + kSegmentWords - 1) / kSegmentWords) * kBlockPositions * 4,
          blocks * kWords * 4,
          blocks * px * planes * kPlaneBytes,
          blocks * px * planes * 2,
          blocks * px * 8,
          blocks * tiles * tile_planes * kPlaneBytes,
          blocks * tiles * tile_planes * 2,
          blocks * tiles * 8,
          blocks * o.layout.n_streams * 2,
          blocks * 8};
}

constexpr std::uint64_t kFlaggedCapacity = std::uint64_t{1} << 20;

}  // namespace

std::uint64_t SlicedDeviceBuilder::work_bytes(const Options& o) {
  return o.n_lanes * lane_bytes(o).sum();
}

SlicedDeviceBuilder::SlicedDeviceBuilder(std::unique_ptr<State> state) : state_(std::move(state)) {}
SlicedDeviceBuilder::~SlicedDeviceBuilder() = default;

CudaStream* SlicedDeviceBuilder::stream(std::uint32_t lane) const {
  return reinterpret_cast<CudaStream*>(state_->lanes[lane].stream);
}
PlaneRows SlicedDeviceBuilder::rows(std::uint32_t lane) const {
  return state_->lanes[lane].lane.rows;
}

Result<std::unique_ptr<SlicedDeviceBuilder>> SlicedDeviceBuilder::make(CudaContext& context, const Options& o) {
  if (o.layout.n_pixels >= 1u << 23)
    return Error{Code::unsupported,
                 "cuda: a frame of " + std::to_string(o.layout.n_pixels) + " pixels; at most 8388607"};
  auto state = std::make_unique<State>();
  State& s = *state;
  s.context = &context;
  s.options = o;
  const SlicedLayout& layout = o.layout;
  s.geometry = {layout.det.rows,     layout.det.cols, layout.n_pixels, layout.tiles8.cols,
                layout.tiles32.cols, layout.n_tiles8, layout.n_tiles32};
  const std::uint64_t n_blocks = (o.n_positions + kBlockPositions - 1) / kBlockPositions;
  s.n_padded_blocks = (n_blocks + kBlocksTogether - 1) / kBlocksTogether * kBlocksTogether;
  s.volume = std::make_shared<SlicedDevice>();
  SlicedDevice& v = *s.volume;
  v.layout = layout;
  v.n_positions = o.n_positions;
  const std::uint32_t n_streams = layout.n_streams, n_sixty_fours = (n_streams + 63) / 64;
  const auto zeroed = [&](DeviceMemory& to, std::uint64_t n_bytes, const char* what) -> Result<Done> {
    QUANTEM_TRY_ASSIGN(memory, context.allocate(n_bytes, what));
    to = std::move(memory);
    return context.check(cudaMemset(to.data(), 0, n_bytes), what);
  };
  QUANTEM_TRY(zeroed(v.bases, 16 * s.n_padded_blocks, "block addresses"));
  QUANTEM_TRY(zeroed(v.directory, 4 * s.n_padded_blocks * n_streams, "directory"));
  QUANTEM_TRY(zeroed(v.list_end, 2 * s.n_padded_blocks * n_streams, "directory"));
  QUANTEM_TRY(zeroed(v.list_start, 4 * s.n_padded_blocks * n_sixty_fours, "directory"));
  QUANTEM_TRY(zeroed(v.pixel_of_stream, 4ull * layout.n_pixels, "pixel order"));
  QUANTEM_TRY(zeroed(s.stream_of_pixel, 4ull * layout.n_pixels, "pixel order"));
  QUANTEM_TRY(zeroed(s.valid, 4ull * row_words_of(layout.n_pixels), "pixel mask"));
  QUANTEM_TRY(zeroed(s.totals, sizeof(Totals), "audit"));
  QUANTEM_TRY(zeroed(s.max_key, 8 * s.n_padded_blocks, "audit"));
  QUANTEM_TRY(context.copy_up(v.pixel_of_stream.data(), layout.pixel_of_stream.data(), 4ull * layout.n_pixels));
  QUANTEM_TRY(context.copy_up(s.stream_of_pixel.data(), layout.stream_of_pixel.data(), 4ull * layout.n_pixels));
  QUANTEM_TRY(context.copy_up(s.valid.data(), o.valid_pixels.words().data(), (o.valid_pixels.count() + 31) / 32 * 4));
  Totals none{};
  none.count_min = ~0u;
  QUANTEM_TRY(context.copy_up(s.totals.data(), &none, sizeof none));
  if (o.item_bits == 32) {
    QUANTEM_TRY(zeroed(s.flagged, kFlaggedCapacity * sizeof(FlaggedSample), "flagged samples"));
    s.flagged_capacity = kFlaggedCapacity;
  }
  v.view = {v.bases.as<u64>(),      v.bases.as<u64>() + s.n_padded_blocks,
            v.directory.as<u32>(),  v.list_end.as<u16>(),
            v.list_start.as<u32>(), n_streams,
            n_sixty_fours,          static_cast<u32>(n_blocks)};
  const LaneBytes bytes = lane_bytes(o);
  s.lanes.resize(o.n_lanes);
  for (State::OneLane& l : s.lanes) {
    const auto take = [&](std::uint64_t n_bytes) -> Result<void*> {
      QUANTEM_TRY_ASSIGN(memory, context.allocate(n_bytes, "work area of the load"));
      l.memory.push_back(std::move(memory));
      return l.memory.back().data();
    };
    const auto set = [&](auto*& pointer, std::uint64_t n_bytes) -> Result<Done> {
      QUANTEM_TRY_ASSIGN(data, take(n_bytes));
      pointer = static_cast<std::remove_reference_t<decltype(pointer)>>(data);
      return Done{};
    };
    Lane& lane = l.lane;
    QUANTEM_TRY(set(lane.rows.words, bytes.words));
    QUANTEM_TRY(set(lane.rows.live, bytes.live));
    QUANTEM_TRY(set(lane.rows.present, bytes.present));
    lane.rows.n_planes = o.item_bits;
    lane.rows.row_words = row_words_of(layout.n_pixels);
    lane.rows.n_segments = (lane.rows.row_words + kSegmentWords - 1) / kSegmentWords;
    QUANTEM_TRY(set(lane.pixels.planes, bytes.pixel_planes));
    QUANTEM_TRY(set(lane.pixels.set_bits, bytes.pixel_counts));
    QUANTEM_TRY(set(lane.pixels.used, bytes.pixel_used));
    lane.pixels.n_streams = layout.n_pixels;
    lane.pixels.n_planes = o.item_bits;
    QUANTEM_TRY(set(lane.tiles.planes, bytes.tile_planes));
    QUANTEM_TRY(set(lane.tiles.set_bits, bytes.tile_counts));
    QUANTEM_TRY(set(lane.tiles.used, bytes.tile_used));
    lane.tiles.n_streams = n_streams - layout.n_pixels;
    lane.tiles.n_planes = o.item_bits + 15;
    QUANTEM_TRY(set(lane.cut, bytes.cut));
    QUANTEM_TRY(set(lane.totals, bytes.totals));
    QUANTEM_TRY(context.check(cudaStreamCreateWithFlags(&l.stream, cudaStreamNonBlocking), "load stream"));
    QUANTEM_TRY(context.check(cudaEventCreateWithFlags(&l.offsets_done, cudaEventDisableTiming), "load event"));
    QUANTEM_TRY(context.check(cudaHostAlloc(reinterpret_cast<void**>(&l.host_totals), 8ull * o.slab_blocks, 0),
                              "pinned totals"));
    QUANTEM_TRY(context.check(cudaHostAlloc(reinterpret_cast<void**>(&l.host_bases), 16ull * o.slab_blocks, 0),
                              "pinned totals"));
  }
  QUANTEM_TRY(context.check(cudaFuncSetAttribute(sum_tiles<true>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                 static_cast<int>(tiles_shared_bytes(32))),
                            "tile sums"));
  QUANTEM_TRY(context.check(cudaDeviceSynchronize(), "load set-up"));
  return std::unique_ptr<SlicedDeviceBuilder>(new SlicedDeviceBuilder(std::move(state)));
}

Result<Done> SlicedDeviceBuilder::rows_from_values(std::uint32_t lane, const void* values, std::uint32_t n_frames) {
  State& s = *state_;
  State::OneLane& l = s.lanes[lane];
  const PlaneRows& rows = l.lane.rows;
  QUANTEM_TRY(s.context->check(cudaMemsetAsync(rows.live, 0, lane_bytes(s.options).live, l.stream), "encode"));
  const dim3 grid((rows.row_words + 7) / 8, n_frames);
  const u32 n_pixels = s.options.layout.n_pixels;
  const u32* valid = s.valid.as<u32>();
  switch (s.options.item_bits) {
    case 8:
      values_to_rows<<<grid, 256, 0, l.stream>>>(rows, static_cast<const u8*>(values), valid, n_pixels, n_frames);
      break;
    case 16:
      values_to_rows<<<grid, 256, 0, l.stream>>>(rows, static_cast<const u16*>(values), valid, n_pixels, n_frames);
      break;
    default:
      values_to_rows<<<grid, 256, 0, l.stream>>>(rows, static_cast<const u32*>(values), valid, n_pixels, n_frames);
  }
  return s.context->check(cudaGetLastError(), "encode: values to planes");
}

Result<Done> SlicedDeviceBuilder::clear_flagged(std::uint32_t lane, std::uint64_t first_block, std::uint32_t n_blocks) {
  State& s = *state_;
  if (s.options.item_bits != 32) return Done{};
  const PlaneRows& rows = s.lanes[lane].lane.rows;
  const u32 n_frames = n_blocks * kBlockPositions;
  clear_flagged_samples<<<dim3((rows.row_words + 127) / 128, n_frames), 128, 0, s.lanes[lane].stream>>>(
      rows, first_block * kBlockPositions, n_frames, s.flagged.as<FlaggedSample>(), s.flagged_capacity,
      s.totals.as<Totals>());
  return s.context->check(cudaGetLastError(), "encode: flagged samples");
}

Result<Done> SlicedDeviceBuilder::encode(std::uint32_t lane, std::uint64_t first_block, std::uint32_t n_blocks) {
  State& s = *state_;
  State::OneLane& l = s.lanes[lane];
  const Lane& d = l.lane;
  const SlicedDeviceView& view = s.volume->view;
  const u32 n_pixels = s.options.layout.n_pixels;
  const double saturation = std::isfinite(s.options.saturation) ? s.options.saturation : 0x1p60;
  l.first_block = first_block;
  l.n_blocks = n_blocks;
  transpose_rows<<<dim3(d.rows.row_words / kWords, n_blocks), 256, 0, l.stream>>>(
      d.rows, d.pixels, s.stream_of_pixel.as<u32>(), n_pixels);
  const dim3 tiles(s.geometry.n_tiles32, n_blocks);
  sum_tiles<false><<<tiles, 256, tiles_shared_bytes(7), l.stream>>>(d.pixels, d.tiles, s.geometry);
  sum_tiles<true><<<tiles, 256, tiles_shared_bytes(s.options.item_bits), l.stream>>>(d.pixels, d.tiles, s.geometry);
  decide_widths<<<dim3((view.n_streams + 255) / 256, n_blocks), 256, 0, l.stream>>>(d.pixels, d.tiles, d.cut, n_blocks);
  write_directory<<<n_blocks, 1024, 0, l.stream>>>(view, s.volume->directory.as<u32>(), s.volume->list_end.as<u16>(),
                                                   s.volume->list_start.as<u32>(), d.cut, d.totals, first_block);
  QUANTEM_TRY(s.context->check(cudaGetLastError(), "encode"));
  QUANTEM_TRY(s.context->check(
      cudaMemcpyAsync(l.host_totals, d.totals, 8ull * n_blocks, cudaMemcpyDeviceToHost, l.stream), "encode"));
  QUANTEM_TRY(s.context->check(cudaEventRecord(l.offsets_done, l.stream), "encode"));
  audit_values<<<dim3((n_pixels + 15) / 16, n_blocks), 256, 0, l.stream>>>(
      d.pixels, d.rows, s.volume->pixel_of_stream.as<u32>(), s.valid.as<u32>(), s.options.item_bits,
      static_cast<u64>(std::ceil(saturation)), s.totals.as<Totals>(), s.max_key.as<u64>() + first_block);
  return s.context->check(cudaGetLastError(), "encode: audit");
}

Result<Done> SlicedDeviceBuilder::place(std::uint32_t lane) {
  State& s = *state_;
  State::OneLane& l = s.lanes[lane];
  if (l.n_blocks == 0) return Done{};
  QUANTEM_TRY(s.context->check(cudaEventSynchronize(l.offsets_done), "load"));
  std::uint64_t need = 0;
  for (std::uint32_t b = 0; b < l.n_blocks; ++b) {
    const std::uint64_t plane_bytes = std::uint64_t{l.host_totals[b].x} * kPlaneBytes,
                        list_bytes = (2ull * l.host_totals[b].y + 63) / 64 * 64;
    if (plane_bytes > 0xffffffffu - kPlaneBytes)
      return Error{
          Code::unsupported,
          "load: the planes of block " + std::to_string(l.first_block + b) + " take " + std::to_string(plane_bytes) +
              " bytes, a block holds at most 4 GiB. Ways out: representation dense, a scan region, a detector bin"};
    l.host_bases[b] = need;
    l.host_bases[l.n_blocks + b] = need + plane_bytes;
    need += plane_bytes + list_bytes;
  }
  std::vector<DeviceMemory>& segments = s.volume->segments;
  if (segments.empty() || segments.back().n_bytes() - s.segment_used < need) {
    // What is still to come, from the blocks so far (this slab included), in pieces of at most 256 MiB; never less than this slab.
    const std::uint64_t blocks_left = s.volume->view.n_blocks - s.blocks_placed;
    const double per_block =
        static_cast<double>(s.bytes_placed + need) / static_cast<double>(s.blocks_placed + l.n_blocks);
    const auto expected = static_cast<std::uint64_t>(1.02 * per_block * static_cast<double>(blocks_left));
    const std::uint64_t size = std::max(need, std::min<std::uint64_t>(expected, std::uint64_t{256} << 20));
    QUANTEM_TRY_ASSIGN(segment, s.context->allocate(size, "load: planes and lists of the volume"));
    segments.push_back(std::move(segment));
    s.segment_used = 0;
  }
  const std::uint64_t base = reinterpret_cast<std::uint64_t>(segments.back().data()) + s.segment_used;
  s.segment_used += need;
  s.bytes_placed += need;
  s.blocks_placed += l.n_blocks;
  for (std::uint32_t b = 0; b < 2 * l.n_blocks; ++b) l.host_bases[b] += base;
  u64* bases = s.volume->bases.as<u64>();
  for (int list = 0; list < 2; ++list)
    QUANTEM_TRY(s.context->check(
        cudaMemcpyAsync(bases + list * s.n_padded_blocks + l.first_block, l.host_bases + list * l.n_blocks,
                        8ull * l.n_blocks, cudaMemcpyHostToDevice, l.stream),
        "load"));
  const SlicedDeviceView& view = s.volume->view;
  place_streams<<<dim3((view.n_streams + 7) / 8, l.n_blocks), 256, 0, l.stream>>>(l.lane.pixels, l.lane.tiles, view,
                                                                                  l.first_block);
  l.n_blocks = 0;
  return s.context->check(cudaGetLastError(), "load: place");
}

namespace {
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

Result<std::shared_ptr<const SlicedDevice>> SlicedDeviceBuilder::finish(DeviceAudit& audit,
                                                                        std::vector<FlaggedSample>& flagged) {
  State& s = *state_;
  for (std::uint32_t lane = 0; lane < s.options.n_lanes; ++lane) QUANTEM_TRY(place(lane));
  SlicedDevice& v = *s.volume;
  QUANTEM_TRY_ASSIGN(costs, s.context->allocate(8ull * s.n_streams(), "stream costs"));
  for (State::OneLane& l : s.lanes) QUANTEM_TRY(s.context->check(cudaStreamSynchronize(l.stream), "load"));
  mean_costs<<<(s.n_streams() + 255) / 256, 256, 0, s.lanes[0].stream>>>(v.view, costs.as<float>(),
                                                                         costs.as<float>() + s.n_streams());
  QUANTEM_TRY(s.context->check(cudaStreamSynchronize(s.lanes[0].stream), "load"));
  v.mean_planes.resize(s.n_streams());
  v.mean_listed.resize(s.n_streams());
  QUANTEM_TRY(s.context->copy_down(v.mean_planes.data(), costs.data(), 4ull * s.n_streams()));
  QUANTEM_TRY(s.context->copy_down(v.mean_listed.data(), costs.as<float>() + s.n_streams(), 4ull * s.n_streams()));
  Totals totals{};
  QUANTEM_TRY(s.context->copy_down(&totals, s.totals.data(), sizeof totals));
  std::vector<std::uint64_t> keys(s.n_padded_blocks);
  QUANTEM_TRY(s.context->copy_down(keys.data(), s.max_key.data(), 8 * keys.size()));
  audit = {totals.n_nonzero,
           totals.n_above_255,
           totals.n_above_65535,
           totals.n_saturated,
           totals.count_min == ~0u ? 0 : totals.count_min,
           0,
           0,
           0};
  std::uint64_t best = 0;
  for (std::uint64_t b = 0; b < keys.size(); ++b) {
    if (keys[b] == 0 || (best != 0 && keys[b] >> 32 <= best >> 32)) continue;  // the first block wins a tie
    best = keys[b];
    audit.count_max = static_cast<std::uint32_t>(best >> 32);
    audit.max_position = b * kBlockPositions + 511 - (best >> 23 & 511);
    audit.max_pixel = (1u << 23) - 1 - static_cast<std::uint32_t>(best & ((1u << 23) - 1));
  }
  if (totals.n_flagged > s.flagged_capacity)
    return Error{Code::unsupported, "cuda: " + std::to_string(totals.n_flagged) +
                                        " samples without a value, the device keeps at most " +
                                        std::to_string(s.flagged_capacity)};
  flagged.resize(totals.n_flagged);
  if (totals.n_flagged)
    QUANTEM_TRY(s.context->copy_down(flagged.data(), s.flagged.data(), totals.n_flagged * sizeof(FlaggedSample)));
  std::sort(flagged.begin(), flagged.end());
  return Result<std::shared_ptr<const SlicedDevice>>(std::shared_ptr<const SlicedDevice>(s.volume));
}

}  // namespace quantem
