// Sums and maxima over scan positions for each detector pixel, from bit-sliced storage: set bits of plane & positions, counted
// and weighted by the plane. A part is a range of streams over all blocks, so nothing is merged.

#include <cstring>

#include "quantem/detector/sliced_cpu.h"

namespace quantem::detector_detail {
namespace {

constexpr std::uint32_t kStreamsPerPart = 512, kWordsPerPlane = kBlockPositions / 64;

// The set's bits as one plane a block; `is_all`: every position is in (so that no mask need be read).
struct PositionPlanes {
  std::vector<std::uint64_t> words;  // 8 a block
  bool is_all;
  [[nodiscard]] const std::uint64_t* of(std::uint64_t block) const {
    return is_all ? nullptr : words.data() + block * kWordsPerPlane;
  }
  [[nodiscard]] bool none_in(std::uint64_t block) const {
    if (is_all) return false;
    const std::uint64_t* w = of(block);
    return std::all_of(w, w + kWordsPerPlane, [](std::uint64_t x) { return x == 0; });
  }
};
// Missing positions hold 0, so that a sum over all valid positions needs no mask.
PositionPlanes planes_of(const Volume& volume, const BitMask& positions) {
  PositionPlanes out{positions.words(), positions == volume.valid_positions()};
  out.words.resize(volume.sliced()->n_blocks() * kWordsPerPlane);
  return out;
}

std::uint64_t n_parts(const SlicedLayout& layout) {
  return (layout.n_pixels + kStreamsPerPart - 1) / kStreamsPerPart;
}

// The larger of `known` and a stream's largest value over the positions of `in` (not empty): candidates are thinned out from the highest bit
// down, until what the lower bits could still add does not exceed `known`.
std::uint64_t larger_value(const SlicedBlock& block, std::uint32_t stream, const std::uint64_t* in,
                           std::uint64_t known) {
  // Pixels have at most 32 planes: those below the width are stored, all others listed, ordered by plane.
  std::uint32_t k = block.width(stream);
  const std::uint16_t *first = block.list_begin(stream), *e = block.list_stop(stream);
  std::uint64_t candidates[kWordsPerPlane], left[kWordsPerPlane], value = 0;
  std::memcpy(candidates, in, sizeof candidates);
  const auto hopeless = [&](std::uint32_t n_bits) { return (value | ((std::uint64_t{1} << n_bits) - 1)) <= known; };
  while (e > first) {
    const std::uint32_t plane = listed_plane(e[-1]);
    if (hopeless(plane + 1)) return known;
    std::uint64_t any = 0;
    std::memset(left, 0, sizeof left);
    for (; e > first && listed_plane(e[-1]) == plane; --e) {
      const std::uint32_t at = listed_position(e[-1]);
      const std::uint64_t bit = candidates[at / 64] & std::uint64_t{1} << (at % 64);
      left[at / 64] |= bit, any |= bit;
    }
    if (!any) continue;
    std::memcpy(candidates, left, sizeof left);
    value |= std::uint64_t{1} << plane;
  }
  const auto* planes = reinterpret_cast<const std::uint64_t*>(block.stream_planes(stream));
  for (; k > 0; --k) {
    if (hopeless(k)) return known;
    const std::uint64_t* plane = planes + (k - 1) * kWordsPerPlane;
    std::uint64_t any = 0;
    for (std::uint32_t i = 0; i < kWordsPerPlane; ++i) any |= left[i] = candidates[i] & plane[i];
    if (!any) continue;
    std::memcpy(candidates, left, sizeof left);
    value |= std::uint64_t{1} << (k - 1);
  }
  return std::max(value, known);
}

}  // namespace

DetectorOps::Path pattern_sum_sliced(const Volume& volume, const BitMask& positions, std::span<std::uint64_t> sum,
                                     const Job& job) {
  const SlicedStorage& storage = *volume.sliced();
  const SlicedLayout& layout = storage.layout;
  const PositionPlanes planes = planes_of(volume, positions);
  QUANTEM_TRY(sweep(volume, job, "sum_pattern", n_parts(layout), [&](std::uint64_t part) {
    const auto first = static_cast<std::uint32_t>(part) * kStreamsPerPart;
    const std::uint32_t stop = std::min(first + kStreamsPerPart, layout.n_pixels);
    std::uint64_t sums[kStreamsPerPart] = {};
    for (std::uint64_t b = 0; b < storage.n_blocks(); ++b)
      if (!planes.none_in(b)) add_stream_sums(storage.blocks[b], layout.n_streams, first, stop, planes.of(b), sums);
    for (std::uint32_t s = first; s < stop; ++s) sum[layout.pixel_of_stream[s]] = sums[s - first];
  }));
  return std::string_view(planes.is_all ? "cpu_sliced_sum_pattern" : "cpu_sliced_region_sum");
}

DetectorOps::Path pattern_max_sliced(const Volume& volume, const BitMask& positions, std::span<std::byte> out,
                                     const Job& job) {
  const SlicedStorage& storage = *volume.sliced();
  const SlicedLayout& layout = storage.layout;
  PositionPlanes planes = planes_of(volume, positions);
  planes.is_all = false;
  const std::size_t item = item_bytes(volume.dtype());
  QUANTEM_TRY(sweep(volume, job, "max_pattern", n_parts(layout), [&](std::uint64_t part) {
    const auto first = static_cast<std::uint32_t>(part) * kStreamsPerPart;
    const std::uint32_t stop = std::min(first + kStreamsPerPart, layout.n_pixels);
    std::uint64_t largest[kStreamsPerPart] = {};
    for (std::uint64_t b = 0; b < storage.n_blocks(); ++b) {
      if (planes.none_in(b)) continue;
      for (std::uint32_t s = first; s < stop; ++s)
        largest[s - first] = larger_value(storage.blocks[b], s, planes.of(b), largest[s - first]);
    }
    // Little endian: the low bytes of the value are the working dtype's.
    for (std::uint32_t s = first; s < stop; ++s)
      std::memcpy(out.data() + layout.pixel_of_stream[s] * item, &largest[s - first], item);
  }));
  return std::string_view("cpu_sliced_max_pattern");
}

}  // namespace quantem::detector_detail
