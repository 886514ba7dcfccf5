#pragma once
// Devices: what there is, and opening one. A Device is a cheap handle; copies share state.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "quantem/core/result.h"
#include "quantem/runtime/backend.h"

namespace quantem {

struct DeviceInfo {
  Backend backend = Backend::cpu;
  int index = 0;
  std::string name;     // "AMD EPYC", "NVIDIA H200"
  std::string driver;   // empty on the CPU
  std::string runtime;  // SIMD target of the CPU, CUDA runtime of a GPU
  std::uint64_t total_bytes = 0, free_bytes = 0;
};

// Devices of one backend, or why there are none ("no NVIDIA driver: libcuda.so.1 not found").
struct DeviceList {
  std::vector<DeviceInfo> devices;
  std::string reason;  // empty when devices is not
};
DeviceList list_cpu_devices();
void leave_cuda_device(int index);  // of leave_device
DeviceList list_cuda_devices();     // never fails, never takes longer than a second without a driver

std::vector<DeviceInfo> list_devices();  // all backends, accelerators first

struct DeviceOptions {
  std::uint64_t memory_limit_bytes = 0;  // 0: what is free less a reserve of max(512 MiB, 5 %)
  std::uint64_t work_bytes = std::uint64_t{512} << 20, pinned_bytes = std::uint64_t{512} << 20;
  int threads = 0;  // 0: QUANTEM_GPU_THREADS or all cores
};

class Device {
 public:
  [[nodiscard]] Backend backend() const { return state_->info.backend; }
  [[nodiscard]] int index() const { return state_->info.index; }
  [[nodiscard]] const DeviceInfo& info() const { return state_->info; }
  [[nodiscard]] const DeviceOptions& options() const { return state_->options; }
  // Bytes that a load may take now: the caller's limit, or free memory less the reserve.
  [[nodiscard]] std::uint64_t usable_bytes() const;
  [[nodiscard]] std::string label() const;  // "cpu", "cuda:0"

 private:
  friend Result<Device> open_device(Backend, int, const DeviceOptions&);
  struct State {
    DeviceInfo info;
    DeviceOptions options;
  };
  std::shared_ptr<const State> state_;
};

Result<Device> open_device(Backend backend = Backend::automatic, int index = 0, const DeviceOptions& options = {});

// For a program that is about to end: gives back all that the process has on the device, which the system would else do at the end. After it
// the process may use the device no more, nor destroy what was on it. Nothing on the CPU.
void leave_device(const Device& device);

}  // namespace quantem
