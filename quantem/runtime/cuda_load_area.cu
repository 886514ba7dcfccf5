#include "quantem/runtime/cuda_load_area.h"

#include <cuda_runtime_api.h>

#include <map>
#include <mutex>
#include <semaphore>

#include "quantem/runtime/cuda_context.h"
#include "quantem/runtime/current_device.cuh"

namespace quantem {
namespace {

struct Kept {
  std::binary_semaphore idle{1};  // 0 while a load has what is below
  DeviceMemory device;
  void* pinned = nullptr;
  std::uint64_t n_pinned = 0;

  void free_pinned() {
    cudaFreeHost(pinned);
    pinned = nullptr;
    n_pinned = 0;
  }
};

// Never destroyed: at the end of the process the driver may be gone before statics are.
Kept& kept_of(int device) {
  static std::mutex mutex;
  static auto* all = new std::map<int, Kept>;
  const std::lock_guard lock(mutex);
  return (*all)[device];
}

}  // namespace

CudaLoadArea::CudaLoadArea(CudaContext& context) : context_(&context) {
  kept_of(context.device()).idle.acquire();
}
CudaLoadArea::~CudaLoadArea() {
  kept_of(context_->device()).idle.release();
}

Result<void*> CudaLoadArea::device_bytes(std::uint64_t n_bytes) {
  DeviceMemory& kept = kept_of(context_->device()).device;
  if (kept.n_bytes() < n_bytes) {
    kept = DeviceMemory();
    QUANTEM_TRY_ASSIGN(memory, context_->allocate(n_bytes, "work area of the load"));
    kept = std::move(memory);
  }
  return kept.data();
}

Result<void*> CudaLoadArea::pinned_bytes(std::uint64_t n_bytes) {
  Kept& kept = kept_of(context_->device());
  if (kept.n_pinned < n_bytes) {
    const CurrentDevice current(context_->device());
    kept.free_pinned();
    QUANTEM_TRY(context_->check(cudaHostAlloc(&kept.pinned, n_bytes, cudaHostAllocDefault), "pinned tables"));
    kept.n_pinned = n_bytes;
  }
  return kept.pinned;
}

std::uint64_t kept_load_bytes(int device) {
  Kept& kept = kept_of(device);
  if (!kept.idle.try_acquire()) return 0;
  const std::uint64_t n_bytes = kept.device.n_bytes();
  kept.idle.release();
  return n_bytes;
}

void release_load_area(int device) {
  Kept& kept = kept_of(device);
  if (!kept.idle.try_acquire()) return;
  const CurrentDevice current(device);
  kept.device = DeviceMemory();
  kept.free_pinned();
  kept.idle.release();
}

}  // namespace quantem
