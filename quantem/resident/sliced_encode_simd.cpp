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
#include "quantem/resident/sliced_sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quantem::HWY_NAMESPACE {
namespace {

using State = PlaneEncoder::State;
constexpr std::size_t kPieceVectors = 32;  // a piece: 32 frames x one vector of pixels (8 pixels a byte)

#if HWY_TARGET == HWY_SCALAR  // no vectors of bytes: plain loops in the same order of words

std::size_t piece_vector_bytes() {
  return 16;
}

template <bool kMasked>
bool transpose_piece(const std::uint8_t* in, std::size_t stride, const std::uint8_t* mask, std::uint8_t* out) {
  auto* words = reinterpret_cast<std::uint32_t*>(out);
  std::uint32_t any = 0;
  for (std::size_t i = 0; i < 16; ++i)
    for (std::size_t f = 0; f < 32; ++f) any |= in[f * stride + i] & mask[i];
  if (any == 0) return false;
  for (std::size_t i = 0; i < 16; ++i)
    for (std::size_t b = 0; b < 8; ++b) {
      std::uint32_t word = 0;
      for (std::size_t f = 0; f < 32; ++f)
        word |= static_cast<std::uint32_t>((in[f * stride + i] & mask[i]) >> b & 1) << f;
      words[(i / 4 * 8 + b) * 4 + i % 4] = word;
    }
  return true;
}

void gather_quad(const std::uint32_t* from, std::size_t bit_words, std::size_t group_words,
                 std::uint32_t* const (*to)[4], std::uint32_t* live) {
  for (std::size_t c = 0; c < 4; ++c) live[c] = 0;
  for (std::size_t b = 0; b < 8; ++b)
    for (std::size_t k = 0; k < 16; ++k)
      for (std::size_t c = 0; c < 4; ++c) live[c] |= to[b][c][k] = from[b * bit_words + k * group_words + c];
}

#else

using Bytes = hn::CappedTag<std::uint8_t, 64>;
std::size_t piece_vector_bytes() {
  return hn::Lanes(Bytes());
}

// One step of the 8x8 transpose of bits in every byte: swaps bit p + s of `lo` with bit p of `hi`.
template <int s, class VB>
HWY_INLINE void swap_bits(VB& lo, VB& hi) {
  const hn::Repartition<std::uint32_t, Bytes> d32;
  constexpr std::uint32_t kMask = s == 4 ? 0x0f0f0f0fu : s == 2 ? 0x33333333u : 0x55555555u;
  const auto l = hn::BitCast(d32, lo), h = hn::BitCast(d32, hi);
  const auto t = hn::And(hn::Xor(hn::ShiftRight<s>(l), h), hn::Set(d32, kMask));
  hi = hn::BitCast(Bytes(), hn::Xor(h, t));
  lo = hn::BitCast(Bytes(), hn::Xor(l, hn::ShiftLeft<s>(t)));
}

// 32 frames x one vector of bits -> per pixel one word of 32 frames. Bytes first: interleaving frames e, e + 8, e + 16, e + 24 makes
// each 32-bit lane four frames of one byte of pixels; then 8x8 bits in every byte. Word (q, b), block of 16 bytes k, lane c is the
// pixel with bit b of byte 16 k + 4 q + c. False, and nothing written, when all bits are zero.
template <bool kMasked>
bool transpose_piece(const std::uint8_t* HWY_RESTRICT in, std::size_t stride, const std::uint8_t* mask,
                     std::uint8_t* HWY_RESTRICT out) {
  const Bytes d;
  const hn::Repartition<std::uint16_t, Bytes> d16;
  const std::size_t n = hn::Lanes(d);
  const auto keep = hn::LoadU(d, mask);
  hn::Vec<Bytes> a[4][8];
  auto any = hn::Zero(d);
  for (std::size_t e = 0; e < 8; ++e) {
    auto x0 = hn::LoadU(d, in + e * stride), x1 = hn::LoadU(d, in + (e + 8) * stride);
    auto x2 = hn::LoadU(d, in + (e + 16) * stride), x3 = hn::LoadU(d, in + (e + 24) * stride);
    if constexpr (kMasked) {
      x0 = hn::And(x0, keep);
      x1 = hn::And(x1, keep);
      x2 = hn::And(x2, keep);
      x3 = hn::And(x3, keep);
    }
    any = hn::Or(hn::Or(any, hn::Or(x0, x1)), hn::Or(x2, x3));
    const auto low01 = hn::BitCast(d16, hn::InterleaveLower(d, x0, x1));
    const auto high01 = hn::BitCast(d16, hn::InterleaveUpper(d, x0, x1));
    const auto low23 = hn::BitCast(d16, hn::InterleaveLower(d, x2, x3));
    const auto high23 = hn::BitCast(d16, hn::InterleaveUpper(d, x2, x3));
    a[0][e] = hn::BitCast(d, hn::InterleaveLower(d16, low01, low23));
    a[1][e] = hn::BitCast(d, hn::InterleaveUpper(d16, low01, low23));
    a[2][e] = hn::BitCast(d, hn::InterleaveLower(d16, high01, high23));
    a[3][e] = hn::BitCast(d, hn::InterleaveUpper(d16, high01, high23));
  }
  if (hn::AllTrue(d, hn::Eq(any, hn::Zero(d)))) return false;
  for (std::size_t q = 0; q < 4; ++q) {
    auto x0 = a[q][0], x1 = a[q][1], x2 = a[q][2], x3 = a[q][3], x4 = a[q][4], x5 = a[q][5], x6 = a[q][6], x7 = a[q][7];
    swap_bits<4>(x0, x4), swap_bits<4>(x1, x5), swap_bits<4>(x2, x6), swap_bits<4>(x3, x7);
    swap_bits<2>(x0, x2), swap_bits<2>(x1, x3), swap_bits<2>(x4, x6), swap_bits<2>(x5, x7);
    swap_bits<1>(x0, x1), swap_bits<1>(x2, x3), swap_bits<1>(x4, x5), swap_bits<1>(x6, x7);
    std::uint8_t* to = out + q * 8 * n;
    hn::Store(x0, d, to), hn::Store(x1, d, to + n), hn::Store(x2, d, to + 2 * n), hn::Store(x3, d, to + 3 * n);
    hn::Store(x4, d, to + 4 * n), hn::Store(x5, d, to + 5 * n), hn::Store(x6, d, to + 6 * n),
        hn::Store(x7, d, to + 7 * n);
  }
  return true;
}

// One plane of 32 pixels, the 8 bits of 4 neighbouring bytes: 16 groups of frames -> 64 bytes of each pixel, 4x4 words at a time,
// so that a pixel's 64 bytes are written in one go. live[c]: not zero when byte c's pixels are not.
void gather_quad(const std::uint32_t* HWY_RESTRICT from, std::size_t bit_words, std::size_t group_words,
                 std::uint32_t* const (*to)[4], std::uint32_t* live) {
  const hn::Full128<std::uint32_t> d;
  const hn::Repartition<std::uint64_t, decltype(d)> d64;
  auto any = hn::Zero(d);
  for (std::size_t b = 0; b < 8; ++b) {
    const std::uint32_t* in = from + b * bit_words;
    for (std::size_t k = 0; k < 16; k += 4, in += 4 * group_words) {
      const auto x0 = hn::Load(d, in), x1 = hn::Load(d, in + group_words);
      const auto x2 = hn::Load(d, in + 2 * group_words), x3 = hn::Load(d, in + 3 * group_words);
      any = hn::Or(hn::Or(any, hn::Or(x0, x1)), hn::Or(x2, x3));
      const auto low01 = hn::BitCast(d64, hn::InterleaveLower(d, x0, x1));
      const auto low23 = hn::BitCast(d64, hn::InterleaveLower(d, x2, x3));
      const auto up01 = hn::BitCast(d64, hn::InterleaveUpper(d, x0, x1));
      const auto up23 = hn::BitCast(d64, hn::InterleaveUpper(d, x2, x3));
      hn::Store(hn::BitCast(d, hn::InterleaveLower(d64, low01, low23)), d, to[b][0] + k);
      hn::Store(hn::BitCast(d, hn::InterleaveUpper(d64, low01, low23)), d, to[b][1] + k);
      hn::Store(hn::BitCast(d, hn::InterleaveLower(d64, up01, up23)), d, to[b][2] + k);
      hn::Store(hn::BitCast(d, hn::InterleaveUpper(d64, up01, up23)), d, to[b][3] + k);
    }
  }
  hn::Store(any, d, live);
}

#endif

void add_frames(State& s, std::uint32_t group, const std::uint8_t* planes, std::size_t stride, std::size_t live_bytes) {
  const std::size_t n = s.vector_bytes, plane_bytes = s.range_count / 8;
  const std::size_t n_live = std::min<std::size_t>((live_bytes + plane_bytes - 1) / plane_bytes, s.item_planes);
  for (std::size_t b = 0; b < n_live; ++b)
    for (std::size_t v = 0; v < s.n_vectors; ++v) {
      const std::size_t at = b * s.n_vectors + v;
      const std::uint8_t* in = planes + b * plane_bytes + v * n;
      const std::uint8_t* mask = s.range_mask.data() + v * n;
      auto* out = reinterpret_cast<std::uint8_t*>(s.pieces.data()) + (at * 16 + group) * kPieceVectors * n;
      const bool live =
          s.masked[v] ? transpose_piece<true>(in, stride, mask, out) : transpose_piece<false>(in, stride, mask, out);
      if (live) s.live_groups[at] = static_cast<std::uint16_t>(s.live_groups[at] | 1u << group);
    }
}

// Pieces of one plane and vector -> planes of pixels in the band. Takes the octets (8 flat pixels) [first, stop) only.
void gather_vector(State& s, std::size_t plane, std::size_t v, std::uint32_t first, std::uint32_t stop) {
  const std::size_t n = s.vector_bytes, group_words = kPieceVectors * n / 4;
  const auto* pieces =
      reinterpret_cast<const std::uint32_t*>(s.pieces.data()) + (plane * s.n_vectors + v) * 16 * group_words;
  std::byte* const band = s.band_planes.data() + plane * s.band_plane_bytes;
  const std::uint32_t band_octet = s.band * s.layout->det.cols;  // a band of 8 rows has `cols` octets
  const auto vector_octet = static_cast<std::uint32_t>(s.range_first / 8 + v * n);
  alignas(64) std::uint32_t elsewhere[16];
  for (std::uint32_t quad = 0; quad < n / 4; ++quad) {
    const std::uint32_t octet = vector_octet + 4 * quad;
    if (octet + 4 <= first || octet >= stop) continue;
    const auto taken = [&](std::uint32_t c) { return octet + c >= first && octet + c < stop; };
    std::uint32_t* to[8][4];
    for (std::uint32_t c = 0; c < 4; ++c) {
      const std::uint32_t* slots = taken(c) ? &s.slot[std::size_t{octet + c - band_octet} * 8] : nullptr;
      for (std::uint32_t b = 0; b < 8; ++b)
        to[b][c] = slots ? reinterpret_cast<std::uint32_t*>(band + std::size_t{slots[b]} * kPlaneBytes) : elsewhere;
    }
    alignas(16) std::uint32_t live[4];
    gather_quad(pieces + quad % 4 * 8 * (n / 4) + quad / 4 * 4, n / 4, group_words, to, live);
    for (std::uint32_t c = 0; c < 4; ++c)
      if (live[c] && taken(c)) s.octet_planes[octet + c - band_octet] |= 1u << plane;
  }
}

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
  void sum(std::uint32_t tile, std::uint32_t planes) {
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
  for (const StreamQueue* queue : {&s.sums8, &s.sums32, &s.moments32}) {
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
