// Single frames from bit-sliced storage, and the table of what it can do.

#include <cstring>

#include "quantem/detector/sliced_cpu.h"

namespace quantem {
namespace detector_detail {

DetectorOps::Path frame_sliced(const Volume& volume, std::uint64_t position, std::span<std::byte> out) {
  const SlicedStorage& storage = *volume.sliced();
  const SlicedBlock& block = storage.blocks[position / kBlockPositions];
  const auto at = static_cast<std::uint32_t>(position % kBlockPositions);
  const std::size_t item = item_bytes(volume.dtype());
  const std::uint16_t* list = block.list_begin(0);
  for (std::uint32_t s = 0; s < storage.layout.n_pixels; ++s) {
    const auto* planes = reinterpret_cast<const std::uint8_t*>(block.stream_planes(s)) + at / 8;
    std::uint64_t value = 0;
    for (std::uint32_t k = 0; k < block.width(s); ++k)
      value |= std::uint64_t{static_cast<std::uint8_t>(planes[k * kPlaneBytes] >> (at % 8) & 1)} << k;
    for (const std::uint16_t* stop = block.list_stop(s); list < stop; ++list)
      if (listed_position(*list) == at) value |= std::uint64_t{1} << listed_plane(*list);
    std::memcpy(out.data() + storage.layout.pixel_of_stream[s] * item, &value, item);
  }
  return std::string_view("cpu_sliced_frame");
}

}  // namespace detector_detail

const DetectorOps* detector_ops_cpu_sliced() {
  using namespace detector_detail;
  // f32 counts are never bit-sliced.
  static constexpr DetectorOps kOps{
      masked_sums_sliced, move_sum_sliced, weighted_sums_sliced, nullptr,      moment_sums_sliced,
      pattern_sum_sliced, nullptr,         pattern_max_sliced,   frame_sliced, frame_statistics_sliced};
  return &kOps;
}

}  // namespace quantem
