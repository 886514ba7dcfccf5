// Sums over 8x8 and 32x32 (and 4x4) detector tiles and first moments over 32x32 ones, bit-sliced: 32 positions an operation, two LOP3 a
// plane.
//
//   sum_tiles   CTA of 256 = one 32x32 tile of one block; half-warp = one of its 16 8x8 tiles, lane = a word of 32 positions
//               grid: 32x32 tiles, blocks
// Bit by bit, like adding by hand: of plane p the ones of a tile's 64 pixels are counted, the count is added to what plane p - 1 carried
// over, the lowest bit of the result is plane p of the tile's sum and the rest is carried on. What is carried stays below what one plane
// can add (64 for the sum, 224 for a moment), whatever the width of the pixels, so one kernel in few registers serves them all, and all
// 288 CTAs of a slab are resident at once. Planes that hold no one are neither read nor written. Exact: every sum has all its bits.

#include <cuda_runtime.h>

#include "quantem/resident/sliced_encode.cuh"

namespace quantem::sliced_encode {
namespace {

using namespace bits;

// A half-warp stores plane p of one stream, of which lane k holds word k; `at` is the stream's first plane. All 32 lanes come here;
// `store` may be false.
__device__ __forceinline__ void store_plane(const Slices& out, u64 at, u32 p, u32 word, bool store, u64& used) {
  const u32 k = threadIdx.x % 16, n = half_warp_sum(__popc(word));
  if (n == 0 || !store) return;
  used |= u64{1} << p;
  out.planes[(at + p) * kWords + k] = word;
  if (k == 0) out.set_bits[at + p] = static_cast<u16>(n);
}

// What the planes so far carry over to the next one, of an 8x8 tile: at most 63, 223, 223, and below 128, 448, 448 with that plane added.
// Of its 4x4 tiles, row-major: at most 15, below 32; without them nothing is kept there.
struct Carried {
  Sliced<7> total;
  Sliced<9> row, col;
  Sliced<5> of_4[4];
};

// Adds one plane of the tile's pixels, two rows (16 loads) at a time. `from` is the plane's word of the first pixel, pixels are kStride
// words apart; bit 8 r + c of `which`: the pixel in row r, column c has ones in this plane.
template <u32 kStride, bool kTiles4>
__device__ __forceinline__ void add_plane(const u32* from, u32 n_cols, u64 which, Carried& sums) {
#pragma unroll 1
  for (u32 pair = 0; pair < 4; ++pair, which >>= 16, from += 2 * n_cols * kStride) {
    const u32 here = static_cast<u32>(which) & 0xffff;
    if (here == 0) continue;
    const u32* next_row = from + n_cols * kStride;
    u32 x[8], y[8];
#pragma unroll
    for (u32 c = 0; c < 8; ++c) x[c] = here >> c & 1 ? __ldg(from + c * kStride) : 0;
#pragma unroll
    for (u32 c = 0; c < 8; ++c) y[c] = here >> (8 + c) & 1 ? __ldg(next_row + c * kStride) : 0;
    const Sliced<4> left = count_of_8(x[0], x[1], x[2], x[3], y[0], y[1], y[2], y[3]),
                    right = count_of_8(x[4], x[5], x[6], x[7], y[4], y[5], y[6], y[7]);
    const Sliced<5> both = sum<5>(left, right);
    add(sums.total, both);
    if constexpr (kTiles4) {
      if (pair < 2) {
        add(sums.of_4[0], left);
        add(sums.of_4[1], right);
      } else {
        add(sums.of_4[2], left);
        add(sums.of_4[3], right);
      }
    }
    add(sums.row, count_of_8(y[0], y[1], y[2], y[3], y[4], y[5], y[6], y[7]));
    if (pair & 1) add<1>(sums.row, both);
    if (pair & 2) add<2>(sums.row, both);
    Sliced<6> col = {};  // columns by the bits of their number; at most 8 + 16 + 32
    add(col, count_of_8(x[1], x[3], x[5], x[7], y[1], y[3], y[5], y[7]));
    add<1>(col, count_of_8(x[2], x[3], x[6], x[7], y[2], y[3], y[6], y[7]));
    add<2>(col, right);
    add(sums.col, col);
  }
}

// One plane of the 8x8 tiles of a 32x32 tile: [sum, row moment, column moment][tile][word].
using TilePlanes = u32[3][16][kWords];

__device__ __forceinline__ Sliced<5> count_of_16(const u32 (&tiles)[16][kWords], u32 k, u32 swap) {
  u32 x[16];
#pragma unroll
  for (u32 t = 0; t < 16; ++t) x[t] = tiles[t ^ swap][k];
  return sum<5>(count_of_8(x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]),
                count_of_8(x[8], x[9], x[10], x[11], x[12], x[13], x[14], x[15]));
}

// Adds one plane of the 16 8x8 tiles to a first moment of the 32x32 tile: theirs, and eight times their row or column of tiles times
// their sums. At most 16 + 8 * 8 + 16 * 8 = 208 a plane, so at most 207 are carried over. axis 0: rows, 1: columns.
__device__ __forceinline__ void add_moments(const TilePlanes& tiles, u32 axis, u32 k, Sliced<9>& moment) {
  add(moment, count_of_16(tiles[1 + axis], k, axis));  // the halves of a warp in different banks
  const u32 along = axis == 0 ? 4 : 1, across = axis == 0 ? 1 : 4;
  Sliced<3> at[4];
#pragma unroll
  for (u32 a = 1; a < 4; ++a) {
    Sliced<1> x[4];
#pragma unroll
    for (u32 b = 0; b < 4; ++b) x[b].plane[0] = tiles[0][a * along + b * across][k];
    at[a] = sum_of_4(x);
  }
  add<3>(moment, sum<4>(at[1], at[3]));
  add<4>(moment, sum<4>(at[2], at[3]));
}

// The streams of the 4x4 tiles of an 8x8 tile, which follow each other: how many in rows and columns, and the first plane of the first.
struct Tiles4 {
  u32 rows, cols;
  u64 stream;
};
__device__ __forceinline__ Tiles4 tiles4_of(const Slices& out, const Geometry& g, u64 block, u32 tr, u32 tc,
                                            bool inside) {
  if (!inside) return {0, 0, 0};
  const u32 rows = min(2u, g.tiles4_rows - 2 * tr), cols = min(2u, g.tiles4_cols - 2 * tc);
  return {rows, cols, block * out.n_streams + g.n_tiles8 + 3 * g.n_tiles32 + tr * 2 * g.tiles4_cols + rows * tc * 2};
}

// The 8x8 tiles run up to kGroup planes ahead of warps 0 and 1, which add them up to the 32x32 sum and to its two moments.
// kItemBits: planes that a pixel has room for.
template <u32 kItemBits, bool kTiles4>
__global__ void __launch_bounds__(256, kTiles4 ? 2 : 3) sum_tiles(Slices px, Slices out, Geometry g) {
  constexpr u32 kGroup = 4;
  __shared__ TilePlanes shared[2][kGroup];
  __shared__ u32 used;
  const u32 lane = threadIdx.x % 32, k = threadIdx.x % 16, half = lane / 16, t = threadIdx.x / 16,
            warp = threadIdx.x / 32, big = blockIdx.x;
  const u64 block = blockIdx.y;
  const u32 tr = big / g.tiles32_cols * 4 + t / 4, tc = big % g.tiles32_cols * 4 + t % 4;  // of the 8x8 tile
  const bool inside = tr * 8 < g.det_rows && tc * 8 < g.det_cols;
  const u32 n_rows = inside ? min(8u, g.det_rows - tr * 8) : 0, n_cols = inside ? min(8u, g.det_cols - tc * 8) : 0;
  const u64 first = block * px.n_streams + tr * 8 * g.det_cols + n_rows * tc * 8;
  if (threadIdx.x == 0) used = 0;
  u32 mine[4];  // planes of the pixels in row 2 j + k / 8, column k % 8
#pragma unroll
  for (u32 j = 0; j < 4; ++j) {
    const u32 r = 2 * j + k / 8, c = k % 8;
    mine[j] = r < n_rows && c < n_cols ? static_cast<u32>(__ldg(px.used + first + r * n_cols + c)) : 0;
  }
  const u32 of_warp = __reduce_or_sync(~0u, mine[0] | mine[1] | mine[2] | mine[3]);
  __syncthreads();
  if (lane == 0 && of_warp) atomicOr(&used, of_warp);
  __syncthreads();
  const u32 widest = 32 - __clz(used), widest_of_warp = 32 - __clz(of_warp);
  // A 32x32 moment is below 15872 * 2^widest, an 8x8 one below 224 * 2^widest.
  const u32 n_planes = widest ? widest + 14 : 0, n_planes8 = widest + 8;

  constexpr u32 kStride = kItemBits * kWords;
  const u32* from = px.planes + first * kStride + k;
  const u64 at8 = (block * out.n_streams + tr * g.tiles8_cols + tc) * out.n_planes;
  const u64 stream32 = block * out.n_streams + g.n_tiles8 + (warp == 0 ? big : g.n_tiles32 + 2 * big + half);
  Carried sums = {};
  Sliced<9> carried32 = {};  // of the 32x32 sum (at most 15) or moment
  u64 used8 = 0, used32 = 0, used4[4] = {};
  [[maybe_unused]] Tiles4 small{};
  if constexpr (kTiles4) small = tiles4_of(out, g, block, tr, tc, inside);
  for (u32 p0 = 0; p0 < n_planes; p0 += kGroup) {
    TilePlanes* planes = shared[p0 / kGroup % 2];  // the other one is still read
#pragma unroll 1
    for (u32 i = 0; i < kGroup; ++i) {
      const u32 p = p0 + i;
      if (p < widest_of_warp) {
        u64 which = 0;
#pragma unroll
        for (u32 j = 0; j < 4; ++j) which |= u64{__ballot_sync(~0u, mine[j] >> p & 1) >> 16 * half & 0xffff} << 16 * j;
        add_plane<kStride, kTiles4>(from + p * kWords, n_cols, which, sums);
        __syncwarp();
      }
      const u32 total = take_lowest(sums.total);
      planes[i][0][t][k] = total;
      planes[i][1][t][k] = take_lowest(sums.row);
      planes[i][2][t][k] = take_lowest(sums.col);
      store_plane(out, at8, p, total, inside, used8);
      if constexpr (kTiles4) {
#pragma unroll
        for (u32 q = 0; q < 4; ++q)
          store_plane(out, (small.stream + q / 2 * small.cols + q % 2) * out.n_planes, p, take_lowest(sums.of_4[q]),
                      q / 2 < small.rows && q % 2 < small.cols, used4[q]);
      }
    }
    __syncthreads();
    if (warp > 1) continue;
#pragma unroll 1
    for (u32 i = 0; i < kGroup; ++i) {
      const bool more = p0 + i < n_planes8;
      if (more && warp == 0) add(carried32, count_of_16(planes[i][0], k, 0));
      if (more && warp == 1) add_moments(planes[i], half, k, carried32);
      store_plane(out, stream32 * out.n_planes, p0 + i, take_lowest(carried32), warp == 1 || half == 0, used32);
    }
  }
  if (k != 0) return;
  if (inside) out.used[block * out.n_streams + tr * g.tiles8_cols + tc] = used8;
  if constexpr (kTiles4) {
#pragma unroll
    for (u32 q = 0; q < 4; ++q)
      if (q / 2 < small.rows && q % 2 < small.cols) out.used[small.stream + q / 2 * small.cols + q % 2] = used4[q];
  }
  if (warp == 1 || threadIdx.x == 0) out.used[stream32] = used32;
}

template <bool kTiles4>
void start(const Slices& pixels, const Slices& tiles, const Geometry& geometry, u32 n_blocks, cudaStream_t stream) {
  const dim3 grid(geometry.n_tiles32, n_blocks);
  switch (pixels.n_planes) {
    case 8:
      sum_tiles<8, kTiles4><<<grid, 256, 0, stream>>>(pixels, tiles, geometry);
      break;
    case 16:
      sum_tiles<16, kTiles4><<<grid, 256, 0, stream>>>(pixels, tiles, geometry);
      break;
    default:
      sum_tiles<32, kTiles4><<<grid, 256, 0, stream>>>(pixels, tiles, geometry);
  }
}

}  // namespace

void start_tiles(const Slices& pixels, const Slices& tiles, const Geometry& geometry, u32 n_blocks,
                 cudaStream_t stream) {
  if (geometry.tiles4_cols)
    start<true>(pixels, tiles, geometry, n_blocks, stream);
  else
    start<false>(pixels, tiles, geometry, n_blocks, stream);
}

}  // namespace quantem::sliced_encode
