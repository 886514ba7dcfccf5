// Statistics of all frames from bit-sliced storage, a block of 512 frames at a time. Non-zero pixels are counted by carry-save adders over
// planes. The largest count comes from the widest pixels alone: those whose every bit lies below a count found in each frame are never read.

#include <bit>
#include <cstring>

#include "quantem/detector/sliced_cpu.h"

namespace quantem::detector_detail {
namespace {

constexpr std::uint32_t kWords = kBlockPositions / 64;
constexpr std::uint32_t kCountBits = 32;  // of a number of pixels

struct Plane {
  std::uint64_t w[kWords];
  [[nodiscard]] bool none() const {
    return std::all_of(w, w + kWords, [](std::uint64_t x) { return x == 0; });
  }
  void set(std::uint32_t position) { w[position / 64] |= std::uint64_t{1} << (position % 64); }
};

template <class Body>
void each_position(std::uint64_t bits, std::uint32_t word, const Body& body) {
  for (; bits; bits &= bits - 1) body(64 * word + static_cast<std::uint32_t>(std::countr_zero(bits)));
}

std::uint64_t number_at(const Plane* planes, std::uint32_t n, std::uint32_t position) {
  std::uint64_t v = 0;
  for (std::uint32_t k = 0; k < n; ++k) v |= (planes[k].w[position / 64] >> (position % 64) & 1) << k;
  return v;
}

// How many of the planes added have a bit at each position, bit-sliced. A plane waits at its level for a second one: the two and the sum's
// plane there make a new sum and one carry, so that each plane costs one adder on average.
struct Counter {
  Plane sum[kCountBits + 1] = {}, waiting[kCountBits + 1] = {};
  bool waits[kCountBits + 1] = {};

  void add(Plane x) {
    for (std::uint32_t level = 0; level <= kCountBits; ++level) {
      if (!waits[level]) {
        waiting[level] = x;
        waits[level] = true;
        return;
      }
      waits[level] = false;
      for (std::uint32_t i = 0; i < kWords; ++i) {
        const std::uint64_t a = sum[level].w[i], b = waiting[level].w[i], c = x.w[i], either = b ^ c;
        x.w[i] = (b & c) | (a & either);
        sum[level].w[i] = a ^ either;
      }
    }
  }
  // Nothing waits any more: from the lowest level up, so that carries are taken along.
  void finish() {
    for (std::uint32_t level = 0; level <= kCountBits; ++level)
      if (waits[level]) add_at(level);
  }

 private:
  void add_at(std::uint32_t level) {
    Plane carry = waiting[level];
    waits[level] = false;
    for (; level <= kCountBits && !carry.none(); ++level)
      for (std::uint32_t i = 0; i < kWords; ++i) {
        const std::uint64_t up = sum[level].w[i] & carry.w[i];
        sum[level].w[i] ^= carry.w[i];
        carry.w[i] = up;
      }
  }
};

// All planes of a stream, the listed bits put in their places. At most 32: pixels are u32 at most.
struct StreamPlanes {
  Plane plane[32];
  std::uint32_t n = 0;
  StreamPlanes(const SlicedBlock& block, std::uint32_t stream) : n(block.width(stream)) {
    std::memcpy(plane, block.stream_planes(stream), n * sizeof(Plane));
    for (const std::uint16_t* e = block.list_begin(stream); e < block.list_stop(stream); ++e) {
      const std::uint32_t k = listed_plane(*e);
      for (; n <= k; ++n) plane[n] = Plane{};
      plane[k].set(listed_position(*e));
    }
  }
  [[nodiscard]] std::uint64_t bit(std::uint32_t k, std::uint32_t word) const { return k < n ? plane[k].w[word] : 0; }
  // Positions of a word with a value of `limit` or more.
  [[nodiscard]] std::uint64_t at_or_above(std::uint64_t limit, std::uint32_t word) const {
    std::uint64_t greater = 0, equal = ~std::uint64_t{0};
    for (std::uint32_t k = std::max(n, static_cast<std::uint32_t>(std::bit_width(limit))); k-- > 0;) {
      const std::uint64_t a = bit(k, word), m = limit >> k & 1 ? ~std::uint64_t{0} : 0;
      greater |= equal & a & ~m;
      equal &= ~(a ^ m);
    }
    return greater | equal;
  }
};

// The largest count of each of 512 frames and the first pixel that has it.
struct Largest {
  Plane max[32] = {};
  std::uint32_t n_planes = 0;
  std::uint32_t pixel[kBlockPositions] = {};

  void take_larger(const StreamPlanes& x) {
    n_planes = std::max(n_planes, x.n);
    for (std::uint32_t i = 0; i < kWords; ++i) {
      std::uint64_t greater = 0, equal = ~std::uint64_t{0};
      for (std::uint32_t k = n_planes; k-- > 0 && equal;) {
        const std::uint64_t a = x.bit(k, i), m = max[k].w[i];
        greater |= equal & a & ~m;
        equal &= ~(a ^ m);
      }
      if (!greater) continue;
      for (std::uint32_t k = 0; k < n_planes; ++k) max[k].w[i] = (max[k].w[i] & ~greater) | (x.bit(k, i) & greater);
    }
  }
  // Frames with a count of 2^bits or more.
  [[nodiscard]] Plane at_least(std::uint32_t bits) const {
    Plane any{};
    for (std::uint32_t k = bits; k < n_planes; ++k)
      for (std::uint32_t i = 0; i < kWords; ++i) any.w[i] |= max[k].w[i];
    return any;
  }
  // Frames of `open` whose largest count the stream holds get this pixel and leave `open`.
  void take_pixel(const StreamPlanes& x, std::uint32_t p, Plane& open) {
    for (std::uint32_t i = 0; i < kWords; ++i) {
      std::uint64_t equal = open.w[i];
      for (std::uint32_t k = 0; k < n_planes && equal; ++k) equal &= ~(x.bit(k, i) ^ max[k].w[i]);
      each_position(equal, i, [&](std::uint32_t at) { pixel[at] = p; });
      open.w[i] &= ~equal;
    }
  }
};

// n_bits[p]: no count of pixel p in the block has more bits. `frames`: those that are asked for.
void find_largest(const SlicedLayout& layout, const SlicedBlock& block, const std::vector<std::uint8_t>& n_bits,
                  const Plane& frames, Largest& out) {
  const auto read = [&](std::uint64_t p) { return StreamPlanes(block, layout.stream_of_pixel[p]); };
  // From the widest pixels down, until every frame has a count that narrower pixels cannot reach.
  std::uint32_t bits = *std::max_element(n_bits.begin(), n_bits.end());
  for (; bits > 0; --bits) {
    for (auto p = n_bits.begin(); (p = std::find(p, n_bits.end(), static_cast<std::uint8_t>(bits))) != n_bits.end();
         ++p)
      out.take_larger(read(static_cast<std::uint64_t>(p - n_bits.begin())));
    Plane short_of = out.at_least(bits - 1);
    for (std::uint32_t i = 0; i < kWords; ++i) short_of.w[i] = frames.w[i] & ~short_of.w[i];
    if (short_of.none()) break;
  }
  Plane open = out.at_least(0);
  for (std::uint32_t p = 0; p < layout.n_pixels && !open.none(); ++p)
    if (n_bits[p] >= bits && n_bits[p] > 0) out.take_pixel(read(p), p, open);
}

struct PixelCounts {
  Counter nonzero;
  std::uint32_t n_saturated[kBlockPositions] = {};
  std::vector<std::uint8_t> n_bits;  // of the widest count of each pixel, flat
};

void count_pixels(const SlicedLayout& layout, const SlicedBlock& block, std::uint64_t saturation, PixelCounts& out) {
  out.n_bits.resize(layout.n_pixels);
  const std::uint16_t* list = block.list_begin(0);
  for (std::uint32_t s = 0; s < layout.n_pixels; ++s) {  // in the order of storage
    const std::uint32_t width = block.width(s);
    const std::uint16_t* stop = block.list_stop(s);  // ordered by plane, all at or above the width
    const std::uint32_t n_bits = list < stop ? listed_plane(stop[-1]) + 1 : width;
    out.n_bits[layout.pixel_of_stream[s]] = static_cast<std::uint8_t>(n_bits);
    if (n_bits == 0) continue;
    Plane any{};
    const auto* planes = reinterpret_cast<const std::uint64_t*>(block.stream_planes(s));
    for (std::uint32_t k = 0; k < width; ++k)
      for (std::uint32_t i = 0; i < kWords; ++i) any.w[i] |= planes[k * kWords + i];
    for (; list < stop; ++list) any.set(listed_position(*list));
    out.nonzero.add(any);
    if (n_bits < static_cast<std::uint32_t>(std::bit_width(saturation))) continue;
    const StreamPlanes x(block, s);
    for (std::uint32_t i = 0; i < kWords; ++i)
      each_position(x.at_or_above(saturation, i), i, [&](std::uint32_t at) { ++out.n_saturated[at]; });
  }
  out.nonzero.finish();
}

}  // namespace

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
    const std::uint64_t first = b * kBlockPositions;
    const auto n = static_cast<std::uint32_t>(std::min<std::uint64_t>(kBlockPositions, storage.n_positions - first));
    Plane frames{};
    for (std::uint32_t i = 0; i < n; ++i)
      if (volume.valid_positions()[first + i]) frames.set(i);
    alignas(64) std::uint64_t totals[kBlockPositions];
    const std::span<std::uint64_t> image(totals);
    sum_forms({&storage.blocks[b], 1}, {&total, 1}, {&image, 1});
    PixelCounts counts;
    count_pixels(layout, storage.blocks[b], saturation, counts);
    Largest largest;
    std::fill(largest.pixel, largest.pixel + n, first_valid);  // where a frame of zeros has its largest count
    find_largest(layout, storage.blocks[b], counts.n_bits, frames, largest);
    for (std::uint32_t i = 0; i < n; ++i) {
      if (!(frames.w[i / 64] >> (i % 64) & 1)) continue;  // stays 0
      out.total[first + i] = totals[i];
      out.max[first + i] = static_cast<double>(number_at(largest.max, largest.n_planes, i));
      out.argmax[first + i] = largest.pixel[i];
      out.n_nonzero[first + i] = static_cast<std::uint32_t>(number_at(counts.nonzero.sum, kCountBits, i));
      out.n_saturated[first + i] = counts.n_saturated[i];
    }
  }));
  return std::string_view("cpu_sliced_frame_statistics");
}

}  // namespace quantem::detector_detail
