// Weighted sums of bit-sliced streams, 512 scan positions a CTA.
//
// 1. Each warp fetches the directory entries of its rounds into its own piece of shared memory (no barrier).
// 2. Each half-warp adds eight streams of a round, a word of 32 positions a lane: planes are added as they are, bit-sliced, and read once
//    (sums_planes.cuh).
// 3. Some warps read lists instead: eight listed bits a lane, each added to the integer of its position (sums_lists.cuh).
// 4. Half-warps, then warps, are added while still sliced; one bit transpose turns 512 sums into integers, the lists' are added, and
//    the image is written once.
//   sum_streams   CTA of 256 = one block, volume and plan; grid: blocks * plans, volumes. Registers are capped so that all 512 blocks of a
//                 512x512 scan run in one wave of an H200. BF r=30 0.022 ms, ADF 30-60 0.043 ms (2.7 us of it the launch, about 6 us the
//                 directory and the reduction, the rest reading); over 16 volumes the planes alone, 56 % of the read ceiling.
// All sums are modulo 2^K: exact when the answer fits K bits. Subtraction is addition into the complement of the sum.

#include "quantem/detector/sums_cuda.h"

#include <type_traits>

#include "quantem/detector/sums_lists.cuh"
#include "quantem/detector/sums_planes.cuh"
#include "quantem/resident/sliced_device.cuh"
#include "quantem/runtime/current_device.cuh"

namespace quantem::detector_detail {
namespace {

using sliced::kWords;

struct SumWork {
  SlicedDeviceView volume[kVolumesTogether];
  u64 n_positions[kVolumesTogether];
  SumPlanView plan[kPlansTogether];
  u32 n_plans;
  u32 sign_bits;  // 64 - K where results are signed, else 0
  const u32* before;
  u32* integers;
  u64* wide;
  float* rounded;
  std::uint16_t* narrow;
  u64 stride;
};

// CTAs an SM for which registers are limited. Sums of 16 planes run all 512 blocks of a 512x512 scan in one wave.
constexpr int ctas_of(int k, bool weighted) {
  return k > 32 ? 1 : k > 24 ? (weighted ? 2 : 3) : weighted ? (k > 16 ? 2 : 3) : 4;
}

// A CTA takes one block of one volume and one plan; plans are the fastest index, so that streams they share come from L2.
template <int K, bool Weighted>
__global__ void __launch_bounds__(kSumWarps * 32, ctas_of(K, Weighted))
    sum_streams(const __grid_constant__ SumWork work) {
  using Integer = std::conditional_t<(K > 32), u64, u32>;
  __shared__ __align__(16) Stage stages[kSumWarps];
  __shared__ ListRow<Integer> rows[kSumWarps][32];
  __shared__ Integer sums[kBlockPositions];
  __shared__ u32 slices[kSumWarps / 2 * K * kWords > K * 17 ? kSumWarps / 2 * K * kWords : K * 17];
  __shared__ __align__(16) std::uint16_t packed[K == 16 ? kBlockPositions : 8];
  const u32 thread = threadIdx.x, warp = thread / 32, lane = thread % 32, half = lane / 16, word = lane % 16;
  const u32 block = blockIdx.x / work.n_plans, plan_index = blockIdx.x % work.n_plans;
  const SlicedDeviceView& volume = work.volume[blockIdx.y];
  const SumPlanView& plan = work.plan[plan_index];
  if (block >= volume.n_blocks) return;  // volumes of one launch may differ in length

  for (u32 i = thread; i < kBlockPositions; i += kSumWarps * 32) sums[i] = 0;
  __syncthreads();

  const u32 plane_warps = kSumWarps - plan.list_warps;
  Sliced<K> acc{};
  if (warp < plane_warps) {
    // Weights fall from round to round: a warp takes neighbouring rounds. Otherwise rounds of equal width are dealt out.
    const u32 first = Weighted ? static_cast<u32>(u64{plan.n_rounds} * warp / plane_warps) : warp;
    const u32 stop = Weighted ? static_cast<u32>(u64{plan.n_rounds} * (warp + 1) / plane_warps) : plan.n_rounds;
    acc = sum_rounds<K, Weighted>(volume, plan, block, stages[warp], first, stop, Weighted ? 1 : plane_warps, lane);
  }
  if (const u32 from = plane_warps % kSumWarps; warp >= from)
    add_lists<Integer>(sums, rows[warp], volume, plan, block, warp - from, kSumWarps - from, lane);

  Sliced<K> other;
#pragma unroll
  for (int k = 0; k < K; ++k) other.plane[k] = __shfl_xor_sync(~0u, acc.plane[k], 16);
  bits::add(acc, other);
  for (u32 n = kSumWarps / 2; n >= 1; n /= 2) {
    if (warp >= n && warp < 2 * n && half == 0)
#pragma unroll
      for (int k = 0; k < K; ++k) slices[((warp - n) * K + k) * kWords + word] = acc.plane[k];
    __syncthreads();
    if (warp < n) {
#pragma unroll
      for (int k = 0; k < K; ++k) other.plane[k] = slices[(warp * K + k) * kWords + word];
      bits::add(acc, other);
    }
    __syncthreads();
  }
  if (warp == 0 && half == 0)
#pragma unroll
    for (int k = 0; k < K; ++k) slices[k * 17 + word] = acc.plane[k];  // 17: the transpose reads columns
  __syncthreads();

  const u64 image = (u64{blockIdx.y} * work.n_plans + plan_index) * work.stride;
  for (u32 w = warp; w < kWords; w += kSumWarps) {
    const u64 position = u64{block} * kBlockPositions + w * 32 + lane;
    Integer x = bits::to_integers(lane < K ? slices[lane * 17 + w] : 0, lane);
    if constexpr (K > 32) x |= u64{bits::to_integers(slices[(32 + lane) * 17 + w], lane)} << 32;
    x += sums[w * 32 + lane];
    if constexpr (K == 16) packed[w * 32 + lane] = static_cast<std::uint16_t>(x);
    if (position >= work.n_positions[blockIdx.y]) continue;
    if (work.before) x += work.before[image + position];  // may be the image that is written
    if constexpr (K < 32) x &= (1u << K) - 1;
    if (work.integers) work.integers[image + position] = static_cast<u32>(x);
    if (work.rounded) {
      if constexpr (K > 32)
        work.rounded[image + position] = __ull2float_rn(x);
      else
        work.rounded[image + position] = __uint2float_rn(x);
    }
    if (work.wide) {
      const u64 shifted = u64{x} << work.sign_bits;
      work.wide[image + position] =
          work.sign_bits ? static_cast<u64>(static_cast<std::int64_t>(shifted) >> work.sign_bits) : u64{x};
    }
  }
  if constexpr (K == 16) {
    if (!work.narrow) return;
    __syncthreads();
    // 16 bytes a thread, so that the link carries whole lines.
    auto* to = reinterpret_cast<uint4*>(work.narrow + image + u64{block} * kBlockPositions);
    if (thread < kBlockPositions / 8) to[thread] = reinterpret_cast<const uint4*>(packed)[thread];
  }
}

template <int K>
void start(const SumWork& work, dim3 grid, bool weighted, cudaStream_t stream) {
  if (weighted)
    sum_streams<K, true><<<grid, kSumWarps * 32, 0, stream>>>(work);
  else
    sum_streams<K, false><<<grid, kSumWarps * 32, 0, stream>>>(work);
}

}  // namespace

static_assert(sizeof(SumRun) == 16, "runs are read 16 bytes at a time");

Result<Done> launch_sums(CudaContext& context, const SumLaunch& launch) {
  const CurrentDevice current(context.device());
  const auto stream = reinterpret_cast<cudaStream_t>(context.query_stream());
  const std::uint32_t k = launch.bits <= 16 ? 16 : launch.bits <= 24 ? 24 : launch.bits <= 32 ? 32 : 64;
  SumWork work{};
  std::uint32_t n_blocks = 0;
  for (std::size_t v = 0; v < launch.volumes.size(); ++v) {
    work.volume[v] = launch.volumes[v]->view;
    work.n_positions[v] = launch.volumes[v]->n_positions;
    n_blocks = std::max(n_blocks, launch.volumes[v]->view.n_blocks);
  }
  std::copy(launch.plans.begin(), launch.plans.end(), work.plan);
  work.n_plans = static_cast<std::uint32_t>(launch.plans.size());
  work.sign_bits = launch.is_signed ? 64 - k : 0;
  if (launch.narrow && (k != 16 || launch.stride % kBlockPositions != 0))
    return Error{Code::internal, "masked sums: 16 bits for sums of " + std::to_string(launch.bits) + " bits, " +
                                     std::to_string(launch.stride) + " elements apart"};
  work.before = launch.before, work.integers = launch.integers, work.wide = launch.wide, work.rounded = launch.rounded;
  work.narrow = launch.narrow, work.stride = launch.stride;
  const std::uint64_t n_ctas = std::uint64_t{n_blocks} * work.n_plans;
  if (n_ctas > 0x7fffffff)
    return Error{Code::unsupported, "masked sums of " + std::to_string(n_blocks) + " blocks do not fit one launch"};
  const dim3 grid(static_cast<unsigned>(n_ctas), static_cast<unsigned>(launch.volumes.size()));
  switch (k) {
    case 16:
      start<16>(work, grid, launch.weighted, stream);
      break;
    case 24:
      start<24>(work, grid, launch.weighted, stream);
      break;
    case 32:
      start<32>(work, grid, launch.weighted, stream);
      break;
    default:
      start<64>(work, grid, launch.weighted, stream);
  }
  return context.check(cudaGetLastError(), "masked sums");
}

}  // namespace quantem::detector_detail
