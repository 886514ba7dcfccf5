// From frames to pixels, for one SIMD target (foreach_target includes this several times): bit planes of 32 frames are transposed into pieces
// (per pixel one word of 32 frames), and the words of 16 pieces into the 64 bytes of each pixel and plane of a band of 8 detector rows.

#if defined(QUANTEM_RESIDENT_SLICED_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUANTEM_RESIDENT_SLICED_TRANSPOSE_INL_H_
#undef QUANTEM_RESIDENT_SLICED_TRANSPOSE_INL_H_
#else
#define QUANTEM_RESIDENT_SLICED_TRANSPOSE_INL_H_
#endif

#include <algorithm>

#include "hwy/highway.h"
#include "quantem/resident/sliced_encode_state.h"

HWY_BEFORE_NAMESPACE();
namespace quantem::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
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

}  // namespace
}  // namespace quantem::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
