#pragma once
// How kernels of this area go over an image: four values a thread and step, the one to three that are left by the first CTA.

#include <cuda_runtime.h>

#include <cstdint>

namespace quantem::display_detail {

// Calls see(value) for the thread's share of n values (16-byte aligned); every thread of CTAs of `Threads` takes part.
template <std::uint32_t Threads, class See>
__device__ __forceinline__ void each_value(const float* values, std::uint32_t n, const See& see) {
  const std::uint32_t n_fours = n / 4;
  const auto* fours = reinterpret_cast<const float4*>(values);
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * Threads + threadIdx.x; i < n_fours;
       i += std::uint64_t{gridDim.x} * Threads) {
    const float4 v = __ldg(fours + i);
    see(v.x), see(v.y), see(v.z), see(v.w);
  }
  if (blockIdx.x == 0 && threadIdx.x < n % 4) see(values[std::uint64_t{n_fours} * 4 + threadIdx.x]);
}

}  // namespace quantem::display_detail
