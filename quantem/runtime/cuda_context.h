#pragma once
// What CUDA code shares: one context per device and process, owned device memory, streams, pinned staging. No CUDA header is
// needed to include this; a build without CUDA compiles it and open_cuda_context() says why there is none.
//
// Memory: volumes take plain device allocations and give them back when the last handle goes. Work areas and pinned slabs are kept
// for the process (pinning 128 MiB takes as long as a whole load) and are counted against DeviceOptions; what loads work in is in
// cuda_load_area.h.
// Errors: a fault of the device is kept; every later call on that device returns the first fault's text (other devices go on).

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "quantem/core/result.h"
#include "quantem/runtime/device.h"

namespace quantem {

struct CudaStream;  // cudaStream_t without its header

// Bytes on a device, owned. Move-only; freed on destruction, whatever thread or current device that happens on.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(void* data, std::uint64_t n_bytes, int device) : data_(data), n_bytes_(n_bytes), device_(device) {}
  DeviceMemory(DeviceMemory&& other) noexcept { swap(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    swap(other);
    return *this;
  }
  ~DeviceMemory();
  [[nodiscard]] void* data() const { return data_; }
  template <class T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(data_);
  }
  [[nodiscard]] std::uint64_t n_bytes() const { return n_bytes_; }

 private:
  void swap(DeviceMemory& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(n_bytes_, other.n_bytes_);
    std::swap(device_, other.device_);
  }
  void* data_ = nullptr;
  std::uint64_t n_bytes_ = 0;
  int device_ = 0;
};

class CudaContext {
 public:
  // The context of a device, made at its first use. device when the device cannot be used, with the reason.
  static Result<CudaContext*> of(const Device& device);

  [[nodiscard]] int device() const { return device_; }
  [[nodiscard]] int multiprocessors() const { return multiprocessors_; }
  [[nodiscard]] std::uint64_t shared_bytes_per_block() const { return shared_bytes_per_block_; }

  // Device memory with 256 readable bytes behind it. out_of_memory names need and free; `what` says for what.
  Result<DeviceMemory> allocate(std::uint64_t n_bytes, const char* what);
  [[nodiscard]] std::uint64_t free_bytes() const;  // now, with what loads keep between them

  // A work area of at least n_bytes that queries share; valid while the query lock is held.
  Result<void*> work_area(std::uint64_t n_bytes);
  // Pinned host memory for results that come down, and for plans that go up; valid while the query lock is held.
  Result<void*> pinned_result(std::uint64_t n_bytes);
  Result<void*> pinned_upload(std::uint64_t n_bytes);
  // Pinned slabs of the load path, `count` of slab_bytes each, kept for the process; valid while the CudaLoadArea is held.
  Result<std::vector<void*>> pinned_slabs(std::size_t count, std::uint64_t slab_bytes);

  // One query at a time uses the stream and the areas above; loads use streams of their own.
  [[nodiscard]] std::unique_lock<std::mutex> query_lock() { return std::unique_lock(query_mutex_); }
  [[nodiscard]] CudaStream* query_stream() const { return query_stream_; }

  // The result of a CUDA call or launch: Done, or the error (and the fault is kept when it is sticky).
  Result<Done> check(int cuda_status, const char* what);
  Result<Done> copy_up(void* device_data, const void* host_data,
                       std::uint64_t n_bytes);  // synchronous, pageable or pinned
  Result<Done> copy_down(void* host_data, const void* device_data, std::uint64_t n_bytes);  // synchronous
  Result<Done> synchronize(const char* what);  // waits for the query stream

 private:
  CudaContext() = default;
  struct Area {
    void* data = nullptr;
    std::uint64_t n_bytes = 0;
  };
  int device_ = 0, multiprocessors_ = 0;
  std::uint64_t shared_bytes_per_block_ = 0;
  CudaStream* query_stream_ = nullptr;
  std::mutex query_mutex_, state_mutex_;
  std::string fault_;  // the first sticky error; everything after it is refused with this text
  DeviceMemory work_;
  Area result_, upload_;
  std::vector<Area> slabs_;
};

}  // namespace quantem
