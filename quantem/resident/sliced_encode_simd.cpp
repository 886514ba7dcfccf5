#include "quantem/resident/sliced_encode_simd.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "quantem/resident/sliced_encode_state.h"

// Arrays of vectors need vectors of known length.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quantem/resident/sliced_encode_simd.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "quantem/resident/sliced_pixels-inl.h"
#include "quantem/resident/sliced_sums-inl.h"
#include "quantem/resident/sliced_transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quantem::HWY_NAMESPACE {
namespace {

constexpr std::uint32_t low_bits(std::uint32_t n) {
  return n >= 32 ? ~0u : (1u << n) - 1;
}

struct TileSums {
  SlicedNumber total, row, col;
};

class BandWriter {
 public:
  explicit BandWriter(State& s) : s_(s), det_(s.layout->det), rows_(std::min(8u, det_.rows - 8 * s.band)) {}

  void tile(std::uint32_t tile) {
    const std::uint32_t cols = std::min(8u, det_.cols - 8 * tile);
    std::uint32_t row_planes[8] = {}, tile_planes = 0;
    for (std::uint32_t r = 0; r < rows_; ++r) tile_planes |= row_planes[r] = planes_of_row(tile, r, cols);
    for (std::uint32_t r = 0; r < 8;
         ++r) {  // zero where nothing was written: what the sums and the pixels of this row read
      const std::uint32_t read = tile_planes | low_bits(static_cast<std::uint32_t>(std::bit_width(row_planes[r])));
      clear(read & ~row_planes[r], slot(tile, r, 0), 8);
    }
    for (std::uint32_t r = 0; r < rows_; ++r)
      for (std::uint32_t c = 0; c < cols; ++c)
        write_pixel(s_, PixelPlanes{slot(tile, r, c), s_.band_plane_bytes},
                    static_cast<std::uint32_t>(std::bit_width(row_planes[r])),
                    (8 * s_.band + r) * det_.cols + 8 * tile + c);
    sum(tile, tile_planes);
  }

 private:
  [[nodiscard]] std::byte* slot(std::uint32_t tile, std::uint32_t r, std::uint32_t c) {
    return s_.band_planes.data() + (std::size_t{tile} * 64 + r * 8 + c) * kPlaneBytes;
  }
  void clear(std::uint32_t planes, std::byte* first, std::size_t n_pixels) {
    const Words d;
    for (; planes; planes &= planes - 1) {
      auto* to = reinterpret_cast<std::uint64_t*>(first + static_cast<std::size_t>(std::countr_zero(planes)) *
                                                              s_.band_plane_bytes);
      for (std::size_t w = 0; w < n_pixels * kPlaneWords64; w += hn::Lanes(d)) hn::Store(hn::Zero(d), d, to + w);
    }
  }
  // Planes of a tile's row that are not zero. A row across two octets of flat pixels may have a plane in one of them only: the
  // pixels of the other were not written and are cleared.
  std::uint32_t planes_of_row(std::uint32_t tile, std::uint32_t r, std::uint32_t cols) {
    const std::uint32_t pixel = r * det_.cols + 8 * tile, left = pixel / 8, right = (pixel + cols - 1) / 8;
    const std::uint32_t in_left = s_.octet_planes[left], in_right = s_.octet_planes[right];
    if (left == right) return in_left;
    const std::uint32_t n_left = 8 - pixel % 8;
    clear(in_right & ~in_left, slot(tile, r, 0), n_left);
    clear(in_left & ~in_right, slot(tile, r, n_left), cols - n_left);
    return in_left | in_right;
  }
  void sums_of_4(std::uint32_t tile, std::uint32_t planes) {
    const Extent n = s_.layout->tiles4_of(s_.band * s_.layout->tiles8.cols + tile);
    alignas(64) std::uint64_t count[5][kPlaneWords64];
    for (std::uint32_t r = 0; r < n.rows; ++r)
      for (std::uint32_t c = 0; c < n.cols; ++c) {
        sum4_.n_planes = 0;
        for (std::uint32_t left = planes; left; left &= left - 1) {
          const auto b = static_cast<std::uint32_t>(std::countr_zero(left));
          count_plane_4(reinterpret_cast<const std::uint64_t*>(slot(tile, 4 * r, 4 * c) + b * s_.band_plane_bytes),
                        count);
          add_shifted(sum4_, count[0], 5, b);
        }
        s_.sums4.add(sum4_);
      }
  }
  void sum(std::uint32_t tile, std::uint32_t planes) {
    if (s_.layout->has_tiles_4()) sums_of_4(tile, planes);
    sums_.total.n_planes = sums_.row.n_planes = sums_.col.n_planes = 0;
    for (; planes; planes &= planes - 1) {
      const auto b = static_cast<std::uint32_t>(std::countr_zero(planes));
      PlaneSums p;
      sum_plane(reinterpret_cast<const std::uint64_t*>(slot(tile, 0, 0) + b * s_.band_plane_bytes), p);
      add_shifted(sums_.total, p.total[0], 7, b);
      add_shifted(sums_.row, p.row[0], 8, b);
      add_shifted(sums_.col, p.col[0], 8, b);
    }
    s_.sums8.add(sums_.total);
    SlicedNumber &total = s_.sum32[tile / 4], &row = s_.row32[tile / 4], &col = s_.col32[tile / 4];
    const auto add = [](SlicedNumber& to, const SlicedNumber& x, std::uint32_t shift) {
      add_shifted(to, x.plane[0], x.n_planes, shift);
    };
    add(total, sums_.total, 0);
    add(row, sums_.row, 0);
    add(col, sums_.col, 0);
    for (std::uint32_t bit = 0; bit < 2; ++bit) {  // the tile's first row in its 32x32 tile is 8 * (band % 4)
      if (s_.band % 4 >> bit & 1) add(row, sums_.total, 3 + bit);
      if (tile % 4 >> bit & 1) add(col, sums_.total, 3 + bit);
    }
  }

  State& s_;
  const Extent det_;
  const std::uint32_t rows_;
  TileSums sums_;
  SlicedNumber sum4_;
};

void finish_band(State& s) {
  const SlicedLayout& layout = *s.layout;
  BandWriter band(s);
  for (std::uint32_t t = 0; t < layout.tiles8.cols; ++t) band.tile(t);
  if (s.band % 4 == 3 || s.band + 1 == layout.tiles8.rows)
    for (std::uint32_t t = 0; t < layout.tiles32.cols; ++t) {
      s.sums32.add(s.sum32[t]);
      s.moments32.add(s.row32[t]);
      s.moments32.add(s.col32[t]);
      s.sum32[t].n_planes = s.row32[t].n_planes = s.col32[t].n_planes = 0;
    }
  std::fill(s.octet_planes.begin(), s.octet_planes.end(), 0u);
  ++s.band;
}

}  // namespace

std::size_t vector_bytes() {
  return piece_vector_bytes();
}

void add_frames_of(State& s, std::uint32_t group, const std::uint8_t* planes, std::size_t stride,
                   std::size_t live_bytes) {
  add_frames(s, group, planes, stride, live_bytes);
}

void end_range_of(State& s) {
  const std::size_t piece_bytes = kPieceVectors * s.vector_bytes;
  for (std::size_t at = 0; at < s.live_groups.size(); ++at)  // a plane that some groups have must be whole
    for (std::uint32_t k = 0; s.live_groups[at] && k < 16; ++k)
      if (!(s.live_groups[at] >> k & 1)) std::memset(s.pieces.data() + (at * 16 + k) * piece_bytes, 0, piece_bytes);
  const std::uint32_t end = s.range_first + s.range_count;
  const std::uint32_t band_pixels = 8 * s.layout->det.cols, n_pixels = s.layout->n_pixels;
  while (s.band < s.layout->tiles8.rows) {
    const std::uint32_t begin = s.band * band_pixels, stop = begin + band_pixels;
    if (begin >= end) break;
    const std::uint32_t first = std::max(begin, s.range_first) / 8, last = std::min(stop, end) / 8;
    for (std::size_t b = 0; b < s.item_planes; ++b)
      for (std::size_t v = (first - s.range_first / 8) / s.vector_bytes; v < s.n_vectors; ++v) {
        if (s.range_first / 8 + v * s.vector_bytes >= last) break;
        if (s.live_groups[b * s.n_vectors + v]) gather_vector(s, b, v, first, last);
      }
    if (std::min(stop, n_pixels) > end) break;
    finish_band(s);
  }
}

}  // namespace quantem::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quantem {

HWY_EXPORT(vector_bytes);
HWY_EXPORT(add_frames_of);
HWY_EXPORT(end_range_of);

PlaneEncoder::PlaneEncoder(const SlicedLayout& layout, std::uint32_t item_bytes, const BitMask& valid_pixels,
                           const PlaneEncoderOptions& options)
    : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.layout = &layout;
  s.item_planes = 8 * item_bytes;
  s.options = options;
  s.vector_bytes = static_cast<std::uint32_t>(HWY_DYNAMIC_DISPATCH(vector_bytes)());
  if (valid_pixels.count() && !valid_pixels.all()) {
    s.valid_bytes.assign((std::size_t{layout.n_pixels} + 7) / 8, 0);
    for (std::size_t i = 0; i < s.valid_bytes.size(); ++i)
      s.valid_bytes[i] = static_cast<std::uint8_t>(valid_pixels.words()[i / 8] >> (8 * (i % 8)));
  }
  const std::uint32_t cols = layout.det.cols;
  // One line more than the pixels need: a tile's planes do not all fall into the same sets of a cache.
  s.band_plane_bytes = std::size_t{layout.tiles8.cols} * 64 * kPlaneBytes + kPlaneBytes;
  s.slot.resize(std::size_t{cols} * 8);
  for (std::uint32_t r = 0; r < 8; ++r)
    for (std::uint32_t c = 0; c < cols; ++c) s.slot[std::size_t{r} * cols + c] = c / 8 * 64 + r * 8 + c % 8;
  s.octet_planes.assign(cols, 0);
  s.sum32.resize(layout.tiles32.cols);
  s.row32.resize(layout.tiles32.cols);
  s.col32.resize(layout.tiles32.cols);
}
PlaneEncoder::~PlaneEncoder() = default;
PlaneEncoder::PlaneEncoder(PlaneEncoder&&) noexcept = default;

void PlaneEncoder::start(const PositionBits& valid, const std::uint64_t* order) {
  State& s = *state_;
  s.valid = valid;
  s.order = order;
  s.max_planes = 0;
  s.saturated_planes = std::max(1u, static_cast<std::uint32_t>(std::bit_width(s.options.saturated_from)));
  s.audit = {};
  s.flagged.clear();
  s.sums8.clear();
  s.sums32.clear();
  s.moments32.clear();
  s.sums4.clear();
  s.next_pixel = s.band = 0;
  std::fill(s.octet_planes.begin(), s.octet_planes.end(), 0u);
  for (std::size_t t = 0; t < s.sum32.size(); ++t) s.sum32[t].n_planes = s.row32[t].n_planes = s.col32[t].n_planes = 0;
  s.writer.start(s.layout->n_streams);
}

void PlaneEncoder::begin_range(std::uint32_t first, std::uint32_t count) {
  State& s = *state_;
  s.range_first = first;
  s.range_count = count;
  s.n_vectors = (count / 8 + s.vector_bytes - 1) / s.vector_bytes;
  const std::size_t n_bytes = std::size_t{s.n_vectors} * s.vector_bytes;
  s.range_mask.assign(n_bytes, 0);
  const std::uint32_t n_pixels = std::min(count, s.layout->n_pixels - first);
  for (std::uint32_t i = 0; i < (n_pixels + 7) / 8; ++i) {
    const unsigned valid = s.valid_bytes.empty() ? 0xffu : s.valid_bytes[first / 8 + i];
    s.range_mask[i] =
        static_cast<std::uint8_t>(n_pixels - 8 * i >= 8 ? valid : valid & ((1u << (n_pixels - 8 * i)) - 1));
  }
  s.masked.assign(s.n_vectors, 0);
  for (std::size_t i = 0; i < n_bytes; ++i)
    if (s.range_mask[i] != 0xff) s.masked[i / s.vector_bytes] = 1;
  s.live_groups.assign(std::size_t{s.item_planes} * s.n_vectors, 0);
  const std::uint64_t need = std::uint64_t{s.item_planes} * n_bytes * 512;
  if (s.pieces.n_bytes() < need) s.pieces = Buffer(need);
  if (s.band_planes.n_bytes() == 0) {
    const std::uint64_t band_bytes = s.item_planes * s.band_plane_bytes;
    auto zeroed = allocate_zeroed_buffer(band_bytes, "encode");
    if (zeroed) s.band_planes = *std::move(zeroed);
  }
}

void PlaneEncoder::add_frames(std::uint32_t group, const std::byte* planes, std::size_t stride,
                              std::size_t live_bytes) {
  if (!state_->pieces.data() || live_bytes == 0) return;
  HWY_DYNAMIC_DISPATCH(add_frames_of)
  (*state_, group, reinterpret_cast<const std::uint8_t*>(planes), stride, live_bytes);
}

void PlaneEncoder::end_range() {
  State& s = *state_;
  s.next_pixel = s.range_first + s.range_count;
  if (!s.pieces.data() || !s.band_planes.data()) return;
  HWY_DYNAMIC_DISPATCH(end_range_of)(s);
}

Result<EncodedBlock> PlaneEncoder::finish() {
  State& s = *state_;
  if (!s.pieces.data() || !s.band_planes.data())
    return Error{Code::out_of_memory, "encode: no memory for the planes of 8 detector rows"};
  for (const StreamQueue* queue : {&s.sums8, &s.sums32, &s.moments32, &s.sums4}) {
    const auto* planes = reinterpret_cast<const std::uint32_t*>(queue->planes.data());
    for (const std::uint8_t n : queue->n_planes) {
      s.writer.add_stream(planes, n);
      planes += std::size_t{n} * BlockWriter::kPlaneWords;
    }
  }
  std::sort(s.flagged.begin(), s.flagged.end());
  return s.writer.finish();
}

const BlockAudit& PlaneEncoder::audit() const {
  return state_->audit;
}
const std::vector<BlockSample>& PlaneEncoder::flagged() const {
  return state_->flagged;
}

}  // namespace quantem
#endif
