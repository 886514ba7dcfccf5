// Sums of an 8x8 tile and its first moments, one bit plane at a time, for one SIMD target (foreach_target includes this several
// times). A plane adds linearly: value = sum over planes b of plane << b, so the 64 one-bit planes b of a tile's pixels are added
// with carry-save adders into small bit-sliced numbers, which are then added to the tile's sums, b planes up.

#if defined(QUANTEM_RESIDENT_SLICED_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUANTEM_RESIDENT_SLICED_SUMS_INL_H_
#undef QUANTEM_RESIDENT_SLICED_SUMS_INL_H_
#else
#define QUANTEM_RESIDENT_SLICED_SUMS_INL_H_
#endif

#include "hwy/highway.h"
#include "quantem/resident/sliced_encode_state.h"

HWY_BEFORE_NAMESPACE();
namespace quantem::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Words = hn::CappedTag<std::uint64_t, kPlaneWords64>;
using V = hn::Vec<Words>;

template <int n>
struct Number {  // n planes of a part of the positions
  V v[n];
};

HWY_INLINE void full_add(V a, V b, V c, V& sum, V& carry) {
  const V u = hn::Xor(a, b);
  sum = hn::Xor(u, c);
  carry = hn::Or(hn::And(a, b), hn::And(u, c));
}
HWY_INLINE void half_add(V a, V b, V& sum, V& carry) {
  sum = hn::Xor(a, b);
  carry = hn::And(a, b);
}
template <int n>
HWY_INLINE Number<n + 1> add(const Number<n>& a, const Number<n>& b) {
  Number<n + 1> r;
  V carry;
  half_add(a.v[0], b.v[0], r.v[0], carry);
  for (int i = 1; i < n; ++i) {
    const V c = carry;
    full_add(a.v[i], b.v[i], c, r.v[i], carry);
  }
  r.v[n] = carry;
  return r;
}
// a + 2 b
template <int n>
HWY_INLINE Number<n + 2> add_twice(const Number<n>& a, const Number<n>& b) {
  Number<n + 2> r;
  r.v[0] = a.v[0];
  V carry;
  half_add(a.v[1], b.v[0], r.v[1], carry);
  for (int i = 2; i < n; ++i) {
    const V c = carry;
    full_add(a.v[i], b.v[i - 1], c, r.v[i], carry);
  }
  half_add(b.v[n - 1], carry, r.v[n], r.v[n + 1]);
  return r;
}
template <int n>
HWY_INLINE Number<n + 1> widen(const Number<n>& a) {
  Number<n + 1> r;
  for (int i = 0; i < n; ++i) r.v[i] = a.v[i];
  r.v[n] = hn::Zero(Words());
  return r;
}

// Eight one-bit planes, four from p and four from q on, `stride` words apart.
HWY_INLINE Number<4> count8(const std::uint64_t* HWY_RESTRICT p, const std::uint64_t* HWY_RESTRICT q,
                            std::size_t stride) {
  const Words d;
  V a0, a1, a2, c0, c1, c2, c3, b0, d0, d1;
  Number<4> r;
  full_add(hn::Load(d, p), hn::Load(d, p + stride), hn::Load(d, p + 2 * stride), a0, c0);
  full_add(hn::Load(d, p + 3 * stride), hn::Load(d, q), hn::Load(d, q + stride), a1, c1);
  full_add(a0, a1, hn::Load(d, q + 2 * stride), a2, c2);
  half_add(a2, hn::Load(d, q + 3 * stride), r.v[0], c3);
  full_add(c0, c1, c2, b0, d0);
  half_add(b0, c3, r.v[1], d1);
  half_add(d0, d1, r.v[2], r.v[3]);
  return r;
}
// Eight in a row.
HWY_INLINE Number<4> count8(const std::uint64_t* HWY_RESTRICT p, std::size_t stride) {
  return count8(p, p + 4 * stride, stride);
}

// sum of i * x[i]; *total, when asked for, is the sum of x[i]
HWY_INLINE Number<9> weighted8(const Number<4>* x, Number<7>* total) {
  const auto x23 = add(x[2], x[3]), x45 = add(x[4], x[5]), x67 = add(x[6], x[7]);
  const auto fours = add(x45, x67), twos = add(x23, x67);
  const auto ones = add(add(x[1], x[3]), add(x[5], x[7]));
  if (total) *total = add(add(add(x[0], x[1]), x23), fours);
  const auto high = add_twice(twos, fours);  // 8 planes
  return add_twice(widen(ones),
                   Number<7>{{high.v[0], high.v[1], high.v[2], high.v[3], high.v[4], high.v[5], high.v[6]}});
}

// Of one plane of a tile's 64 pixels (64 bytes each, row-major): their sum and its first moments over row and column inside the
// tile. The moments stay below 2^8: at most 7 * 8 * 4 = 224.
struct PlaneSums {
  alignas(64) std::uint64_t total[7][kPlaneWords64], row[8][kPlaneWords64], col[8][kPlaneWords64];
};
HWY_INLINE void sum_plane(const std::uint64_t* HWY_RESTRICT pixels, PlaneSums& out) {
  const Words d;
  for (std::size_t w = 0; w < kPlaneWords64; w += hn::Lanes(d)) {
    Number<4> x[8];
    Number<7> total;
    for (std::size_t i = 0; i < 8; ++i) x[i] = count8(pixels + i * 8 * kPlaneWords64 + w, kPlaneWords64);
    const auto row = weighted8(x, &total);
    for (std::size_t i = 0; i < 7; ++i) hn::Store(total.v[i], d, out.total[i] + w);
    for (std::size_t i = 0; i < 8; ++i) hn::Store(row.v[i], d, out.row[i] + w);
    for (std::size_t i = 0; i < 8; ++i) x[i] = count8(pixels + i * kPlaneWords64 + w, 8 * kPlaneWords64);
    const auto col = weighted8(x, nullptr);
    for (std::size_t i = 0; i < 8; ++i) hn::Store(col.v[i], d, out.col[i] + w);
  }
}

// Of one plane of a 4x4 tile whose first pixel is at `pixels` (8 pixels a row): how many are set.
HWY_INLINE void count_plane_4(const std::uint64_t* HWY_RESTRICT pixels, std::uint64_t (&out)[5][kPlaneWords64]) {
  constexpr std::size_t kRow = std::size_t{8} * kPlaneWords64;
  const Words d;
  for (std::size_t w = 0; w < kPlaneWords64; w += hn::Lanes(d)) {
    const std::uint64_t* p = pixels + w;
    const auto n = add(count8(p, p + kRow, kPlaneWords64), count8(p + 2 * kRow, p + 3 * kRow, kPlaneWords64));
    for (std::size_t i = 0; i < 5; ++i) hn::Store(n.v[i], d, out[i] + w);
  }
}

HWY_INLINE bool is_zero(const std::uint64_t* plane) {
  const Words d;
  V any = hn::Zero(d);
  for (std::size_t w = 0; w < kPlaneWords64; w += hn::Lanes(d)) any = hn::Or(any, hn::Load(d, plane + w));
  return hn::AllTrue(d, hn::Eq(any, hn::Zero(d)));
}

// sum += x << shift, x of n planes (64 bytes each). Exact: planes are added as the carry needs them.
inline void add_shifted(SlicedNumber& sum, const std::uint64_t* x, std::uint32_t n, std::uint32_t shift) {
  const Words d;
  if (n == 0) return;
  const std::uint32_t top = std::max(sum.n_planes, n + shift);
  for (std::uint32_t b = sum.n_planes; b <= top; ++b)
    for (std::size_t w = 0; w < kPlaneWords64; w += hn::Lanes(d)) hn::Store(hn::Zero(d), d, sum.plane[b] + w);
  for (std::size_t w = 0; w < kPlaneWords64; w += hn::Lanes(d)) {
    V carry = hn::Zero(d), s;
    for (std::uint32_t i = 0; i < n; ++i) {
      const V c = carry;
      full_add(hn::Load(d, sum.plane[shift + i] + w), hn::Load(d, x + std::size_t{i} * kPlaneWords64 + w), c, s, carry);
      hn::Store(s, d, sum.plane[shift + i] + w);
    }
    for (std::uint32_t b = shift + n; b < top; ++b) {
      const V c = carry;
      half_add(hn::Load(d, sum.plane[b] + w), c, s, carry);
      hn::Store(s, d, sum.plane[b] + w);
    }
    hn::Store(carry, d, sum.plane[top] + w);
  }
  sum.n_planes = top + 1;
  while (sum.n_planes && is_zero(sum.plane[sum.n_planes - 1])) --sum.n_planes;
}

}  // namespace
}  // namespace quantem::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
