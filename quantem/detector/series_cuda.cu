// One plan over many encoded volumes, 32 a launch (sums_cuda.cu runs it: a CTA is one block of one volume). The plan is that of the first
// volume, by what its streams cost; any plan is right for all, since they share layout and valid pixels.

#include <algorithm>

#include "quantem/detector/series.h"
#include "quantem/detector/sliced_query_cuda.h"
#include "quantem/runtime/current_device.cuh"

namespace quantem::detector_detail {
namespace {

// The largest whole-detector sum in any of the volumes, which decides how many bits are added. Kept with each volume.
Result<std::uint64_t> largest_total_of(std::span<const Volume* const> volumes, const Job& job) {
  std::uint64_t largest = 0;
  for (const Volume* volume : volumes) {
    QUANTEM_TRY_ASSIGN(query, SlicedQuery::open(*volume, job, "masked_sum_series"));
    QUANTEM_TRY_ASSIGN(total, query.largest_total());
    largest = std::max(largest, total);
  }
  return largest;
}

Result<Done> sum_some(std::span<const Volume* const> volumes, const BitMask& selected, std::uint64_t largest_total,
                      std::span<std::vector<float>> images, const Job& job) {
  QUANTEM_TRY_ASSIGN(query, SlicedQuery::open(*volumes.front(), job, "masked_sum_series"));
  QUANTEM_TRY_ASSIGN(plans, query.plans_of_masks({&selected, 1}));
  std::vector<const SlicedDevice*> devices;
  for (const Volume* volume : volumes) devices.push_back(volume->sliced_device());
  const ImagesDown down{
      devices, {&plans[0].view, 1}, bits_of_sums(largest_total, 1, false), images, "masked_sum_series"};
  return sums_to_host(query.context(), down, [] {});
}

}  // namespace

Result<std::string_view> series_sums_cuda(std::span<const Volume* const> volumes, const BitMask& selected,
                                          std::span<std::vector<float>> images, const Job& job) {
  QUANTEM_TRY_ASSIGN(context, CudaContext::of(volumes.front()->device()));
  const CurrentDevice current(context->device());
  QUANTEM_TRY_ASSIGN(largest_total, largest_total_of(volumes, job));
  for (std::size_t first = 0; first < volumes.size(); first += kVolumesTogether) {
    if (job.stop.stop_requested()) return Error{Code::cancelled, "masked_sum_series cancelled"};
    const std::size_t n = std::min<std::size_t>(kVolumesTogether, volumes.size() - first);
    QUANTEM_TRY(sum_some(volumes.subspan(first, n), selected, largest_total, images.subspan(first, n), job));
  }
  return std::string_view("cuda_sliced_series_sum");
}

}  // namespace quantem::detector_detail
