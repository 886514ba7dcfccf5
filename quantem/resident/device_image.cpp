#include "quantem/resident/device_image.h"

#include <algorithm>
#include <mutex>

namespace quantem {
namespace {

constexpr std::uint64_t kKeptBytes = std::uint64_t{64} << 20, kGrain = std::uint64_t{64} << 10;

// Memory of images that are gone, for images that come. Never destroyed: at the end of the process the driver may be gone before statics are.
struct Kept {
  std::mutex mutex;
  std::vector<std::pair<int, DeviceMemory>> memory;  // device; the oldest first
};
Kept& kept() {
  static Kept& all = *new Kept;
  return all;
}

// What does not fit is freed after the lock is let go: freeing waits for the device.
void keep(int device, DeviceMemory memory) {
  std::vector<std::pair<int, DeviceMemory>> freed;
  const std::lock_guard lock(kept().mutex);
  auto& all = kept().memory;
  all.emplace_back(device, std::move(memory));
  const auto bytes_of_device = [&] {
    std::uint64_t n = 0;
    for (const auto& [d, m] : all) n += d == device ? m.n_bytes() : 0;
    return n;
  };
  while (bytes_of_device() > kKeptBytes) {
    const auto oldest = std::find_if(all.begin(), all.end(), [&](const auto& m) { return m.first == device; });
    freed.push_back(std::move(*oldest));
    all.erase(oldest);
  }
}

DeviceMemory take_kept(int device, std::uint64_t n_bytes) {
  const std::lock_guard lock(kept().mutex);
  auto& all = kept().memory;
  const auto fits = std::find_if(all.begin(), all.end(),
                                 [&](const auto& m) { return m.first == device && m.second.n_bytes() == n_bytes; });
  if (fits == all.end()) return {};
  DeviceMemory memory = std::move(fits->second);
  all.erase(fits);
  return memory;
}

void release_kept(int device) {
  std::vector<std::pair<int, DeviceMemory>> freed;
  const std::lock_guard lock(kept().mutex);
  auto& all = kept().memory;
  const auto others = std::stable_partition(all.begin(), all.end(), [&](const auto& m) { return m.first != device; });
  std::move(others, all.end(), std::back_inserter(freed));
  all.erase(others, all.end());
}

Result<Done> check_values(const Grid<float>& image) {
  const std::uint64_t n = image.extent.count();
  if (n == 0) return Error{Code::invalid_argument, "to_device: the image is empty"};
  if (image.values.size() != n)
    return Error{Code::invalid_argument, "to_device: the extent is " + to_string(image.extent) + ", " +
                                             std::to_string(n) + " elements, but there are " +
                                             std::to_string(image.values.size()) + " values"};
  if (image.valid.count() != 0 && image.valid.count() != n)
    return Error{Code::invalid_argument, "to_device: the extent is " + to_string(image.extent) + ", " +
                                             std::to_string(n) + " elements, but there are " +
                                             std::to_string(image.valid.count()) + " valid bits"};
  return Done{};
}

Image<float> without_values(const Grid<float>& image) {
  Image<float> about;
  about.extent = image.extent, about.unit = image.unit, about.valid = image.valid, about.provenance = image.provenance;
  return about;
}

}  // namespace

Result<std::shared_ptr<DeviceMemory>> image_memory(CudaContext& context, std::uint64_t n_bytes) {
  const int device = context.device();
  const std::uint64_t rounded = (n_bytes + kGrain - 1) / kGrain * kGrain;
  DeviceMemory memory = take_kept(device, rounded);
  if (!memory.data()) {
    auto made = context.allocate(rounded, "image on the device");
    if (!made && made.error().code == Code::out_of_memory) {
      release_kept(device);
      made = context.allocate(rounded, "image on the device");
    }
    if (!made) return made.take_error();
    memory = *std::move(made);
  }
  return std::shared_ptr<DeviceMemory>(new DeviceMemory(std::move(memory)), [device](DeviceMemory* last) {
    keep(device, std::move(*last));
    delete last;
  });
}

Result<DeviceImage> to_device(const Device& device, const Grid<float>& image) {
  QUANTEM_TRY(check_values(image));
  if (device.backend() != Backend::cuda)
    return Error{Code::invalid_argument, "to_device: '" + device.label() +
                                             "' is not a CUDA device; open one with open_device(Backend::cuda), or use "
                                             "the image where it is"};
  QUANTEM_TRY_ASSIGN(context, CudaContext::of(device));
  const auto lock = context->query_lock();
  const std::uint64_t n = image.extent.count();
  QUANTEM_TRY_ASSIGN(memory, image_memory(*context, n * sizeof(float)));
  QUANTEM_TRY(send_up(*context, memory->data(), image.values.data(), n * sizeof(float)));
  if (image.valid.count() != 0 && !image.valid.all()) {
    // 64-bit words in host byte order are 32-bit words with the lowest bits first: both ends are little-endian.
    const std::vector<std::uint64_t>& words = image.valid.words();
    QUANTEM_TRY_ASSIGN(valid, image_memory(*context, words.size() * 8));
    QUANTEM_TRY(send_up(*context, valid->data(), words.data(), words.size() * 8));
    QUANTEM_TRY(mark_missing_on_device(*context, memory->as<float>(), valid->as<std::uint32_t>(), n));
  }
  return DeviceImage(without_values(image), device, std::move(memory));
}

Result<Image<float>> to_host(const DeviceImage& image) {
  QUANTEM_TRY_ASSIGN(context, CudaContext::of(image.device()));
  const auto lock = context->query_lock();
  Image<float> out = image.about();
  out.values.resize(image.extent().count());
  QUANTEM_TRY(bring_down(*context, out.values.data(), image.data(), out.values.size() * sizeof(float)));
  return out;
}

Result<Done> finish(const DeviceImage& image) {
  QUANTEM_TRY_ASSIGN(context, CudaContext::of(image.device()));
  const auto lock = context->query_lock();
  return context->synchronize("image on the device");
}

}  // namespace quantem
