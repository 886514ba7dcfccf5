// Adders of bit planes and the way back to integers, for one SIMD target (foreach_target includes this several times).

#if defined(QUANTEM_DETECTOR_SLICE_ADDERS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUANTEM_DETECTOR_SLICE_ADDERS_INL_H_
#undef QUANTEM_DETECTOR_SLICE_ADDERS_INL_H_
#else
#define QUANTEM_DETECTOR_SLICE_ADDERS_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "hwy/highway.h"
#include "quantem/detector/slice_scratch.h"

HWY_BEFORE_NAMESPACE();
namespace quantem::detector_detail::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::CappedTag<std::uint64_t, kWords>;
using V = hn::Vec<D>;

// sum and carry of three planes; `a` becomes the sum, one operation after it is known.
HWY_INLINE V add3(V& a, V b, V c) {
  const V either = hn::Xor(b, c);
  const V carry = hn::Or(hn::And(b, c), hn::And(a, either));
  a = hn::Xor(a, either);
  return carry;
}

// Eight planes into the three lowest planes of a sum; the carry weighs eight.
HWY_INLINE V add8(V& s1, V& s2, V& s4, const std::uint64_t* const* x, std::uint32_t o) {
  const D d;
  const V two0 = add3(s1, hn::LoadU(d, x[0] + o), hn::LoadU(d, x[1] + o));
  const V two1 = add3(s1, hn::LoadU(d, x[2] + o), hn::LoadU(d, x[3] + o));
  const V four0 = add3(s2, two0, two1);
  const V two2 = add3(s1, hn::LoadU(d, x[4] + o), hn::LoadU(d, x[5] + o));
  const V two3 = add3(s1, hn::LoadU(d, x[6] + o), hn::LoadU(d, x[7] + o));
  const V four1 = add3(s2, two2, two3);
  return add3(s4, four0, four1);
}

HWY_INLINE bool any_bit(const std::uint64_t* plane) {
  std::uint64_t any = 0;
  for (std::uint32_t i = 0; i < kWords; ++i) any |= plane[i];
  return any != 0;
}

// Sixteen 32x32 bit transposes side by side: lane k of row i is word k of plane i before, the value of position 32 k + i after.
template <int kShift>
HWY_INLINE void transpose_stage(std::uint32_t (*rows)[16], std::uint32_t mask) {
  const hn::CappedTag<std::uint32_t, 16> d;
  const auto m = hn::Set(d, mask);
  for (std::uint32_t k = 0; k < 32; k = (k + kShift + 1) & ~std::uint32_t{kShift})
    for (std::uint32_t o = 0; o < 16; o += static_cast<std::uint32_t>(hn::Lanes(d))) {
      const auto lo = hn::Load(d, rows[k] + o), hi = hn::Load(d, rows[k + kShift] + o);
      const auto swap = hn::And(hn::Xor(hn::ShiftRight<kShift>(lo), hi), m);
      hn::Store(hn::Xor(lo, hn::ShiftLeft<kShift>(swap)), d, rows[k] + o);
      hn::Store(hn::Xor(hi, swap), d, rows[k + kShift] + o);
    }
}

// values[i] += or -= the bit-sliced number at position i.
void add_values(const std::uint64_t (*sum)[kWords], std::uint32_t n_planes, bool minus, std::uint64_t* values) {
  for (std::uint32_t base = 0; base < n_planes; base += 32) {
    const std::uint32_t n = std::min(n_planes - base, 32u);
    alignas(64) std::uint32_t rows[32][16];
    std::memcpy(rows, sum[base], n * sizeof rows[0]);
    std::memset(rows + n, 0, (32 - n) * sizeof rows[0]);
    transpose_stage<16>(rows, 0x0000ffffu);
    transpose_stage<8>(rows, 0x00ff00ffu);
    transpose_stage<4>(rows, 0x0f0f0f0fu);
    transpose_stage<2>(rows, 0x33333333u);
    transpose_stage<1>(rows, 0x55555555u);
    for (std::uint32_t k = 0; k < 16; ++k)
      for (std::uint32_t i = 0; i < 32; ++i) {
        const std::uint64_t v = std::uint64_t{rows[i][k]} << base;
        values[32 * k + i] += minus ? 0 - v : v;
      }
  }
}

}  // namespace quantem::detector_detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
