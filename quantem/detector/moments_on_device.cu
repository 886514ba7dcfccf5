// The launch of moment_sums_cuda without the copy to the host.

#include "quantem/detector/moments_on_device.h"

#include "quantem/detector/sliced_query_cuda.h"
#include "quantem/runtime/current_device.cuh"

namespace quantem {

struct MomentsOnDevice::State {
  detector_detail::SlicedQuery query;
  std::vector<detector_detail::SumPlanView> plans;  // total, row, col
  bool weighted = false;
  std::uint32_t bits = 64;
  std::string_view path;
};

MomentsOnDevice::MomentsOnDevice(std::unique_ptr<State> state) : state_(std::move(state)) {}
MomentsOnDevice::MomentsOnDevice(MomentsOnDevice&&) noexcept = default;
MomentsOnDevice& MomentsOnDevice::operator=(MomentsOnDevice&&) noexcept = default;
MomentsOnDevice::~MomentsOnDevice() = default;

Result<MomentsOnDevice> MomentsOnDevice::open_selected(const Volume& volume, const BitMask& selected, const Job& job) {
  QUANTEM_TRY_ASSIGN(query, detector_detail::SlicedQuery::open(volume, job, "moment_sums"));
  auto state = std::unique_ptr<State>(new State{std::move(query), {}, false, 64, {}});
  const CurrentDevice current(state->query.context().device());
  QUANTEM_TRY_ASSIGN(largest_total, state->query.largest_total());
  const std::uint64_t n_uploads = state->query.session().n_uploads();
  QUANTEM_TRY_ASSIGN(placed, state->query.plans_of_moments(selected));
  // The next query writes its plans where these may still be going up from.
  if (state->query.session().n_uploads() != n_uploads) QUANTEM_TRY(state->query.context().synchronize("moment_sums"));
  for (const auto& p : placed) state->plans.push_back(p.view), state->weighted |= p.weighted;
  const Extent det = volume.shape().det;
  state->bits = detector_detail::bits_of_sums(largest_total, std::max(det.rows, det.cols), false);
  state->path = selected == volume.valid_pixels() ? "cuda_sliced_stored_moments" : "cuda_sliced_moment_sums";
  return MomentsOnDevice(std::move(state));
}

CudaContext& MomentsOnDevice::context() const {
  return state_->query.context();
}
bool MomentsOnDevice::wide() const {
  return state_->bits > 32;
}
std::uint64_t MomentsOnDevice::n_bytes() const {
  return 3 * state_->query.device().n_positions * (wide() ? 8 : 4);
}
std::string_view MomentsOnDevice::path() const {
  return state_->path;
}

Result<Done> MomentsOnDevice::queue(void* images) const {
  const SlicedDevice* volume = &state_->query.device();
  detector_detail::SumLaunch launch;
  launch.volumes = {&volume, 1};
  launch.plans = state_->plans;
  launch.weighted = state_->weighted;
  launch.bits = state_->bits;
  launch.stride = volume->n_positions;
  if (wide())
    launch.wide = static_cast<std::uint64_t*>(images);
  else
    launch.integers = static_cast<std::uint32_t*>(images);
  return detector_detail::launch_sums(context(), launch);
}

}  // namespace quantem
