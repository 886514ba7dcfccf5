// Copies between the host and images on a device, and their missing elements.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>

#include "quantem/resident/device_image.h"
#include "quantem/runtime/current_device.cuh"
#include "quantem/runtime/thread_pool.h"

namespace quantem {
namespace {

constexpr std::uint64_t kStagingBytes = std::uint64_t{64} << 20, kPart = std::uint64_t{256} << 10;

cudaStream_t stream_of(const CudaContext& context) {
  return reinterpret_cast<cudaStream_t>(context.query_stream());
}

void copy_on_host(void* to, const void* from, std::uint64_t n_bytes) {
  parallel_for((n_bytes + kPart - 1) / kPart, [&](std::uint64_t i) {
    std::memcpy(static_cast<char*>(to) + i * kPart, static_cast<const char*>(from) + i * kPart,
                std::min(kPart, n_bytes - i * kPart));
  });
}

// A thread takes one element; those with a value are neither read nor written.
__global__ void __launch_bounds__(256) mark_missing(float* values, const std::uint32_t* valid, std::uint64_t n) {
  const std::uint64_t i = std::uint64_t{blockIdx.x} * 256 + threadIdx.x;
  if (i < n && !(__ldg(valid + i / 32) >> (i % 32) & 1)) values[i] = __uint_as_float(0x7FC00000u);
}

}  // namespace

Result<Done> mark_missing_on_device(CudaContext& context, float* values, const std::uint32_t* valid, std::uint64_t n) {
  const CurrentDevice current(context.device());
  const std::uint64_t n_ctas = (n + 255) / 256;
  if (n_ctas > 0x7fffffff)
    return Error{Code::unsupported, "image on the device: " + std::to_string(n) + " elements do not fit one launch"};
  mark_missing<<<static_cast<unsigned>(n_ctas), 256, 0, stream_of(context)>>>(values, valid, n);
  return context.check(cudaGetLastError(), "missing elements");
}

Result<Done> send_up(CudaContext& context, void* device_data, const void* host_data, std::uint64_t n_bytes) {
  const CurrentDevice current(context.device());
  for (std::uint64_t at = 0; at < n_bytes; at += kStagingBytes) {
    const std::uint64_t n = std::min(kStagingBytes, n_bytes - at);
    QUANTEM_TRY_ASSIGN(pinned, context.pinned_upload(n));
    copy_on_host(pinned, static_cast<const char*>(host_data) + at, n);
    QUANTEM_TRY(context.check(
        cudaMemcpyAsync(static_cast<char*>(device_data) + at, pinned, n, cudaMemcpyHostToDevice, stream_of(context)),
        "copy to the device"));
    QUANTEM_TRY(context.synchronize("copy to the device"));  // the pinned memory is free again
  }
  return Done{};
}

Result<Done> bring_down(CudaContext& context, void* host_data, const void* device_data, std::uint64_t n_bytes) {
  const CurrentDevice current(context.device());
  for (std::uint64_t at = 0; at < n_bytes; at += kStagingBytes) {
    const std::uint64_t n = std::min(kStagingBytes, n_bytes - at);
    QUANTEM_TRY_ASSIGN(pinned, context.pinned_result(n));
    QUANTEM_TRY(context.check(cudaMemcpyAsync(pinned, static_cast<const char*>(device_data) + at, n,
                                              cudaMemcpyDeviceToHost, stream_of(context)),
                              "copy to the host"));
    QUANTEM_TRY(context.synchronize("copy to the host"));
    copy_on_host(static_cast<char*>(host_data) + at, pinned, n);
  }
  return Done{};
}

}  // namespace quantem
