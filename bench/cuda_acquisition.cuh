#pragma once
// The acquisition of bench/acquisition.h, made on the device: dense frames for reference, and plain sums over them.

#include <cuda_runtime.h>

#include <cstdint>

#include "tests/support/splitmix64.h"

namespace quantem::bench {

// A thread a pixel, a CTA row a frame. Poisson by inversion of one uniform number.
template <class T>
__global__ void generate(T* counts, const float* mean, std::uint64_t n_positions, std::uint32_t n_pixels,
                         std::uint64_t seed) {
  const std::uint32_t pixel = blockIdx.x * blockDim.x + threadIdx.x;
  if (pixel >= n_pixels) return;
  for (std::uint64_t n = blockIdx.y; n < n_positions; n += gridDim.y) {
    const std::uint64_t at = n * n_pixels + pixel;
    const float expected = mean[pixel] * (1 + 0.3f * sinf(static_cast<float>(n) / 37));
    const float uniform = static_cast<float>(support::splitmix64(seed + at) >> 40) * 0x1p-24f;
    float term = expf(-expected), below = term;
    std::uint32_t k = 0;
    while (uniform >= below && k < 200) below += term *= expected / static_cast<float>(++k);
    counts[at] = static_cast<T>(k);
  }
}

// A warp a frame: sums over listed pixels, and their first moments.
template <class T>
__global__ void direct_moments(const T* counts, const std::uint32_t* pixels, std::uint32_t n_listed,
                               std::uint64_t n_positions, std::uint32_t n_pixels, std::uint32_t det_cols,
                               std::uint32_t* total, std::uint32_t* row, std::uint32_t* col) {
  const std::uint64_t n = (std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  if (n >= n_positions) return;
  const std::uint32_t lane = threadIdx.x % 32;
  std::uint32_t sum[3] = {};  // below 2^32 for these counts: 192 * 65535
  for (std::uint32_t i = lane; i < n_listed; i += 32) {
    const std::uint32_t p = pixels[i], v = counts[n * n_pixels + p];
    sum[0] += v, sum[1] += v * (p / det_cols), sum[2] += v * (p % det_cols);
  }
  for (std::uint32_t& s : sum)
    for (int step = 16; step > 0; step /= 2) s += __shfl_down_sync(0xffffffffu, s, step);
  if (lane == 0) total[n] = sum[0], row[n] = sum[1], col[n] = sum[2];
}

// A thread a pixel: sums over rows x cols positions from (row, col) on; every gridDim.y-th row a CTA.
template <class T>
__global__ void direct_pattern(const T* counts, std::uint32_t n_pixels, std::uint32_t scan_cols, std::uint32_t row,
                               std::uint32_t col, std::uint32_t rows, std::uint32_t cols, std::uint64_t* sums) {
  const std::uint32_t pixel = blockIdx.x * blockDim.x + threadIdx.x;
  if (pixel >= n_pixels) return;
  std::uint64_t sum = 0;
  for (std::uint32_t r = blockIdx.y; r < rows; r += gridDim.y)
    for (std::uint32_t c = 0; c < cols; ++c)
      sum += counts[(std::uint64_t{row + r} * scan_cols + col + c) * n_pixels + pixel];
  atomicAdd(reinterpret_cast<unsigned long long*>(sums + pixel), static_cast<unsigned long long>(sum));
}

template <class T>
__global__ void count_different(const T* a, const T* b, std::uint64_t n, std::uint64_t period,
                                std::uint32_t* n_different) {
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n;
       i += std::uint64_t{gridDim.x} * blockDim.x)
    if (a[i] != b[i % period]) atomicAdd(n_different, 1u);
}

// Reads n 16-byte words once: gives the ceiling of reading, and empties the L2 cache.
__global__ void sweep(const uint4* words, std::uint64_t n, std::uint32_t* out) {
  const std::uint64_t step = std::uint64_t{gridDim.x} * blockDim.x;
  std::uint32_t a = 0;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i + 3 * step < n; i += 4 * step) {
    const uint4 q[4] = {__ldg(words + i), __ldg(words + i + step), __ldg(words + i + 2 * step),
                        __ldg(words + i + 3 * step)};
    for (const uint4& x : q) a ^= x.x ^ x.y ^ x.z ^ x.w;
  }
  if (a == 0x12345) *out = a;
}
// Keeps the queue busy, so that what follows is not timed from an idle device.
__global__ void delay() {
  for (int i = 0; i < 20; ++i) __nanosleep(1000);
}

}  // namespace quantem::bench
