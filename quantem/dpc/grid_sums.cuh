#pragma once
// Sums over all threads of a grid in an order that does not depend on the order in which blocks end.

#include <cuda_runtime.h>

#include <cstdint>

namespace quantem::dpc_detail {

inline constexpr std::uint32_t kThreads = 256;  // of every block here
inline constexpr int kMostSums = 10;

// Over the block, into thread 0. `shared` is read by thread 0 alone: a barrier before it is used again.
template <int N>
__device__ void add_block(double (&x)[N], double (*shared)[kMostSums]) {
  const std::uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
  for (int k = 0; k < N; ++k)
    for (int step = 16; step > 0; step /= 2) x[k] += __shfl_down_sync(0xffffffffu, x[k], step);
  if (lane == 0)
    for (int k = 0; k < N; ++k) shared[warp][k] = x[k];
  __syncthreads();
  if (threadIdx.x == 0)
    for (std::uint32_t w = 1; w < kThreads / 32; ++w)
      for (int k = 0; k < N; ++k) x[k] += shared[w][k];
}

// True in one thread of the grid, which has the sums in x. `partials`: N for each block; `counter` is 0 before and after.
// Every thread of the block takes part.
template <int N>
__device__ bool add_grid(double (&x)[N], double* partials, std::uint32_t* counter) {
  static_assert(N <= kMostSums);
  __shared__ double shared[kThreads / 32][kMostSums];
  __shared__ bool is_last;
  add_block(x, shared);
  if (threadIdx.x == 0) {
    for (int k = 0; k < N; ++k) partials[std::uint64_t{blockIdx.x} * N + k] = x[k];
    __threadfence();
    is_last = atomicAdd(counter, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (!is_last) return false;
  __threadfence();
#pragma unroll
  for (int k = 0; k < N; ++k) x[k] = 0;
  for (std::uint32_t b = threadIdx.x; b < gridDim.x; b += kThreads)
#pragma unroll
    for (int k = 0; k < N; ++k) x[k] += __ldcg(partials + std::uint64_t{b} * N + k);  // L2: another SM wrote it
  add_block(x, shared);
  if (threadIdx.x != 0) return false;
  *counter = 0;
  return true;
}

}  // namespace quantem::dpc_detail
