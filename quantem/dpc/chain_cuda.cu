// The chain: its memory, its plans of transforms, and the order of its launches.

#include "quantem/dpc/chain_cuda.h"

#include <cuda_runtime.h>

#include <optional>

#include "quantem/dpc/chain_phase.cuh"
#include "quantem/runtime/cuda_load_area.h"
#include "quantem/runtime/current_device.cuh"
#include "quantem/runtime/device_fft.h"

namespace quantem::dpc_detail {
namespace {

constexpr u32 kMostBlocks = 1024;  // of kernels that go over elements with a stride

u32 blocks_for(u64 n) {
  return static_cast<u32>(std::min<u64>((n + kThreads - 1) / kThreads, kMostBlocks));
}

u32 tiles_of(Extent scan) {
  return ((scan.rows + kTileRows - 1) / kTileRows) * ((scan.cols + kTileCols - 1) / kTileCols);
}

}  // namespace

struct Chain::State {
  MomentsOnDevice sums;
  ChainPlan plan;
  Extent cell;  // of the integration's transforms
  void* images = nullptr;
  ChainMemory memory{};
  std::optional<DeviceFft> forward, inverse, search_forward, search_inverse;

  Result<Done> reserve();
  Result<Done> make_transforms();
  Result<Done> launched(const char* what) const { return sums.context().check(cudaGetLastError(), what); }
  cudaStream_t stream() const { return reinterpret_cast<cudaStream_t>(sums.context().query_stream()); }
  StepField search_field(bool aligned) const { return {ChainPlan::Subtract::mean, {}, plan.search_factor, aligned}; }
  StepField integrated_field() const {
    return {plan.subtract, plan.subtract == ChainPlan::Subtract::point ? plan.point : Point{}, plan.factor, true};
  }
  Result<Done> queue_com() const;
  Result<Done> queue_fourier_search() const;
  Result<Done> queue_skewness() const;
  Result<Done> queue_integration(float* phase) const;
};

Result<Done> Chain::State::reserve() {
  const u64 n = plan.scan.count(), n_cell = std::max(cell.count(), n);
  const u64 n_half = std::max(u64{cell.rows} * (cell.cols / 2 + 1), u64{plan.scan.rows} * (plan.scan.cols / 2 + 1));
  const u64 n_partials = u64{std::max(kMostBlocks, tiles_of(plan.scan))} * kMostSums;
  const u64 sizes[] = {sums.n_bytes(), n * 8, n * 8, n_cell * sizeof(Bin), n_half * sizeof(Bin), n_partials * 8, 256};
  u64 n_bytes = 0;
  for (const u64 size : sizes) n_bytes += AreaPieces::rounded(size);
  QUANTEM_TRY_ASSIGN(area, sums.context().work_area(n_bytes));
  AreaPieces pieces(area);
  pieces.take(images, sizes[0]);
  pieces.take(memory.row, sizes[1]);
  pieces.take(memory.col, sizes[2]);
  pieces.take(memory.z, sizes[3]);
  pieces.take(memory.half, sizes[4]);
  pieces.take(memory.partials, sizes[5]);
  static_assert(sizeof(ChainRecord) + sizeof(u32) <= 256);
  pieces.take(memory.record, sizes[6]);
  memory.counter = reinterpret_cast<u32*>(memory.record + 1);
  memory.solved = reinterpret_cast<double*>(memory.z);
  return Done{};
}

Result<Done> Chain::State::make_transforms() {
  const auto make = [&](DeviceFft::Kind kind, Extent extent, std::optional<DeviceFft>& into) -> Result<Done> {
    QUANTEM_TRY_ASSIGN(fft, DeviceFft::of(sums.context(), kind, extent));
    into = fft;
    return Done{};
  };
  QUANTEM_TRY(make(DeviceFft::Kind::complex, cell, forward));
  QUANTEM_TRY(make(DeviceFft::Kind::real_inverse, cell, inverse));
  if (plan.search == ChainPlan::Search::fourier || plan.skewness)
    QUANTEM_TRY(make(DeviceFft::Kind::complex, plan.scan, search_forward));
  if (plan.skewness) QUANTEM_TRY(make(DeviceFft::Kind::real_inverse, plan.scan, search_inverse));
  return Done{};
}

Result<Done> Chain::State::queue_com() const {
  const u32 tiles = tiles_of(plan.scan);
  if (sums.wide())
    com_and_curl<<<tiles, kThreads, 0, stream()>>>(static_cast<const u64*>(images), plan, memory);
  else
    com_and_curl<<<tiles, kThreads, 0, stream()>>>(static_cast<const u32*>(images), plan, memory);
  return launched("centre of mass");
}

Result<Done> Chain::State::queue_fourier_search() const {
  const u32 blocks = blocks_for(plan.scan.count());
  auto* z = reinterpret_cast<std::complex<double>*>(memory.z);
  pack_field<<<blocks, kThreads, 0, stream()>>>(memory, plan.scan, plan.scan, Boundary::periodic, search_field(false));
  QUANTEM_TRY(launched("rotation"));
  QUANTEM_TRY(search_forward->forward(z, z));
  fourier_power<<<blocks, kThreads, 0, stream()>>>(plan, memory);
  return launched("rotation");
}

// The phase at the angle found, on the periodic scan, seen through the disc's transfer: its sign is that of its skewness.
Result<Done> Chain::State::queue_skewness() const {
  const u32 blocks = blocks_for(plan.scan.count());
  auto *z = reinterpret_cast<std::complex<double>*>(memory.z),
       *half = reinterpret_cast<std::complex<double>*>(memory.half);
  pack_field<<<blocks, kThreads, 0, stream()>>>(memory, plan.scan, plan.scan, Boundary::periodic, search_field(true));
  QUANTEM_TRY(launched("polarity"));
  QUANTEM_TRY(search_forward->forward(z, z));
  const SolvePlan how{plan.scan, plan.search_step, 1, 0, plan.disc_diameter, {}};
  solve_periodic<<<blocks, kThreads, 0, stream()>>>(memory.z, memory.half, how);
  QUANTEM_TRY(launched("polarity"));
  QUANTEM_TRY(search_inverse->inverse(half, memory.solved));
  phase_sums<<<blocks, kThreads, 0, stream()>>>(memory, plan.scan, plan.scan, Boundary::periodic, true);
  return launched("polarity");
}

Result<Done> Chain::State::queue_integration(float* phase) const {
  const IntegratePlan& how = plan.integrate;
  auto *z = reinterpret_cast<std::complex<double>*>(memory.z),
       *half = reinterpret_cast<std::complex<double>*>(memory.half);
  pack_field<<<blocks_for(cell.count()), kThreads, 0, stream()>>>(memory, plan.scan, cell, how.boundary,
                                                                  integrated_field());
  QUANTEM_TRY(launched("integration"));
  QUANTEM_TRY(forward->forward(z, z));
  const SolvePlan solve{cell, how.step, how.kappa, how.epsilon, 0, how.filters};
  const u32 half_cols = cell.cols / 2 + 1;
  if (how.boundary == Boundary::mirror)
    solve_mirror<<<blocks_for(u64{cell.rows / 2 + 1} * half_cols), kThreads, 0, stream()>>>(memory.z, memory.half,
                                                                                            solve);
  else
    solve_periodic<<<blocks_for(u64{cell.rows} * half_cols), kThreads, 0, stream()>>>(memory.z, memory.half, solve);
  QUANTEM_TRY(launched("integration"));
  QUANTEM_TRY(inverse->inverse(half, memory.solved));
  const u32 blocks = blocks_for(plan.scan.count());
  if (how.boundary == Boundary::zeropad)
    phase_sums<<<blocks, kThreads, 0, stream()>>>(memory, plan.scan, cell, how.boundary, false);
  write_phase<<<blocks, kThreads, 0, stream()>>>(memory, plan.scan, cell, how.boundary, how.sign, phase);
  return launched("integration");
}

Chain::Chain(std::unique_ptr<State> state) : state_(std::move(state)) {}
Chain::Chain(Chain&&) noexcept = default;
Chain& Chain::operator=(Chain&&) noexcept = default;
Chain::~Chain() = default;

Result<Chain> Chain::open(const Volume& volume, const Mask* mask, const ChainPlan& plan, const Job& job) {
  QUANTEM_TRY_ASSIGN(sums, MomentsOnDevice::open(volume, mask, job));
  auto state = std::unique_ptr<State>(new State{std::move(sums), plan, plan.scan, nullptr, {}, {}, {}, {}, {}});
  if (plan.integrate.boundary == Boundary::zeropad) state->cell = {2 * plan.scan.rows, 2 * plan.scan.cols};
  QUANTEM_TRY(state->reserve());
  QUANTEM_TRY(state->make_transforms());
  return Chain(std::move(state));
}

CudaContext& Chain::context() const {
  return state_->sums.context();
}
std::string_view Chain::path() const {
  return state_->sums.path();
}

Result<Done> Chain::queue(float* phase, float* maps) const {
  const State& s = *state_;
  const CurrentDevice current(context().device());
  QUANTEM_TRY(s.sums.queue(s.images));
  QUANTEM_TRY(context().check(cudaMemsetAsync(s.memory.record, 0, 256, s.stream()), "record"));
  QUANTEM_TRY(s.queue_com());
  if (s.plan.search == ChainPlan::Search::fourier) QUANTEM_TRY(s.queue_fourier_search());
  if (s.plan.skewness) QUANTEM_TRY(s.queue_skewness());
  QUANTEM_TRY(s.queue_integration(phase));
  if (!maps) return Done{};
  write_maps<<<blocks_for(s.plan.scan.count()), kThreads, 0, s.stream()>>>(s.memory, s.plan.scan, s.plan.map_step,
                                                                           s.integrated_field(), maps);
  return s.launched("maps");
}

Result<ChainRecord> Chain::record() const {
  const CurrentDevice current(context().device());
  QUANTEM_TRY_ASSIGN(pinned, context().pinned_result(sizeof(ChainRecord)));
  QUANTEM_TRY(context().check(
      cudaMemcpyAsync(pinned, state_->memory.record, sizeof(ChainRecord), cudaMemcpyDeviceToHost, state_->stream()),
      "record"));
  QUANTEM_TRY(context().synchronize("record"));
  return *static_cast<const ChainRecord*>(pinned);
}

}  // namespace quantem::dpc_detail
