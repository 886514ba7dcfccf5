// Single frames and statistics of all frames, from bit-sliced storage.

#include <bit>
#include <cstring>

#include "quantem/detector/sliced_cpu.h"

namespace quantem {
namespace detector_detail {
namespace {

constexpr std::uint32_t kWords = kBlockPositions / 64, kIndexBits = 24;  // a frame has at most 2^24 pixels

struct Plane {
  std::uint64_t w[kWords];
};

// All planes of a stream, the listed bits put in their places. At most 32: pixels are u32 at most.
struct StreamPlanes {
  Plane plane[32];
  std::uint32_t n = 0;
  void read(const SlicedBlock& block, std::uint32_t stream) {
    n = block.width(stream);
    std::memcpy(plane, block.stream_planes(stream), n * sizeof(Plane));
    for (const std::uint16_t* e = block.list_begin(stream); e < block.list_stop(stream); ++e) {
      const std::uint32_t k = listed_plane(*e), at = listed_position(*e);
      for (; n <= k; ++n) plane[n] = Plane{};
      plane[k].w[at / 64] |= std::uint64_t{1} << (at % 64);
    }
  }
  [[nodiscard]] std::uint64_t bit(std::uint32_t k, std::uint32_t word) const { return k < n ? plane[k].w[word] : 0; }
};

// Statistics of the 512 frames of a block, bit-sliced: pixels come in flat order, so the first of equal maxima stays.
struct BlockStatistics {
  Plane max[32] = {};
  Plane argmax[kIndexBits] = {};
  std::uint32_t n_max = 0;
  std::uint32_t n_nonzero[kBlockPositions] = {}, n_saturated[kBlockPositions] = {};

  void start_at(std::uint32_t pixel) {  // a frame of zeros has its maximum at the first valid pixel
    for (std::uint32_t b = 0; b < kIndexBits; ++b)
      if (pixel >> b & 1) std::memset(&argmax[b], 0xff, sizeof(Plane));
  }

  void add(const StreamPlanes& x, std::uint32_t pixel) {
    const std::uint32_t n = std::max(x.n, n_max);
    for (std::uint32_t i = 0; i < kWords; ++i) {
      std::uint64_t greater = 0, equal = ~std::uint64_t{0};
      for (std::uint32_t k = n; k-- > 0 && equal;) {
        const std::uint64_t a = x.bit(k, i), m = max[k].w[i];
        greater |= equal & a & ~m;
        equal &= ~(a ^ m);
      }
      if (!greater) continue;
      for (std::uint32_t k = 0; k < n; ++k) max[k].w[i] = (max[k].w[i] & ~greater) | (x.bit(k, i) & greater);
      for (std::uint32_t b = 0; b < kIndexBits; ++b)
        argmax[b].w[i] = (argmax[b].w[i] & ~greater) | (pixel >> b & 1 ? greater : 0);
    }
    n_max = n;
  }
};

std::uint64_t at_or_above(const StreamPlanes& x, std::uint64_t limit, std::uint32_t word) {
  std::uint64_t greater = 0, equal = ~std::uint64_t{0};
  const auto n = std::max(x.n, static_cast<std::uint32_t>(std::bit_width(limit)));
  for (std::uint32_t k = n; k-- > 0;) {
    const std::uint64_t a = x.bit(k, word), m = limit >> k & 1 ? ~std::uint64_t{0} : 0;
    greater |= equal & a & ~m;
    equal &= ~(a ^ m);
  }
  return greater | equal;
}

void count(std::uint32_t* counts, std::uint32_t word, std::uint64_t bits) {
  for (; bits; bits &= bits - 1) ++counts[64 * word + static_cast<std::uint32_t>(std::countr_zero(bits))];
}

std::uint64_t number_at(const Plane* planes, std::uint32_t n, std::uint32_t position) {
  std::uint64_t v = 0;
  for (std::uint32_t k = 0; k < n; ++k) v |= (planes[k].w[position / 64] >> (position % 64) & 1) << k;
  return v;
}

void add_pixels(const SlicedStorage& storage, const SlicedBlock& block, std::uint64_t saturation, BlockStatistics& s) {
  StreamPlanes x;
  for (std::uint32_t p = 0; p < storage.layout.n_pixels; ++p) {
    x.read(block, storage.layout.stream_of_pixel[p]);
    if (x.n == 0) continue;
    s.add(x, p);
    for (std::uint32_t i = 0; i < kWords; ++i) {
      std::uint64_t any = 0;
      for (std::uint32_t k = 0; k < x.n; ++k) any |= x.plane[k].w[i];
      count(s.n_nonzero, i, any);
      if (static_cast<std::uint32_t>(std::bit_width(saturation)) <= x.n)
        count(s.n_saturated, i, at_or_above(x, saturation, i));
    }
  }
}

}  // namespace

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

DetectorOps::Path frame_statistics_sliced(const Volume& volume, std::uint64_t saturation, FrameStatistics& out,
                                          const Job& job) {
  const SlicedStorage& storage = *volume.sliced();
  const SlicedLayout& layout = storage.layout;
  std::vector<WeightedStream> tiles;
  for (std::uint32_t t = 0; t < layout.n_tiles32; ++t) tiles.push_back({layout.tile32_stream(t), 1});
  const SliceForm total = form_of(tiles);
  const std::uint64_t found = (~volume.valid_pixels()).first_unset();  // the first valid pixel
  const auto first_valid = static_cast<std::uint32_t>(found < layout.n_pixels ? found : 0);
  QUANTEM_TRY(sweep(volume, job, "frame_statistics", storage.n_blocks(), [&](std::uint64_t b) {
    alignas(64) std::uint64_t totals[kBlockPositions];
    const std::span<std::uint64_t> image(totals);
    sum_forms({&storage.blocks[b], 1}, {&total, 1}, {&image, 1});
    const auto s = std::make_unique<BlockStatistics>();
    s->start_at(first_valid);
    add_pixels(storage, storage.blocks[b], saturation, *s);
    const std::uint64_t first = b * kBlockPositions;
    const std::uint64_t n = std::min<std::uint64_t>(kBlockPositions, storage.n_positions - first);
    for (std::uint32_t i = 0; i < n; ++i) {
      if (!volume.valid_positions()[first + i]) continue;  // stays 0
      out.total[first + i] = totals[i];
      out.max[first + i] = static_cast<double>(number_at(s->max, s->n_max, i));
      out.argmax[first + i] = static_cast<std::uint32_t>(number_at(s->argmax, kIndexBits, i));
      out.n_nonzero[first + i] = s->n_nonzero[i];
      out.n_saturated[first + i] = s->n_saturated[i];
    }
  }));
  return std::string_view("cpu_sliced_frame_statistics");
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
