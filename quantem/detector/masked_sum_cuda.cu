// Sums over detector pixels at each scan position, from bit-sliced storage on a CUDA device: plans are made on the host (or found from
// an earlier query), all sums of a query are one launch, and images come down through pinned memory.

#include <algorithm>
#include <bit>

#include "quantem/detector/masked_sum_on_device.h"
#include "quantem/detector/product.h"
#include "quantem/detector/sliced_query_cuda.h"
#include "quantem/runtime/current_device.cuh"

namespace quantem::detector_detail {
namespace {

constexpr std::uint64_t kImagesAtOnceBytes = std::uint64_t{256} << 20;

// Plans of one launch, images in the work area; then all of it in pinned memory.
class Images {
 public:
  Result<Done> run(SlicedQuery& query, std::span<const SlicedSession::Placed> plans, std::uint32_t bits,
                   bool is_signed) {
    n_positions_ = query.device().n_positions;
    wide_ = bits > 32 || is_signed;
    const std::uint64_t n_bytes = plans.size() * n_positions_ * (wide_ ? 8 : 4);
    QUANTEM_TRY_ASSIGN(area, query.context().work_area(n_bytes));
    std::vector<SumPlanView> views;
    SumLaunch launch;
    for (const SlicedSession::Placed& p : plans) views.push_back(p.view), launch.weighted |= p.weighted;
    const SlicedDevice* volume = &query.device();
    launch.volumes = {&volume, 1};
    launch.plans = views;
    launch.bits = bits;
    launch.is_signed = is_signed;
    launch.stride = n_positions_;
    if (wide_)
      launch.wide = static_cast<std::uint64_t*>(area);
    else
      launch.integers = static_cast<std::uint32_t*>(area);
    QUANTEM_TRY(launch_sums(query.context(), launch));
    QUANTEM_TRY_ASSIGN(pinned, query.copy_down(area, n_bytes));
    pinned_ = pinned;
    return Done{};
  }
  void take(std::size_t image, std::span<std::uint64_t> out) const {
    if (wide_)
      copy_out(static_cast<const std::uint64_t*>(pinned_) + image * n_positions_, out);
    else
      copy_out(static_cast<const std::uint32_t*>(pinned_) + image * n_positions_, out);
  }

 private:
  const void* pinned_ = nullptr;
  std::uint64_t n_positions_ = 0;
  bool wide_ = false;
};

// How many images one launch makes.
std::size_t images_at_once(const SlicedQuery& query) {
  const std::uint64_t fit = kImagesAtOnceBytes / (8 * query.device().n_positions);
  return std::clamp<std::uint64_t>(fit, 1, kPlansTogether);
}

std::uint64_t magnitude(std::int64_t w) {
  return w < 0 ? 0 - static_cast<std::uint64_t>(w) : static_cast<std::uint64_t>(w);
}

}  // namespace

std::uint32_t bits_of_sums(std::uint64_t largest_total, std::uint64_t weight, bool is_signed) {
  const double bound = static_cast<double>(largest_total) * static_cast<double>(weight);
  if (bound >= 0x1p60) return 64;
  return static_cast<std::uint32_t>(std::bit_width(largest_total * weight)) + (is_signed ? 1 : 0);
}

DetectorOps::Path masked_sums_cuda(const Volume& volume, std::span<const BitMask> masks,
                                   std::span<const std::span<std::uint64_t>> images, const Job& job) {
  QUANTEM_TRY_ASSIGN(query, SlicedQuery::open(volume, job, "masked_sum"));
  const CurrentDevice current(query.context().device());
  QUANTEM_TRY_ASSIGN(largest_total, query.largest_total());
  const std::size_t at_once = images_at_once(query);
  for (std::size_t first = 0; first < masks.size(); first += at_once) {
    const auto some = masks.subspan(first, std::min(at_once, masks.size() - first));
    QUANTEM_TRY_ASSIGN(plans, query.plans_of_masks(some));
    Images result;
    QUANTEM_TRY(result.run(query, plans, bits_of_sums(largest_total, 1, false), false));
    for (std::size_t m = 0; m < some.size(); ++m) result.take(m, images[first + m]);
  }
  return std::string_view("cuda_sliced_masked_sum");
}

DetectorOps::Path move_sum_cuda(const Volume& volume, const BitMask& from, const BitMask& to,
                                std::span<std::uint64_t> image, const Job& job) {
  QUANTEM_TRY_ASSIGN(query, SlicedQuery::open(volume, job, "move"));
  const CurrentDevice current(query.context().device());
  QUANTEM_TRY_ASSIGN(largest_total, query.largest_total());
  const std::uint32_t bits = bits_of_sums(largest_total, 1, false);
  const SlicedSession& session = query.session();
  SlicedSession::Last& last = session.last;
  const std::uint64_t n = query.device().n_positions;
  MaskPlan plan = session.planner.plan(to);
  bool is_change = false;
  if (last.valid && last.selected == from) {
    MaskPlan change = session.planner.plan_change(from, to);
    if (change.cost < plan.cost) plan = std::move(change), is_change = true;
  }
  const SlicedSession::Request request{PlanKind::sum, is_change ? nullptr : &to, [&plan] { return terms_of(plan); }};
  QUANTEM_TRY_ASSIGN(placed, query.place({&request, 1}));
  if (bits > 32) {
    Images result;
    QUANTEM_TRY(result.run(query, placed, bits, false));
    result.take(0, image);
    return std::string_view("cuda_sliced_masked_sum");
  }
  if (last.image.n_bytes() == 0) {
    QUANTEM_TRY_ASSIGN(memory, query.context().allocate(n * 4, "image of a mask that moves"));
    last.image = std::move(memory);
  }
  const SlicedDevice* device = &query.device();
  SumLaunch launch;
  launch.volumes = {&device, 1};
  launch.plans = {&placed[0].view, 1};
  launch.bits = bits;
  launch.integers = last.image.as<std::uint32_t>();  // in place: a thread reads and writes its own position
  launch.before = is_change ? last.image.as<std::uint32_t>() : nullptr;
  launch.stride = n;
  last.valid = false;
  QUANTEM_TRY(launch_sums(query.context(), launch));
  QUANTEM_TRY_ASSIGN(pinned, query.copy_down(last.image.data(), n * 4));
  last.selected = to;
  last.valid = true;
  copy_out(static_cast<const std::uint32_t*>(pinned), image);
  return std::string_view(is_change ? "cuda_sliced_moved_sum" : "cuda_sliced_masked_sum");
}

DetectorOps::Path masked_sums_rounded_cuda(const Volume& volume, std::span<const BitMask> masks,
                                           std::span<std::vector<float>> images, const std::function<void()>& meanwhile,
                                           const Job& job) {
  QUANTEM_TRY_ASSIGN(query, SlicedQuery::open(volume, job, "masked_sum"));
  const CurrentDevice current(query.context().device());
  QUANTEM_TRY_ASSIGN(largest_total, query.largest_total());
  const SlicedDevice* device = &query.device();
  const std::size_t at_once = images_at_once(query);
  for (std::size_t first = 0; first < masks.size(); first += at_once) {
    const std::size_t n_images = std::min(at_once, masks.size() - first);
    QUANTEM_TRY_ASSIGN(plans, query.plans_of_masks(masks.subspan(first, n_images)));
    std::vector<SumPlanView> views;
    for (const SlicedSession::Placed& p : plans) views.push_back(p.view);
    const ImagesDown down{
        {&device, 1}, views, bits_of_sums(largest_total, 1, false), images.subspan(first, n_images), "masked_sum"};
    QUANTEM_TRY(sums_to_host(
        query.context(), down, first == 0 ? meanwhile : [] {}));
  }
  return std::string_view("cuda_sliced_masked_sum");
}

Result<std::shared_ptr<DeviceMemory>> masked_sum_on_device_cuda(const Volume& volume, const BitMask& selected,
                                                                const Job& job) {
  QUANTEM_TRY_ASSIGN(query, SlicedQuery::open(volume, job, "masked_sum_on_device"));
  CudaContext& context = query.context();
  const CurrentDevice current(context.device());
  QUANTEM_TRY_ASSIGN(largest_total, query.largest_total());
  const std::uint64_t n = query.device().n_positions, n_uploads = query.session().n_uploads();
  QUANTEM_TRY_ASSIGN(plans, query.plans_of_masks({&selected, 1}));
  QUANTEM_TRY_ASSIGN(image, image_memory(context, n * sizeof(float)));
  const SlicedDevice* device = &query.device();
  SumLaunch launch;
  launch.volumes = {&device, 1};
  launch.plans = {&plans[0].view, 1};
  launch.bits = bits_of_sums(largest_total, 1, false);
  launch.stride = n;
  launch.rounded = image->as<float>();
  QUANTEM_TRY(launch_sums(context, launch));
  if (!has_every_position(volume)) {
    QUANTEM_TRY_ASSIGN(valid, query.session().valid_positions(context, volume.valid_positions()));
    QUANTEM_TRY(mark_missing_on_device(context, image->as<float>(), valid, n));
  }
  // The next query writes its plans where this one's may still be going up from.
  if (query.session().n_uploads() != n_uploads) QUANTEM_TRY(context.synchronize("masked_sum_on_device"));
  return image;
}

DetectorOps::Path weighted_sums_cuda(const Volume& volume, std::span<const std::span<const std::int64_t>> weights,
                                     std::span<const std::span<std::uint64_t>> images, const Job& job) {
  QUANTEM_TRY_ASSIGN(query, SlicedQuery::open(volume, job, "weighted_sum"));
  const CurrentDevice current(query.context().device());
  QUANTEM_TRY_ASSIGN(largest_total, query.largest_total());
  const std::size_t at_once = images_at_once(query);
  for (std::size_t first = 0; first < weights.size(); first += at_once) {
    const auto some = weights.subspan(first, std::min(at_once, weights.size() - first));
    std::vector<SlicedSession::Request> requests;
    std::uint64_t heaviest = 0;
    for (const auto& w : some) {
      requests.push_back(
          {PlanKind::sum, nullptr, [&query, w] { return terms_of_weights(query.session().planner, w); }});
      for (const std::int64_t x : w) heaviest = std::max(heaviest, magnitude(x));
    }
    QUANTEM_TRY_ASSIGN(plans, query.place(requests));
    Images result;
    QUANTEM_TRY(result.run(query, plans, bits_of_sums(largest_total, heaviest, true), true));
    for (std::size_t m = 0; m < some.size(); ++m) result.take(m, images[first + m]);
  }
  return std::string_view("cuda_sliced_weighted_sum");
}

DetectorOps::Path moment_sums_cuda(const Volume& volume, const BitMask& selected, std::span<std::uint64_t> total,
                                   std::span<std::uint64_t> row, std::span<std::uint64_t> col, const Job& job) {
  QUANTEM_TRY_ASSIGN(query, SlicedQuery::open(volume, job, "moment_sums"));
  const CurrentDevice current(query.context().device());
  QUANTEM_TRY_ASSIGN(largest_total, query.largest_total());
  QUANTEM_TRY_ASSIGN(plans, query.plans_of_moments(selected));
  const Extent det = volume.shape().det;
  Images result;
  QUANTEM_TRY(result.run(query, plans, bits_of_sums(largest_total, std::max(det.rows, det.cols), false), false));
  result.take(0, total);
  result.take(1, row);
  result.take(2, col);
  return std::string_view(selected == volume.valid_pixels() ? "cuda_sliced_stored_moments" : "cuda_sliced_moment_sums");
}

}  // namespace quantem::detector_detail
