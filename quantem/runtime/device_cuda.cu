// The CUDA devices of this machine. The runtime is linked statically and finds the driver at run time, so the same program
// starts where there is none and says so here.

#include <cuda_runtime_api.h>

#include "quantem/runtime/device.h"

namespace quantem {
namespace {

std::string version_text(int version) {  // 13000 -> "13.0"
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace

void leave_cuda_device(int index) {
  if (cudaSetDevice(index) == cudaSuccess) cudaDeviceReset();
}

DeviceList list_cuda_devices() {
  DeviceList list;
  int driver = 0, runtime = 0, count = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  if (driver == 0) {
    list.reason = "no NVIDIA driver found (libcuda.so.1)";
    return list;
  }
  if (const cudaError_t status = cudaGetDeviceCount(&count); status != cudaSuccess) {
    list.reason = status == cudaErrorInsufficientDriver
                      ? "driver supports CUDA " + version_text(driver) + ", this build needs " + version_text(runtime)
                      : std::string("no CUDA device: ") + cudaGetErrorString(status);
    return list;
  }
  int before = 0;
  cudaGetDevice(&before);
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    std::size_t free_bytes = 0, total_bytes = 0;
    if (cudaGetDeviceProperties(&properties, i) != cudaSuccess || cudaSetDevice(i) != cudaSuccess ||
        cudaMemGetInfo(&free_bytes, &total_bytes) != cudaSuccess) {
      list.reason = std::string("cuda:") + std::to_string(i) + ": " + cudaGetErrorString(cudaGetLastError());
      continue;
    }
    list.devices.push_back(
        {Backend::cuda, i, properties.name, version_text(driver), version_text(runtime), total_bytes, free_bytes});
  }
  cudaSetDevice(before);  // the caller's choice stays
  if (list.devices.empty() && list.reason.empty()) list.reason = "no CUDA device";
  return list;
}

}  // namespace quantem
