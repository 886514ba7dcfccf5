// One pixel of a block, from its planes in the band to its stream, for one SIMD target (foreach_target includes this several times): markers
// cleared, the audit taken, planes stored and bits listed.

#if defined(QUANTEM_RESIDENT_SLICED_PIXELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUANTEM_RESIDENT_SLICED_PIXELS_INL_H_
#undef QUANTEM_RESIDENT_SLICED_PIXELS_INL_H_
#else
#define QUANTEM_RESIDENT_SLICED_PIXELS_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cstring>

#include "hwy/highway.h"
#include "quantem/resident/sliced_encode_state.h"
#include "quantem/resident/sliced_sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quantem::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using State = PlaneEncoder::State;

// The planes of one pixel in the band.
struct PixelPlanes {
  std::byte* first;
  std::size_t step;
  [[nodiscard]] std::uint64_t* operator[](std::uint32_t b) const {
    return reinterpret_cast<std::uint64_t*>(first + b * step);
  }
};

HWY_INLINE std::uint32_t count_bits(const std::uint64_t* plane) {
  int n = 0;
  for (std::size_t i = 0; i < kPlaneWords64; ++i) n += std::popcount(plane[i]);
  return static_cast<std::uint32_t>(n);
}
std::uint32_t first_bit(const std::uint64_t* plane) {
  std::uint32_t i = 0;
  while (plane[i] == 0) ++i;
  return 64 * i + static_cast<std::uint32_t>(std::countr_zero(plane[i]));
}

// cand &= plane (or its complement); false, and cand unchanged, when nothing would be left.
bool narrow(std::uint64_t* cand, const std::uint64_t* plane, std::uint64_t flip) {
  std::uint64_t next[kPlaneWords64], any = 0;
  for (std::size_t i = 0; i < kPlaneWords64; ++i) any |= next[i] = cand[i] & (plane[i] ^ flip);
  if (any) std::memcpy(cand, next, sizeof next);
  return any != 0;
}

// Of the positions in `set`, the one whose frame was acquired first.
std::uint32_t first_acquired(const std::uint64_t* set, const std::uint64_t* order) {
  std::uint32_t best = first_bit(set);
  if (!order) return best;
  for (std::uint32_t i = best + 1; i < kBlockPositions; ++i)
    if (set[i / 64] >> (i % 64) & 1 && order[i] < order[best]) best = i;
  return best;
}

// The largest value of a pixel, when it may be the block's. The top plane is not zero.
void audit_max(State& s, const PixelPlanes& planes, std::uint32_t n, std::uint32_t pixel) {
  BlockAudit& audit = s.audit;
  std::uint64_t value = std::uint64_t{1} << (n - 1), cand[kPlaneWords64];
  std::memcpy(cand, planes[n - 1], sizeof cand);
  for (std::uint32_t b = n - 1; b-- > 0;) {
    if (narrow(cand, planes[b], 0)) value |= std::uint64_t{1} << b;
    if (value >> b < audit.count_max >> b) return;
  }
  const std::uint32_t position = first_acquired(cand, s.order);
  if (value == audit.count_max) {
    const auto rank = [&](std::uint32_t i) { return s.order ? s.order[i] : i; };
    if (std::pair(rank(position), pixel) > std::pair(rank(audit.max_position), audit.max_pixel)) return;
  }
  audit.count_max = value;
  audit.max_position = position;
  audit.max_pixel = pixel;
}

// The smallest value of a pixel that is nowhere zero at valid positions.
std::uint64_t smallest(const PositionBits& valid, const PixelPlanes& planes, std::uint32_t n) {
  std::uint64_t value = 0, cand[kPlaneWords64];
  std::memcpy(cand, valid.data(), sizeof cand);
  for (std::uint32_t b = n; b-- > 0;)
    if (!narrow(cand, planes[b], ~std::uint64_t{0})) value |= std::uint64_t{1} << b;
  return value;
}

// Positions with a value >= least.
std::uint32_t count_from(std::uint64_t least, const PixelPlanes& planes, std::uint32_t n) {
  std::uint64_t at_least[kPlaneWords64];
  std::fill(at_least, at_least + kPlaneWords64, ~std::uint64_t{0});
  for (std::uint32_t b = 0; b < n; ++b)
    for (std::size_t i = 0; i < kPlaneWords64; ++i)
      at_least[i] = least >> b & 1 ? at_least[i] & planes[b][i] : at_least[i] | planes[b][i];
  return count_bits(at_least);
}

// Positions whose planes [from, n) are not all zero.
HWY_INLINE std::uint32_t count_any(const PixelPlanes& planes, std::uint32_t from, std::uint32_t n) {
  const Words d;
  alignas(64) std::uint64_t any[kPlaneWords64];
  for (std::size_t w = 0; w < kPlaneWords64; w += hn::Lanes(d)) {
    V x = hn::Load(d, planes[from] + w);
    for (std::uint32_t b = from + 1; b < n; ++b) x = hn::Or(x, hn::Load(d, planes[b] + w));
    hn::Store(x, d, any + w);
  }
  return count_bits(any);
}

// The pixel has a zero or its values may be the block's smallest. Rare: count_min is 0 from the first zero on.
void audit_min(State& s, const PixelPlanes& planes, std::uint32_t n, std::uint32_t n_nonzero, std::uint32_t pixel,
               std::uint32_t n_flagged) {
  if (!s.valid_bytes.empty() && !(s.valid_bytes[pixel / 8] >> (pixel % 8) & 1)) return;
  PositionBits with_value = s.valid;
  for (std::size_t i = s.flagged.size() - n_flagged; i < s.flagged.size(); ++i)
    with_value[s.flagged[i].position / 64] &= ~(std::uint64_t{1} << (s.flagged[i].position % 64));
  const std::uint32_t n_values = count_bits(with_value.data());
  if (n_values == 0) return;
  s.audit.count_min = n_nonzero < n_values ? 0 : std::min(s.audit.count_min, smallest(with_value, planes, n));
}

void audit_pixel(State& s, const PixelPlanes& planes, std::uint32_t n, std::uint32_t pixel, std::uint32_t n_flagged) {
  BlockAudit& audit = s.audit;
  const std::uint32_t n_nonzero = n ? count_any(planes, 0, n) : 0;
  audit.n_nonzero += n_nonzero;
  if (n >= s.max_planes && n) audit_max(s, planes, n, pixel);
  s.max_planes = static_cast<std::uint32_t>(std::bit_width(audit.count_max));
  if (n > 8) audit.n_above_255 += count_any(planes, 8, n);
  if (n > 16) audit.n_above_65535 += count_any(planes, 16, n);
  if (n >= s.saturated_planes) audit.n_saturated += count_from(s.options.saturated_from, planes, n);
  if (audit.count_min != 0) audit_min(s, planes, n, n_nonzero, pixel, n_flagged);
}

// Clears the samples of a pixel that hold the marker (all 32 bits set) and lists them; returns how many.
std::uint32_t clear_markers(State& s, const PixelPlanes& planes, std::uint32_t pixel) {
  std::uint64_t all[kPlaneWords64];
  std::fill(all, all + kPlaneWords64, ~std::uint64_t{0});
  for (std::uint32_t b = 32; b-- > 0;)
    if (!narrow(all, planes[b], 0)) return 0;
  std::uint32_t n = 0;
  for (std::uint32_t i = 0; i < kPlaneWords64; ++i) {
    for (std::uint64_t w = all[i]; w; w &= w - 1, ++n)
      s.flagged.push_back({64 * i + static_cast<std::uint32_t>(std::countr_zero(w)), pixel});
    for (std::uint32_t b = 0; b < 32; ++b) planes[b][i] &= ~all[i];
  }
  s.audit.n_flagged += n;
  return n;
}

// Lists the set bits of a plane: four a word without a branch (a listed plane has fewer than 24 bits in 8 words), the
// rest in a loop. Writes past the end of the list; BlockWriter::store leaves room.
HWY_INLINE std::uint16_t* list_plane(const std::uint64_t* plane, std::uint32_t b, std::uint16_t* out) {
  // The lowest set bit; 63 when there is none, so that no branch is needed for what is not kept.
  const auto lowest = [](std::uint64_t w) {
    return static_cast<std::uint32_t>(__builtin_ctzll(w | std::uint64_t{1} << 63));
  };
  for (std::uint32_t i = 0; i < kPlaneWords64; ++i) {
    std::uint64_t w = plane[i];
    const int n = std::popcount(w);
    const std::uint32_t at = b << 11 | i << 8;
    for (int j = 0; j < 4; ++j, w &= w - 1) out[j] = static_cast<std::uint16_t>(at + (lowest(w) << 2));
    for (int j = 4; j < n; ++j, w &= w - 1) out[j] = static_cast<std::uint16_t>(at + (lowest(w) << 2));
    out += n;
  }
  return out;
}

void write_pixel(State& s, const PixelPlanes& planes, std::uint32_t n, std::uint32_t pixel) {
  const Words d;
  const std::uint32_t n_flagged = n == 32 && s.options.zero_markers ? clear_markers(s, planes, pixel) : 0;
  // Set bits, from the top plane down to the first that is stored for sure.
  std::uint16_t set_bits[32];
  while (n && (set_bits[n - 1] = static_cast<std::uint16_t>(count_bits(planes[n - 1]))) == 0) --n;
  for (std::uint32_t b = n; b-- > 1 && set_bits[b] < kListThreshold;)
    set_bits[b - 1] = static_cast<std::uint16_t>(count_bits(planes[b - 1]));
  audit_pixel(s, planes, n, pixel, n_flagged);
  const BlockWriter::Cut cut = BlockWriter::cut(n, set_bits);
  auto* to = reinterpret_cast<std::uint64_t*>(s.writer.next_planes());
  if (!to) return;
  for (std::uint32_t b = 0; b < cut.width; ++b, to += kPlaneWords64)
    for (std::size_t w = 0; w < kPlaneWords64; w += hn::Lanes(d)) hn::Store(hn::Load(d, planes[b] + w), d, to + w);
  std::uint16_t* list = s.writer.store(cut);
  for (std::uint32_t b = cut.width; b < n; ++b) list = list_plane(planes[b], b, list);
}

}  // namespace
}  // namespace quantem::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
