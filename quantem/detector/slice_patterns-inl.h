// Sums of streams over scan positions, for one SIMD target (foreach_target includes this several times): set bits counted and weighted by
// their plane.

#if defined(QUANTEM_DETECTOR_SLICE_PATTERNS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUANTEM_DETECTOR_SLICE_PATTERNS_INL_H_
#undef QUANTEM_DETECTOR_SLICE_PATTERNS_INL_H_
#else
#define QUANTEM_DETECTOR_SLICE_PATTERNS_INL_H_
#endif

#include <bit>

#include "hwy/highway.h"
#include "quantem/detector/slice_adders-inl.h"
#include "quantem/detector/slice_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace quantem::detector_detail::HWY_NAMESPACE {

HWY_INLINE std::uint64_t count_bits(const std::uint64_t* plane, const std::uint64_t* positions) {
#if HWY_TARGET <= HWY_AVX3_DL
  const D d;
  const V v = hn::LoadU(d, plane);
  return hn::GetLane(hn::SumOfLanes(d, hn::PopulationCount(positions ? hn::And(v, hn::LoadU(d, positions)) : v)));
#else
  std::uint64_t n = 0;
  for (std::uint32_t i = 0; i < kWords; ++i)
    n += static_cast<std::uint64_t>(std::popcount(positions ? plane[i] & positions[i] : plane[i]));
  return n;
#endif
}

// Sum of 1 << plane over a list. Vectors read past its end, as far as `limit`; what lies past the end is masked out.
HWY_INLINE std::uint64_t list_sum(const std::uint16_t* e, const std::uint16_t* stop, const std::uint16_t* limit) {
  std::uint64_t sum = 0;
  // Lists are ordered by plane: the last entry says whether 255 of them fit 32 bits.
  if (e < stop && listed_plane(stop[-1]) < 24) {
    const hn::CappedTag<std::uint32_t, 8> d;
    const hn::Rebind<std::uint16_t, decltype(d)> narrow;
    const auto n_lanes = static_cast<std::uint32_t>(hn::Lanes(d));
    auto sums = hn::Zero(d);
    for (; e < stop && e + n_lanes <= limit; e += n_lanes) {
      const auto plane = hn::ShiftRight<11>(hn::PromoteTo(d, hn::LoadU(narrow, e)));
      const auto in = hn::Lt(hn::Iota(d, 0), hn::Set(d, static_cast<std::uint32_t>(stop - e)));
      sums = hn::Add(sums, hn::IfThenElseZero(in, hn::Shl(hn::Set(d, 1), plane)));
    }
    sum = hn::GetLane(hn::SumOfLanes(d, sums));
  }
  for (; e < stop; ++e) sum += std::uint64_t{1} << listed_plane(*e);
  return sum;
}

HWY_INLINE std::uint64_t list_sum_at(const std::uint16_t* e, const std::uint16_t* stop,
                                     const std::uint64_t* positions) {
  std::uint64_t sum = 0;
  for (; e < stop; ++e) {
    const std::uint32_t at = listed_position(*e);
    sum += (positions[at / 64] >> (at % 64) & 1) << listed_plane(*e);
  }
  return sum;
}

void add_stream_sums(const SlicedBlock& block, std::uint32_t n_streams, std::uint32_t first, std::uint32_t stop,
                     const std::uint64_t* positions, std::uint64_t* sums) {
  constexpr std::uint32_t kAlways = 3;
  const std::uint16_t *list = block.list_begin(first), *limit = block.list_stop(n_streams - 1);
  const auto* planes_stop =
      reinterpret_cast<const std::uint64_t*>(block.stream_planes(n_streams - 1)) + block.width(n_streams - 1) * kWords;
  for (std::uint32_t s = first; s < stop; ++s) {
    const auto* plane = reinterpret_cast<const std::uint64_t*>(block.stream_planes(s));
    const std::uint32_t width = block.width(s);
    std::uint64_t sum = 0;
    std::uint32_t k = 0;
    // Most pixels have two planes, one more or one less: three are counted without a branch, what is not theirs is dropped.
    if (plane + kAlways * kWords <= planes_stop)
      for (; k < kAlways; ++k) sum += (k < width ? count_bits(plane + k * kWords, positions) : 0) << k;
    for (; k < width; ++k) sum += count_bits(plane + k * kWords, positions) << k;
    const std::uint16_t* list_stop = block.list_stop(s);
    sum += positions ? list_sum_at(list, list_stop, positions) : list_sum(list, list_stop, limit);
    list = list_stop;
    sums[s - first] += sum;
  }
}

}  // namespace quantem::detector_detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
