#pragma once
// The bit-sliced engine on the CPU: the same answers as the dense reference, from far fewer bytes. Blocks of 512 positions (or
// ranges of streams) run on all threads; no result depends on their number or order.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>

#include "quantem/detector/detector_ops.h"
#include "quantem/detector/plan.h"
#include "quantem/detector/slice_kernels.h"
#include "quantem/detector/sweep.h"

namespace quantem::detector_detail {

// Made once a volume. Costs in nanoseconds as measured with AVX2.
inline std::shared_ptr<const Planner> cpu_planner(const Volume& volume) {
  return volume.derived().get<Planner>([&] {
    const SlicedStorage& storage = *volume.sliced();
    return Planner(storage.layout, stream_costs(storage, CostModel{3.0f, 2.5f, 1.0f}), volume.valid_pixels());
  });
}

// images[m] = forms[m] at every position.
Result<Done> run_forms(const Volume& volume, std::span<const SliceForm> forms,
                       std::span<const std::span<std::uint64_t>> images, const Job& job, const char* what);

// Integer weights as a few signed binary masks, one for each bit of |w|, whose plans are added up.
SliceForm form_of_weights(const Planner& planner, std::span<const std::int64_t> weights);

DetectorOps::Path masked_sums_sliced(const Volume&, std::span<const BitMask>, std::span<const std::span<std::uint64_t>>,
                                     const Job&);
DetectorOps::Path move_sum_sliced(const Volume&, const BitMask&, const BitMask&, std::span<std::uint64_t>, const Job&);
DetectorOps::Path weighted_sums_sliced(const Volume&, std::span<const std::span<const std::int64_t>>,
                                       std::span<const std::span<std::uint64_t>>, const Job&);
DetectorOps::Path moment_sums_sliced(const Volume&, const BitMask&, std::span<std::uint64_t>, std::span<std::uint64_t>,
                                     std::span<std::uint64_t>, const Job&);
DetectorOps::Path pattern_sum_sliced(const Volume&, const BitMask&, std::span<std::uint64_t>, const Job&);
DetectorOps::Path pattern_max_sliced(const Volume&, const BitMask&, std::span<std::byte>, const Job&);
DetectorOps::Path frame_sliced(const Volume&, std::uint64_t, std::span<std::byte>);
DetectorOps::Path frame_statistics_sliced(const Volume&, std::uint64_t, FrameStatistics&, const Job&);

}  // namespace quantem::detector_detail
