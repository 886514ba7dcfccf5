// The table of encoded volumes on a CUDA device, and what its functions share: the query lock, plans kept on the device, results that
// come down through pinned memory.

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <thread>

#include "quantem/detector/sliced_query_cuda.h"
#include "quantem/resident/device_image.h"
#include "quantem/runtime/current_device.cuh"
#include "quantem/runtime/thread_pool.h"

namespace quantem {
namespace detector_detail {
namespace {

constexpr std::uint64_t kPlanAreaBytes = std::uint64_t{4} << 20, kCopyPart = 65536;

constexpr std::uint64_t round_up(std::uint64_t n) {
  return (n + 63) / 64 * 64;
}

std::uint64_t bytes_of(const SumPlan& plan) {
  return round_up(plan.streams.size() * 4) + round_up(plan.codes.size() * 8) +
         round_up(plan.runs.size() * sizeof(SumRun));
}

// Writes the plan to `host`; the view has the addresses that it will have at `device`.
SumPlanView write_plan(const SumPlan& plan, char* host, const char* device) {
  SumPlanView view{};
  std::uint64_t at = 0;
  const auto put = [&](const auto& values, auto*& pointer) {
    const std::uint64_t n_bytes = values.size() * sizeof(values[0]);
    if (n_bytes) std::memcpy(host + at, values.data(), n_bytes);
    pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(device + at);
    at += round_up(n_bytes);
  };
  put(plan.streams, view.streams);
  put(plan.codes, view.codes);
  put(plan.runs, view.runs);
  view.n_rounds = plan.n_rounds();
  view.n_runs = static_cast<std::uint32_t>(plan.runs.size());
  view.list_warps = plan.list_warps;
  return view;
}

template <class From, class To>
void copy_parts(const From* from, std::span<To> to) {
  const auto part = [&](std::uint64_t i) {
    const std::uint64_t first = i * kCopyPart, n = std::min<std::uint64_t>(kCopyPart, to.size() - first);
    if constexpr (std::is_same_v<From, To>)
      std::memcpy(to.data() + first, from + first, n * sizeof(To));
    else
      std::copy_n(from + first, n, to.data() + first);
  };
  if (to.empty()) return;
  const std::uint64_t n_parts = (to.size() + kCopyPart - 1) / kCopyPart;
  if (n_parts == 1)
    part(0);
  else
    parallel_for(n_parts, part);
}

}  // namespace

void copy_out(const std::uint64_t* from, std::span<std::uint64_t> to) {
  copy_parts(from, to);
}
void copy_out(const std::uint32_t* from, std::span<std::uint64_t> to) {
  copy_parts(from, to);
}

namespace {

// A piece of work that one thread does while the others wait for it. They do not sleep: waking takes as long as what they are here for.
class OneDoes {
 public:
  template <class F>
  void once(F&& work) {
    if (!claimed_.exchange(true)) {
      work();
      done_.store(true, std::memory_order_release);
    } else {
      while (!done_.load(std::memory_order_acquire)) std::this_thread::yield();
    }
  }

 private:
  std::atomic<bool> claimed_ = false, done_ = false;
};

}  // namespace

Result<Done> sums_to_host(CudaContext& context, const ImagesDown& down, const std::function<void()>& meanwhile) {
  constexpr std::uint64_t kPart = 32768;
  constexpr int kThreads = 8;  // more do not copy faster than the memory, and take longer to start
  std::uint64_t longest = 0;
  for (const SlicedDevice* volume : down.volumes) longest = std::max(longest, volume->n_positions);
  SumLaunch launch;
  launch.volumes = down.volumes, launch.plans = down.plans, launch.bits = down.bits;
  launch.stride = (longest + kBlockPositions - 1) / kBlockPositions * kBlockPositions;
  const bool narrow = down.bits <= 16;
  QUANTEM_TRY_ASSIGN(pinned, context.pinned_result(down.images.size() * launch.stride * (narrow ? 2 : 4)));
  if (narrow)
    launch.narrow = static_cast<std::uint16_t*>(pinned);
  else
    launch.rounded = static_cast<float*>(pinned);
  QUANTEM_TRY(launch_sums(context, launch));
  for (std::size_t i = 0; i < down.images.size(); ++i)
    down.images[i].resize(down.volumes[i / down.plans.size()]->n_positions);

  const std::uint64_t n_parts = (longest + kPart - 1) / kPart;
  std::atomic<bool> is_described = false;
  OneDoes wait;
  Result<Done> arrived = Done{};
  const auto part = [&](std::uint64_t i) {
    if (!is_described.exchange(true)) meanwhile();
    wait.once([&] { arrived = context.synchronize(down.what); });
    std::vector<float>& to = down.images[i / n_parts];
    const std::uint64_t first = i % n_parts * kPart, from = i / n_parts * launch.stride + first;
    if (first >= to.size()) return;
    const std::uint64_t n = std::min<std::uint64_t>(kPart, to.size() - first);
    if (narrow)
      std::copy_n(launch.narrow + from, n, to.data() + first);
    else
      std::memcpy(to.data() + first, launch.rounded + from, n * sizeof(float));
  };
  parallel_for(down.images.size() * n_parts, part, std::min(kThreads, default_thread_count()));
  return arrived;
}

// Costs in planes: what is read decides, and a stream costs a directory access.
SlicedSession::SlicedSession(const Volume& volume)
    : planner(volume.sliced_device()->layout,
              stream_costs(volume.sliced_device()->mean_planes, volume.sliced_device()->mean_listed,
                           CostModel{0.5f, 1.0f, 1.0f / 32}),
              volume.valid_pixels()) {}

Result<std::vector<SlicedSession::Placed>> SlicedSession::place(CudaContext& context, const SlicedDevice& device,
                                                                std::span<const Request> requests) const {
  std::vector<Placed> out(requests.size());
  std::vector<Key> keys(requests.size());
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (requests[i].selected) {
      keys[i] = {requests[i].kind, requests[i].selected->words()};
      if (const auto found = placed_.find(keys[i]); found != placed_.end()) {
        out[i] = found->second;
        continue;
      }
    }
    missing.push_back(i);
  }
  if (missing.empty()) return Result<std::vector<Placed>>(std::move(out));

  std::vector<SumPlan> plans(requests.size());
  std::uint64_t n_bytes = 0;
  const auto make = [&](std::size_t i) {
    plans[i] = make_sum_plan(requests[i].terms(), device.mean_planes, device.mean_listed);
    n_bytes += bytes_of(plans[i]);
  };
  for (const std::size_t i : missing) make(i);
  if (used_ + n_bytes > area_.n_bytes()) {  // start again from an empty area, with every plan of this query
    placed_.clear();
    used_ = 0;
    std::vector<bool> have(requests.size());
    for (const std::size_t i : missing) have[i] = true;
    missing.clear();
    for (std::size_t i = 0; i < requests.size(); ++i) {
      if (!have[i]) make(i);
      missing.push_back(i);
    }
    if (n_bytes > area_.n_bytes()) {
      QUANTEM_TRY(context.synchronize("plans"));
      area_ = DeviceMemory();
      QUANTEM_TRY_ASSIGN(area, context.allocate(std::max(kPlanAreaBytes, n_bytes), "plans"));
      area_ = std::move(area);
    }
  }
  QUANTEM_TRY_ASSIGN(staging, context.pinned_upload(n_bytes));
  std::uint64_t at = 0;
  for (const std::size_t i : missing) {
    out[i] = {write_plan(plans[i], static_cast<char*>(staging) + at, area_.as<char>() + used_ + at), plans[i].weighted};
    at += bytes_of(plans[i]);
  }
  if (at == 0) return Result<std::vector<Placed>>(std::move(out));  // empty masks: nothing to copy or to keep
  ++n_uploads_;
  QUANTEM_TRY(context.check(cudaMemcpyAsync(area_.as<char>() + used_, staging, at, cudaMemcpyHostToDevice,
                                            reinterpret_cast<cudaStream_t>(context.query_stream())),
                            "plans"));
  for (const std::size_t i : missing)  // only what is on its way to the device is found again
    if (requests[i].selected) placed_[keys[i]] = out[i];
  used_ += at;
  return Result<std::vector<Placed>>(std::move(out));
}

Result<const std::uint32_t*> SlicedSession::valid_positions(CudaContext& context, const BitMask& valid) const {
  if (!valid_positions_.data()) {
    const std::uint64_t n_bytes = valid.words().size() * 8;
    QUANTEM_TRY_ASSIGN(memory, context.allocate(n_bytes, "valid positions"));
    QUANTEM_TRY(send_up(context, memory.data(), valid.words().data(), n_bytes));  // both ends are little-endian
    valid_positions_ = std::move(memory);
  }
  return static_cast<const std::uint32_t*>(valid_positions_.as<std::uint32_t>());
}

Result<SlicedQuery> SlicedQuery::open(const Volume& volume, const Job& job, const char* what) {
  return open_with<SlicedQuery, SlicedSession>(volume, job, what, [&] { return SlicedSession(volume); });
}

double SlicedQuery::largest_count() const {
  return volume().audit().count_max;
}

Result<std::vector<SlicedSession::Placed>> SlicedQuery::place(std::span<const SlicedSession::Request> requests) {
  return session_->place(context(), device(), requests);
}

Result<std::vector<SlicedSession::Placed>> SlicedQuery::plans_of_masks(std::span<const BitMask> masks) {
  std::vector<SlicedSession::Request> requests;
  for (const BitMask& mask : masks)
    requests.push_back({PlanKind::sum, &mask, [this, &mask] { return terms_of(session_->planner.plan(mask)); }});
  return place(requests);
}

Result<std::vector<SlicedSession::Placed>> SlicedQuery::plans_of_moments(const BitMask& selected) {
  const auto moment = [this, &selected](bool along_rows) {
    return terms_of_moment(device().layout, selected, volume().valid_pixels(), along_rows);
  };
  const SlicedSession::Request requests[] = {
      {PlanKind::sum, &selected, [&] { return terms_of(session_->planner.plan(selected)); }},
      {PlanKind::row_moment, &selected, [&] { return moment(true); }},
      {PlanKind::col_moment, &selected, [&] { return moment(false); }}};
  return place(requests);
}

Result<std::uint64_t> SlicedQuery::largest_total() {
  if (session_->has_largest_total) return session_->largest_total;
  const BitMask& valid = volume().valid_pixels();
  QUANTEM_TRY_ASSIGN(plans, plans_of_masks({&valid, 1}));
  const std::uint64_t n_bytes = device().n_positions * 8;
  QUANTEM_TRY_ASSIGN(area, context().work_area(n_bytes));
  SumLaunch launch;
  const SlicedDevice* volume = &device();
  launch.volumes = {&volume, 1};
  launch.plans = {&plans[0].view, 1};
  launch.bits = static_cast<std::uint32_t>(
      std::bit_width(static_cast<std::uint64_t>(largest_count()) * std::max<std::uint64_t>(1, valid.n_set())));
  launch.wide = static_cast<std::uint64_t*>(area);
  launch.stride = device().n_positions;
  QUANTEM_TRY(launch_sums(context(), launch));
  QUANTEM_TRY_ASSIGN(pinned, copy_down(area, n_bytes));
  const auto* sums = static_cast<const std::uint64_t*>(pinned);
  session_->largest_total = *std::max_element(sums, sums + device().n_positions);
  session_->has_largest_total = true;
  return session_->largest_total;
}

Result<const void*> CudaQuery::copy_down(const void* device_data, std::uint64_t n_bytes) {
  QUANTEM_TRY_ASSIGN(pinned, context().pinned_result(n_bytes));
  QUANTEM_TRY(
      context().check(cudaMemcpyAsync(pinned, device_data, n_bytes, cudaMemcpyDeviceToHost, stream()), "result"));
  QUANTEM_TRY(context().synchronize("result"));
  return static_cast<const void*>(pinned);
}

}  // namespace detector_detail

const DetectorOps* detector_ops_cuda_sliced() {
  using namespace detector_detail;
  // f32 counts are never bit-sliced.
  static constexpr DetectorOps kOps{
      masked_sums_cuda,        move_sum_cuda, weighted_sums_cuda, nullptr,    moment_sums_cuda,
      pattern_sum_cuda,        nullptr,       pattern_max_cuda,   frame_cuda, frame_statistics_cuda,
      masked_sums_rounded_cuda};
  return &kOps;
}

}  // namespace quantem
