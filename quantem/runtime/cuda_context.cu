#include "quantem/runtime/cuda_context.h"

#include <cuda_runtime_api.h>

#include <map>

#include "quantem/runtime/cuda_load_area.h"
#include "quantem/runtime/current_device.cuh"

namespace quantem {
namespace {

// Errors after which the context of the process is lost; everything else leaves the device usable.
bool is_sticky(cudaError_t status) {
  switch (status) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorContextIsDestroyed:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorECCUncorrectable:
    case cudaErrorDevicesUnavailable:
    case cudaErrorUnknown:
      return true;
    default:
      return false;
  }
}

}  // namespace

DeviceMemory::~DeviceMemory() {
  if (!data_) return;
  const CurrentDevice current(device_);
  cudaFree(data_);
}

Result<CudaContext*> CudaContext::of(const Device& device) {
  static std::mutex mutex;
  // Never destroyed: at the end of the process the driver may be gone before statics are.
  static auto& contexts = *new std::map<int, std::unique_ptr<CudaContext>>;
  if (device.backend() != Backend::cuda) return Error{Code::internal, "a CUDA context was asked of " + device.label()};
  const std::lock_guard lock(mutex);
  std::unique_ptr<CudaContext>& context = contexts[device.index()];
  if (context) {
    const std::lock_guard state(context->state_mutex_);
    if (!context->fault_.empty()) return Error{Code::device, context->fault_};
    return context.get();
  }
  auto made = std::unique_ptr<CudaContext>(new CudaContext);
  made->device_ = device.index();
  const CurrentDevice current(device.index());
  cudaDeviceProp properties{};
  QUANTEM_TRY(made->check(cudaGetDeviceProperties(&properties, device.index()), "open"));
  made->multiprocessors_ = properties.multiProcessorCount;
  made->shared_bytes_per_block_ = properties.sharedMemPerBlockOptin;
  cudaStream_t stream = nullptr;
  QUANTEM_TRY(made->check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "open"));
  made->query_stream_ = reinterpret_cast<CudaStream*>(stream);
  context = std::move(made);
  return context.get();
}

Result<Done> CudaContext::check(int cuda_status, const char* what) {
  const auto status = static_cast<cudaError_t>(cuda_status);
  if (status == cudaSuccess) return Done{};
  cudaGetLastError();  // clears what is not sticky
  const std::string text = "cuda:" + std::to_string(device_) + ": " + what + ": " + cudaGetErrorString(status);
  if (status == cudaErrorMemoryAllocation) return Error{Code::out_of_memory, text};
  if (is_sticky(status)) {
    const std::lock_guard lock(state_mutex_);
    if (fault_.empty()) fault_ = text + "; the device refuses work until the program is started again";
    return Error{Code::device, fault_};
  }
  return Error{Code::device, text};
}

std::uint64_t CudaContext::free_bytes() const {
  const CurrentDevice current(device_);
  std::size_t free_now = 0, total = 0;
  if (cudaMemGetInfo(&free_now, &total) != cudaSuccess) cudaGetLastError();
  return free_now + kept_load_bytes(device_);
}

Result<DeviceMemory> CudaContext::allocate(std::uint64_t n_bytes, const char* what) {
  const CurrentDevice current(device_);
  void* data = nullptr;
  cudaError_t status = cudaMalloc(&data, n_bytes + 256);
  if (status == cudaErrorMemoryAllocation) {  // what loads keep may make room
    cudaGetLastError();
    release_load_area(device_);
    status = cudaMalloc(&data, n_bytes + 256);
  }
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return Error{Code::out_of_memory, std::string(what) + ": needs " + std::to_string(n_bytes) + " bytes, cuda:" +
                                          std::to_string(device_) + " has " + std::to_string(free_bytes()) + " free"};
  }
  if (status != cudaSuccess) return check(status, what).take_error();
  return DeviceMemory(data, n_bytes, device_);
}

Result<void*> CudaContext::work_area(std::uint64_t n_bytes) {
  if (work_.n_bytes() < n_bytes) {
    work_ = DeviceMemory();
    QUANTEM_TRY_ASSIGN(memory, allocate(n_bytes, "work area of queries"));
    work_ = std::move(memory);
  }
  return work_.data();
}

namespace {
// Grows a pinned area to n_bytes (rounded up, so that a little more next time costs nothing).
cudaError_t grow_pinned(void*& data, std::uint64_t& held, std::uint64_t n_bytes) {
  if (held >= n_bytes) return cudaSuccess;
  cudaFreeHost(data);
  data = nullptr;
  held = 0;
  const std::uint64_t rounded = (n_bytes + (1u << 20) - 1) >> 20 << 20;
  const cudaError_t status = cudaHostAlloc(&data, rounded, cudaHostAllocDefault);
  if (status == cudaSuccess) held = rounded;
  return status;
}
}  // namespace

Result<void*> CudaContext::pinned_result(std::uint64_t n_bytes) {
  const CurrentDevice current(device_);
  QUANTEM_TRY(check(grow_pinned(result_.data, result_.n_bytes, n_bytes), "pinned result"));
  return result_.data;
}

Result<void*> CudaContext::pinned_upload(std::uint64_t n_bytes) {
  const CurrentDevice current(device_);
  QUANTEM_TRY(check(grow_pinned(upload_.data, upload_.n_bytes, n_bytes), "pinned upload"));
  return upload_.data;
}

Result<std::vector<void*>> CudaContext::pinned_slabs(std::size_t count, std::uint64_t slab_bytes) {
  const CurrentDevice current(device_);
  const std::lock_guard lock(state_mutex_);
  if (slabs_.size() < count) slabs_.resize(count);
  std::vector<void*> out;
  for (std::size_t i = 0; i < count; ++i) {
    if (const cudaError_t status = grow_pinned(slabs_[i].data, slabs_[i].n_bytes, slab_bytes); status != cudaSuccess) {
      cudaGetLastError();
      return Error{Code::out_of_memory, "pinned staging: " + std::to_string(slab_bytes) +
                                            " bytes of host memory: " + cudaGetErrorString(status)};
    }
    out.push_back(slabs_[i].data);
  }
  return out;
}

Result<Done> CudaContext::copy_up(void* device_data, const void* host_data, std::uint64_t n_bytes) {
  const CurrentDevice current(device_);
  // From pageable memory cudaMemcpy returns when the bytes are staged; the kernels' streams do not wait for the default stream.
  QUANTEM_TRY(check(cudaMemcpy(device_data, host_data, n_bytes, cudaMemcpyHostToDevice), "copy to the device"));
  return check(cudaStreamSynchronize(cudaStreamLegacy), "copy to the device");
}

Result<Done> CudaContext::copy_down(void* host_data, const void* device_data, std::uint64_t n_bytes) {
  const CurrentDevice current(device_);
  return check(cudaMemcpy(host_data, device_data, n_bytes, cudaMemcpyDeviceToHost), "copy to the host");
}

Result<Done> CudaContext::synchronize(const char* what) {
  const CurrentDevice current(device_);
  return check(cudaStreamSynchronize(reinterpret_cast<cudaStream_t>(query_stream_)), what);
}

}  // namespace quantem
