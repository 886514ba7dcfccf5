#pragma once
// bit-sliced-v1 on a GPU: the streams of sliced.h, one stream space per block, laid out for kernels that run all blocks at once.
//   planes     of a block back to back in stream order, 64 bytes each; plane_base[block] is their device address
//   directory  u32 a stream: byte offset of its planes in the block | width in the six low bits
//   lists      of a block back to back in stream order, u16 each, 16-byte aligned; list_base[block] is their device address
//   list_end   u16 a stream: end of its list, relative to list_start of its 64 streams; a list begins where the one before ends
//   list_start u32 per 64 streams
// directory, list_end and list_start keep 16 blocks of a stream side by side (directory_index), so that one 64-byte access serves
// sixteen CTAs that run the same plan; the number of blocks is padded to 16 with empty ones.
// Addresses are absolute, so a volume may grow segment by segment while it is loaded and nothing is ever moved.

#include <cstdint>
#include <memory>
#include <vector>

#include "quantem/core/host_device.h"
#include "quantem/core/result.h"
#include "quantem/resident/sliced.h"
#include "quantem/runtime/cuda_context.h"

namespace quantem {

inline constexpr std::uint32_t kBlocksTogether = 16;

QUANTEM_HOST_DEVICE constexpr std::uint64_t directory_index(std::uint64_t block, std::uint64_t stream,
                                                            std::uint64_t streams) {
  return (block / kBlocksTogether * streams + stream) * kBlocksTogether + block % kBlocksTogether;
}

// What kernels get: plain pointers into device memory.
struct SlicedDeviceView {
  const std::uint64_t* plane_base;
  const std::uint64_t* list_base;
  const std::uint32_t* directory;
  const std::uint16_t* list_end;
  const std::uint32_t* list_start;
  std::uint32_t n_streams, n_sixty_fours;  // ceil(n_streams / 64)
  std::uint32_t n_blocks;                  // with positions; the directory is padded beyond
};

// Owns the memory behind a view. Immutable once built.
struct SlicedDevice {
  SlicedLayout layout;
  std::uint64_t n_positions = 0;
  SlicedDeviceView view{};
  std::vector<DeviceMemory> segments;  // planes and lists
  DeviceMemory bases, directory, list_end, list_start;
  DeviceMemory pixel_of_stream;  // u32, n_pixels
  // Means over blocks, for the planner: planes and listed bits of each stream.
  std::vector<float> mean_planes, mean_listed;
  [[nodiscard]] std::uint64_t resident_bytes() const {
    std::uint64_t n =
        bases.n_bytes() + directory.n_bytes() + list_end.n_bytes() + list_start.n_bytes() + pixel_of_stream.n_bytes();
    for (const DeviceMemory& s : segments) n += s.n_bytes();
    return n;
  }
};

// Copies an encoded volume from the host, block by block.
Result<std::shared_ptr<const SlicedDevice>> upload_sliced(CudaContext& context, const SlicedStorage& host);
// And back, byte for byte what the host encoder makes: for tests and for saving.
Result<SlicedStorage> download_sliced(CudaContext& context, const SlicedDevice& device);

}  // namespace quantem
