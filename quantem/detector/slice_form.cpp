#include <bit>

#include "quantem/detector/slice_kernels.h"

namespace quantem::detector_detail {

SliceForm form_of(std::span<const WeightedStream> streams) {
  SliceForm form;
  for (const auto& [stream, weight] : streams) {
    if (weight == 0) continue;
    // Non-adjacent form: the fewest signed powers of two, a third of the bits on average.
    const bool negative = weight < 0;
    const std::uint64_t w = negative ? 0 - static_cast<std::uint64_t>(weight) : static_cast<std::uint64_t>(weight);
    const std::uint64_t half = w >> 1, sum = w + half, changed = half ^ sum;
    for (std::uint64_t bits = sum & changed; bits; bits &= bits - 1)
      (negative ? form.minus : form.plus).push_back({stream, static_cast<std::uint32_t>(std::countr_zero(bits))});
    for (std::uint64_t bits = half & changed; bits; bits &= bits - 1)
      (negative ? form.plus : form.minus).push_back({stream, static_cast<std::uint32_t>(std::countr_zero(bits))});
    const auto list_weight = static_cast<std::uint64_t>(weight);
    if (!form.lists.empty() && form.lists.back().stop == stream && form.lists.back().weight == list_weight)
      ++form.lists.back().stop;
    else
      form.lists.push_back({stream, stream + 1, list_weight});
  }
  return form;
}

SliceForm form_of(const MaskPlan& plan) {
  std::vector<WeightedStream> streams;
  streams.reserve(plan.terms.size());
  for (const PlanTerm& t : plan.terms) streams.push_back({t.stream, t.sign});
  return form_of(streams);
}

}  // namespace quantem::detector_detail
