// bit-sliced-v1 to a device and back: the two layouts hold the same streams, so this only moves bytes.

#include "quantem/resident/sliced_device.h"

#include <bit>
#include <cstring>

namespace quantem {
namespace {

constexpr std::uint64_t kListAlignment = 16;

struct BlockBytes {
  std::uint64_t planes, lists;  // bytes
};

BlockBytes bytes_of(const SlicedBlock& block, const SlicedLayout& layout) {
  std::uint64_t planes = 0;
  for (std::uint32_t s = 0; s < layout.n_streams; ++s) planes += std::uint64_t{block.width(s)} * kPlaneBytes;
  const std::uint64_t listed = static_cast<std::uint64_t>(block.list_stop(layout.n_streams - 1) - block.lists);
  return {planes, (2 * listed + kListAlignment - 1) / kListAlignment * kListAlignment};
}

template <class T>
Result<DeviceMemory> upload(CudaContext& context, const std::vector<T>& values, const char* what) {
  QUANTEM_TRY_ASSIGN(memory, context.allocate(values.size() * sizeof(T), what));
  QUANTEM_TRY(context.copy_up(memory.data(), values.data(), values.size() * sizeof(T)));
  return Result<DeviceMemory>(std::move(memory));
}

}  // namespace

Result<std::shared_ptr<const SlicedDevice>> upload_sliced(CudaContext& context, const SlicedStorage& host) {
  auto device = std::make_shared<SlicedDevice>();
  device->layout = host.layout;
  device->n_positions = host.n_positions;
  const std::uint32_t n_streams = host.layout.n_streams, n_sixty_fours = (n_streams + 63) / 64;
  const std::uint64_t n_blocks = host.n_blocks(),
                      n_padded = (n_blocks + kBlocksTogether - 1) / kBlocksTogether * kBlocksTogether;
  std::vector<std::uint64_t> bases(2 * n_padded);
  std::vector<std::uint32_t> directory(n_padded * n_streams), list_start(n_padded * n_sixty_fours);
  std::vector<std::uint16_t> list_end(n_padded * n_streams);
  std::vector<double> planes(n_streams), listed(n_streams);
  for (std::uint64_t b = 0; b < n_blocks; ++b) {
    const SlicedBlock& block = host.blocks[b];
    const BlockBytes bytes = bytes_of(block, host.layout);
    QUANTEM_TRY_ASSIGN(segment, context.allocate(bytes.planes + bytes.lists, "upload of an encoded volume"));
    QUANTEM_TRY(context.copy_up(segment.data(), block.planes, bytes.planes));
    if (bytes.lists) {  // the host's lists end where its block ends: only the bytes that are there are copied
      const std::uint64_t n = 2 * static_cast<std::uint64_t>(block.list_stop(n_streams - 1) - block.lists);
      QUANTEM_TRY(context.copy_up(segment.as<char>() + bytes.planes, block.lists, n));
    }
    bases[b] = reinterpret_cast<std::uint64_t>(segment.data());
    bases[n_padded + b] = bases[b] + bytes.planes;
    for (std::uint32_t s = 0; s < n_streams; ++s) {
      directory[directory_index(b, s, n_streams)] = block.entry[s];
      list_end[directory_index(b, s, n_streams)] = block.list_end[s];
      planes[s] += block.width(s);
      listed[s] += static_cast<double>(block.list_stop(s) - block.list_begin(s));
    }
    for (std::uint32_t g = 0; g < n_sixty_fours; ++g)
      list_start[directory_index(b, g, n_sixty_fours)] = block.list_base[g];
    device->segments.push_back(std::move(segment));
  }
  for (std::uint32_t s = 0; s < n_streams; ++s) {
    device->mean_planes.push_back(static_cast<float>(planes[s] / static_cast<double>(n_blocks)));
    device->mean_listed.push_back(static_cast<float>(listed[s] / static_cast<double>(n_blocks)));
  }
  QUANTEM_TRY_ASSIGN(bases_memory, upload(context, bases, "block addresses"));
  QUANTEM_TRY_ASSIGN(directory_memory, upload(context, directory, "directory"));
  QUANTEM_TRY_ASSIGN(end_memory, upload(context, list_end, "directory"));
  QUANTEM_TRY_ASSIGN(start_memory, upload(context, list_start, "directory"));
  QUANTEM_TRY_ASSIGN(order_memory, upload(context, host.layout.pixel_of_stream, "pixel order"));
  device->bases = std::move(bases_memory);
  device->directory = std::move(directory_memory);
  device->list_end = std::move(end_memory);
  device->list_start = std::move(start_memory);
  device->pixel_of_stream = std::move(order_memory);
  device->view = {device->bases.as<std::uint64_t>(),
                  device->bases.as<std::uint64_t>() + n_padded,
                  device->directory.as<std::uint32_t>(),
                  device->list_end.as<std::uint16_t>(),
                  device->list_start.as<std::uint32_t>(),
                  n_streams,
                  n_sixty_fours,
                  static_cast<std::uint32_t>(n_blocks)};
  return Result<std::shared_ptr<const SlicedDevice>>(std::move(device));
}

Result<SlicedStorage> download_sliced(CudaContext& context, const SlicedDevice& device) {
  SlicedStorage host;
  host.layout = device.layout;
  host.n_positions = device.n_positions;
  const std::uint32_t n_streams = device.layout.n_streams, n_sixty_fours = device.view.n_sixty_fours;
  const std::uint64_t n_blocks = device.view.n_blocks, n_padded = device.bases.n_bytes() / 16;
  std::vector<std::uint64_t> bases(2 * n_padded);
  std::vector<std::uint32_t> directory(n_padded * n_streams), list_start(n_padded * n_sixty_fours);
  std::vector<std::uint16_t> list_end(n_padded * n_streams);
  QUANTEM_TRY(context.copy_down(bases.data(), device.bases.data(), bases.size() * 8));
  QUANTEM_TRY(context.copy_down(directory.data(), device.directory.data(), directory.size() * 4));
  QUANTEM_TRY(context.copy_down(list_end.data(), device.list_end.data(), list_end.size() * 2));
  QUANTEM_TRY(context.copy_down(list_start.data(), device.list_start.data(), list_start.size() * 4));
  for (std::uint64_t b = 0; b < n_blocks; ++b) {
    std::uint64_t plane_bytes = 0;
    for (std::uint32_t s = 0; s < n_streams; ++s)
      plane_bytes += std::uint64_t{directory[directory_index(b, s, n_streams)] & 63u} * kPlaneBytes;
    const std::uint64_t n_listed = list_start[directory_index(b, n_sixty_fours - 1, n_sixty_fours)] +
                                   list_end[directory_index(b, n_streams - 1, n_streams)];
    const std::uint64_t entry_at = plane_bytes, base_at = entry_at + 4ull * n_streams,
                        end_at = base_at + 4ull * n_sixty_fours, lists_at = (end_at + 2ull * n_streams + 1) / 2 * 2;
    QUANTEM_TRY_ASSIGN(bytes, allocate_buffer(lists_at + 2 * n_listed, "download of an encoded volume"));
    QUANTEM_TRY(context.copy_down(bytes.data(), reinterpret_cast<const void*>(bases[b]), plane_bytes));
    if (n_listed)
      QUANTEM_TRY(
          context.copy_down(bytes.data() + lists_at, reinterpret_cast<const void*>(bases[n_padded + b]), 2 * n_listed));
    auto* entry = reinterpret_cast<std::uint32_t*>(bytes.data() + entry_at);
    auto* base = reinterpret_cast<std::uint32_t*>(bytes.data() + base_at);
    auto* end = reinterpret_cast<std::uint16_t*>(bytes.data() + end_at);
    for (std::uint32_t s = 0; s < n_streams; ++s) {
      entry[s] = directory[directory_index(b, s, n_streams)];
      end[s] = list_end[directory_index(b, s, n_streams)];
    }
    for (std::uint32_t g = 0; g < n_sixty_fours; ++g) base[g] = list_start[directory_index(b, g, n_sixty_fours)];
    host.blocks.push_back(
        {bytes.data(), entry, end, base, reinterpret_cast<const std::uint16_t*>(bytes.data() + lists_at)});
    host.block_bytes.push_back(std::move(bytes));
  }
  return Result<SlicedStorage>(std::move(host));
}

}  // namespace quantem
