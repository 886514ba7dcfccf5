#include <hwy/targets.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "quantem/runtime/cuda_context.h"
#include "quantem/runtime/device.h"

namespace quantem {
namespace {

// "MemAvailable:  123 kB" of /proc/meminfo, in bytes; 0 where there is no such file.
std::uint64_t meminfo_bytes(std::string_view key) {
  std::ifstream in("/proc/meminfo");
  std::string word;
  std::uint64_t value = 0;
  while (in >> word)
    if (word == key && in >> value) return value * 1024;
  return 0;
}

std::string processor_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("model name"))
      if (const auto colon = line.find(": "); colon != std::string::npos) return line.substr(colon + 2);
  return "CPU";
}

// Now, not when the device was opened: volumes may have come and gone since.
std::uint64_t free_device_bytes(const Device& device) {
  const auto context = CudaContext::of(device);
  return context ? (*context)->free_bytes() : device.info().free_bytes;
}

struct BackendName {
  Backend backend;
  std::string_view name;
};
constexpr BackendName kBackends[] = {
    {Backend::automatic, "auto"}, {Backend::cpu, "cpu"}, {Backend::cuda, "cuda"}, {Backend::webgpu, "webgpu"}};

}  // namespace

std::string_view backend_name(Backend backend) {
  return kBackends[static_cast<std::size_t>(backend)].name;
}

Result<Backend> parse_backend(std::string_view name) {
  for (const BackendName& b : kBackends)
    if (b.name == name) return b.backend;
  return Error{Code::invalid_argument, "backend '" + std::string(name) + "' is not one of auto cpu cuda webgpu"};
}

DeviceList list_cpu_devices() {
  const std::int64_t best = hwy::SupportedTargets() & -hwy::SupportedTargets();  // the lowest bit is the best target
  return {{{Backend::cpu, 0, processor_name(), "", std::string("SIMD ") + hwy::TargetName(best),
            meminfo_bytes("MemTotal:"), meminfo_bytes("MemAvailable:")}},
          ""};
}

std::vector<DeviceInfo> list_devices() {
  std::vector<DeviceInfo> all = list_cuda_devices().devices;
  for (DeviceInfo& d : list_cpu_devices().devices) all.push_back(std::move(d));
  return all;
}

std::string Device::label() const {
  return backend() == Backend::cpu ? "cpu" : std::string(backend_name(backend())) + ":" + std::to_string(index());
}

std::uint64_t Device::usable_bytes() const {
  const std::uint64_t free = backend() == Backend::cpu ? meminfo_bytes("MemAvailable:") : free_device_bytes(*this);
  const std::uint64_t reserve = std::max<std::uint64_t>(std::uint64_t{512} << 20, info().total_bytes / 20);
  const std::uint64_t usable = free > reserve ? free - reserve : 0;
  return options().memory_limit_bytes ? std::min(usable, options().memory_limit_bytes) : usable;
}

void leave_device(const Device& device) {
  if (device.backend() == Backend::cuda) leave_cuda_device(device.index());
}

Result<Device> open_device(Backend backend, int index, const DeviceOptions& options) {
  DeviceList list;
  switch (backend) {
    case Backend::cpu:
      list = list_cpu_devices();
      break;
    case Backend::cuda:
      list = list_cuda_devices();
      break;
    case Backend::automatic:
      list = list_cuda_devices();
      if (list.devices.empty())
        return Error{Code::device, "no accelerator found (" + list.reason + "): ask for backend='cpu' by name"};
      break;
    case Backend::webgpu:
      return Error{Code::unsupported, "webgpu runs in the browser; this program has cpu and cuda"};
  }
  if (list.devices.empty()) return Error{Code::device, std::string(backend_name(backend)) + ": " + list.reason};
  if (index < 0 || index >= static_cast<int>(list.devices.size()))
    return Error{Code::invalid_argument, std::string(backend_name(backend)) + " has " +
                                             std::to_string(list.devices.size()) + " device(s), index " +
                                             std::to_string(index) + " does not exist"};
  Device device;
  device.state_ =
      std::make_shared<Device::State>(Device::State{list.devices[static_cast<std::size_t>(index)], options});
  return device;
}

}  // namespace quantem
