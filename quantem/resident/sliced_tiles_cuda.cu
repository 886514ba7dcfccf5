// Sums over 8x8 and 32x32 detector tiles and first moments over 32x32 ones, bit-sliced: 32 positions an operation, two LOP3 a plane.
//
//   sum_tiles   CTA of 256 = one 32x32 tile of one block; half-warp = one of its 16 8x8 tiles, lane = a word of 32 positions
//               grid: 32x32 tiles, blocks; started twice, for narrow and for wide pixels (see the kernel)
//               1.7 ms without moments, bound by the latency of loads (24 % occupancy, DRAM 43 %)
// Planes that hold no one are neither read nor written. Exact: every sum has all the bits it needs, W + 6 ... W + 15.

#include <cuda_runtime.h>

#include "quantem/resident/sliced_encode.cuh"

namespace quantem::sliced_encode {
namespace {

using namespace bits;

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

}  // namespace

cudaError_t allow_tiles() {
  return cudaFuncSetAttribute(sum_tiles<true>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              static_cast<int>(tiles_shared_bytes(32)));
}

void start_tiles(const Slices& pixels, const Slices& tiles, const Geometry& geometry, u32 item_bits, u32 n_blocks,
                 cudaStream_t stream) {
  const dim3 grid(geometry.n_tiles32, n_blocks);
  sum_tiles<false><<<grid, 256, tiles_shared_bytes(7), stream>>>(pixels, tiles, geometry);
  sum_tiles<true><<<grid, 256, tiles_shared_bytes(item_bits), stream>>>(pixels, tiles, geometry);
}

}  // namespace quantem::sliced_encode
