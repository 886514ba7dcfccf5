// Weighted sums of bit-sliced streams, 512 scan positions a CTA.
//
// 1. Each warp fetches the directory entries of its rounds into its own piece of shared memory (no barrier).
// 2. Each half-warp adds eight streams of a round, a word of 32 positions a lane: planes are added as they are, bit-sliced, with up to
//    32 loads of 4 bytes in flight a thread. A plane is 64 bytes, one access of a half-warp, and is read once.
// 3. Some warps read lists instead: eight listed bits a lane, each added to the integer of its position in shared memory.
// 4. Half-warps, then warps, are added while still sliced; one bit transpose turns 512 sums into integers, the lists' are added, and
//    the image is written once.
// All sums are modulo 2^K: exact when the answer fits K bits. Subtraction is addition into the complement of the sum.

#include "quantem/detector/sums_cuda.h"

#include <type_traits>

#include "quantem/resident/sliced_device.cuh"
#include "quantem/runtime/current_device.cuh"

namespace quantem::detector_detail {
namespace {

using bits::Sliced;
using bits::u32;
using bits::u64;
using sliced::kWords;

constexpr u32 kStageRounds = 32;  // whose entries a warp holds in shared memory at once

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
  u64 stride;
};

struct Stage {  // of one warp
  u32 entries[kStageRounds][kRoundStreams];
  u64 codes[kStageRounds];
};
template <class Integer>
struct ListRow {
  int start, begin, end;  // the run's first chunk among those of the turn; its span
  Integer weight;
};

// --- planes ----------------------------------------------------------------------------------------------------------------

// Planes first .. first + C of a stream; those below `Sure` are known to exist and are loaded without asking. The empty asm keeps the
// compiler from recomputing the address for every plane.
template <int C, int Sure>
__device__ __forceinline__ Sliced<C> load_planes(const char* words, u32 entry, int first = 0) {
  const char* p = words + (entry & ~63u) + first * kPlaneBytes;
  asm("" : "+l"(p));
  Sliced<C> x;
#pragma unroll
  for (int k = 0; k < C; ++k) {
    x.plane[k] = 0;
    if (k < Sure || first + k < static_cast<int>(entry & 63))
      x.plane[k] = __ldg(reinterpret_cast<const u32*>(p + kPlaneBytes * k));
  }
  return x;
}
template <int C, int Sure, int N>
__device__ __forceinline__ void load_streams(Sliced<C> (&x)[N], const char* words, const u32* entries) {
#pragma unroll
  for (int i = 0; i < N; ++i) x[i] = load_planes<C, Sure>(words, entries[i]);
}

// acc += two streams of any width, 16 planes of each at a time.
template <int K, int First = 0>
__device__ __forceinline__ void add_wide_pair(Sliced<K>& acc, const char* words, u32 a, u32 b) {
  constexpr int C = K - First < 16 ? K - First : 16;
  const Sliced<C> x = load_planes<C, 0>(words, a, First), y = load_planes<C, 0>(words, b, First);
  bits::add<First>(acc, bits::sum<C + 1>(x, y));
  if constexpr (First + 16 < K)
    if (__any_sync(~0u, max(a & 63, b & 63) > First + 16)) add_wide_pair<K, First + 16>(acc, words, a, b);
}

// acc += this half-warp's eight streams. Both halves take the same branch: it depends on the widths in both.
template <int K>
__device__ __forceinline__ void add_round(Sliced<K>& acc, const char* words, const u32* entries) {
  u32 e[8];
  *reinterpret_cast<uint4*>(e) = *reinterpret_cast<const uint4*>(entries);
  *reinterpret_cast<uint4*>(e + 4) = *reinterpret_cast<const uint4*>(entries + 4);
  u32 any = 0, all = ~0u;  // bits of the widths
#pragma unroll
  for (int i = 0; i < 8; ++i) any |= e[i], all &= e[i];
  any = (any | __shfl_xor_sync(~0u, any, 16)) & 63;
  all &= __shfl_xor_sync(~0u, all, 16);
  if (any == 0) return;
  if (any == 1) {
    Sliced<1> x[8];
    load_streams<1, 0>(x, words, e);
    bits::add(acc, bits::sum_of_8(x));
  } else if (any <= 3) {
    Sliced<3> x[8];
    if (all & 2)
      load_streams<3, 2>(x, words, e);  // every width is 2 or 3
    else
      load_streams<3, 0>(x, words, e);
    bits::add(acc, bits::sum_of_8(x));
  } else if (any <= 5 && (all & 4)) {  // every width is 4 or 5
#pragma unroll
    for (int h = 0; h < 8; h += 4) {
      Sliced<5> x[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) x[i] = load_planes<5, 4>(words, e[h + i]);
      bits::add(acc, bits::sum_of_4(x));
    }
  } else if (any <= 7) {
#pragma unroll 1
    for (int h = 0; h < 8; h += 4) {
      const uint4 q = *reinterpret_cast<const uint4*>(entries + h);
      if (!__any_sync(~0u, (q.x | q.y | q.z | q.w) & 63)) continue;
      const u32 four[4] = {q.x, q.y, q.z, q.w};
      Sliced<7> x[4];
      load_streams<7, 0>(x, words, four);
      bits::add(acc, bits::sum_of_4(x));
    }
  } else {
#pragma unroll 1
    for (int h = 0; h < 8; h += 2) {
      const uint2 q = *reinterpret_cast<const uint2*>(entries + h);
      if (__any_sync(~0u, (q.x | q.y) & 63)) add_wide_pair(acc, words, q.x, q.y);
    }
  }
}

// result += fall * total
template <int K>
__device__ __forceinline__ void add_multiple(Sliced<K>& result, const Sliced<K>& total, u64 fall) {
  if (fall & 1) bits::add(result, total);
  if ((fall >>= 1) == 0) return;
  Sliced<K> doubled = total;
#pragma unroll 1
  for (; fall; fall >>= 1) {
#pragma unroll
    for (int k = K - 1; k > 0; --k) doubled.plane[k] = doubled.plane[k - 1];
    doubled.plane[0] = 0;
    if (fall & 1) bits::add(result, doubled);
  }
}

// The sum of the rounds first, first + step, ... below stop, over this half-warp's streams.
template <int K, bool Weighted>
__device__ __forceinline__ Sliced<K> sum_rounds(const SlicedDeviceView& volume, const SumPlanView& plan, u32 block,
                                                Stage& stage, u32 first, u32 stop, u32 step, u32 lane) {
  const u32 half = lane / 16;
  const char* words = sliced::words_of(volume, block, lane % 16);
  Sliced<K> total{}, result{};
  u32 complemented = 0;
  u64 weight = 0;
  const u32 n_mine = first < stop ? (stop - first + step - 1) / step : 0;
  for (u32 done = 0; done < n_mine; done += kStageRounds) {
    const u32 n_here = min(kStageRounds, n_mine - done);
    __syncwarp();  // the stage before has been read
    for (u32 t = lane; t < n_here * kRoundStreams; t += 32) {
      const u32 round = first + (done + t / kRoundStreams) * step, slot = t % kRoundStreams;
      const u32 stream = __ldg(plan.streams + round * kRoundStreams + slot);
      stage.entries[t / kRoundStreams][slot] = stream == kNoStream ? 0 : sliced::entry_of(volume, block, stream);
      if (slot == 0) stage.codes[t / kRoundStreams] = __ldg(plan.codes + round);
    }
    __syncwarp();
    for (u32 r = 0; r < n_here; ++r) {
      const u32 wanted = reinterpret_cast<const u32*>(stage.codes + r)[1] >> 31 ? ~0u : 0u;
      if constexpr (Weighted) {
        const u64 w = stage.codes[r] & ~SumPlan::kMinus;
        if (w != weight) {
          bits::toggle(total, complemented);
          complemented = 0;
          if (done + r) add_multiple(result, total, weight - w);
          weight = w;
        }
      }
      if (wanted != complemented) bits::toggle(total, ~0u);
      complemented = wanted;
      add_round(total, words, stage.entries[r] + half * 8);
    }
  }
  bits::toggle(total, complemented);
  if constexpr (Weighted) {
    add_multiple(result, total, weight);
    return result;
  } else {
    return total;
  }
}

// --- lists -----------------------------------------------------------------------------------------------------------------

__device__ __forceinline__ void add_at(u32* sums, u32 position_times_4, u32 value) {
  atomicAdd(sums + position_times_4 / 4, value);
}
__device__ __forceinline__ void add_at(u64* sums, u32 position_times_4, u64 value) {
  atomicAdd(reinterpret_cast<unsigned long long*>(sums + position_times_4 / 4), value);
}
__device__ __forceinline__ u32 times_power(u32 weight, u32 plane) {
  return __funnelshift_l(0, weight, plane);
}
__device__ __forceinline__ u64 times_power(u64 weight, u32 plane) {
  return weight << plane;
}

// The lists of every `shares`-th run, from run `share` on. 32 runs a turn, one a lane; the ends of the next turn's lists are on their
// way meanwhile. The chunks of a turn, however they spread over its runs, are dealt one a lane, four in flight.
template <class Integer>
__device__ void add_lists(Integer* sums, ListRow<Integer>* rows, const SlicedDeviceView& volume,
                          const SumPlanView& plan, u32 block, u32 share, u32 shares, u32 lane) {
  constexpr int kInFlight = 4;
  const uint4* lists = sliced::lists_of(volume, block);
  struct Run {
    u32 first, last;
    Integer weight;
  };
  const auto run_at = [&](u32 i) {
    if (i >= plan.n_runs) return Run{kNoStream, 0, 0};
    const uint4 q = __ldg(reinterpret_cast<const uint4*>(plan.runs + i));
    return Run{q.x, q.y, static_cast<Integer>(u64{q.w} << 32 | q.z)};
  };
  const auto span_of = [&](const Run& run) {
    return run.first == kNoStream ? sliced::ListSpan{0, 0} : sliced::listed(volume, block, run.first, run.last);
  };
  const u32 turn = 32 * shares;
  u32 at = lane * shares + share;
  Run run = run_at(at), next = run_at(at + turn);
  sliced::ListSpan span = span_of(run);
  for (u32 done = 0; done < plan.n_runs; done += turn, at += turn) {
    const Run after_next = run_at(at + 2 * turn);
    const sliced::ListSpan next_span = span_of(next);
    const int n = span.n_chunks();
    int upto = n;  // chunks of this lane's run and those of lower lanes
#pragma unroll
    for (int s = 1; s < 32; s *= 2) {
      const int y = __shfl_up_sync(~0u, upto, s);
      if (lane >= s) upto += y;
    }
    const int start = upto - n, n_chunks = __shfl_sync(~0u, upto, 31);
    const u32 some = __ballot_sync(~0u, n != 0);
    __syncwarp();
    if (n) rows[__popc(some & ((1u << lane) - 1))] = {start, span.begin, span.end, run.weight};
    __syncwarp();
    int begun = 0;  // runs that begin before chunk k
    for (int k = 0; k < n_chunks; k += 32 * kInFlight) {
      uint4 chunk[kInFlight];
      u32 wanted[kInFlight];  // which bits, and in the upper bits whose row the chunk is
#pragma unroll
      for (int d = 0; d < kInFlight; ++d) {
        wanted[d] = 0;
        if (k + 32 * d >= n_chunks) continue;
        const int s = start - k - 32 * d;
        const u32 starts = __reduce_or_sync(~0u, n && s >= 0 && s < 32 ? 1u << s : 0);
        const int owner = begun + __popc(starts & ((2u << lane) - 1)) - 1;
        const ListRow<Integer>& row = rows[owner];
        begun += __popc(starts);
        const int c = row.begin / 8 + k + 32 * d + static_cast<int>(lane) - row.start;
        wanted[d] = sliced::inside({row.begin, row.end}, c);
        chunk[d] = sliced::load_chunk(lists, c, wanted[d]);
        wanted[d] |= static_cast<u32>(owner) << 8;
      }
#pragma unroll
      for (int d = 0; d < kInFlight; ++d)
        if (k + 32 * d < n_chunks) {
          const Integer weight = rows[wanted[d] >> 8].weight;
          sliced::for_each_bit(chunk[d], wanted[d], [&](u32 position_times_4, u32 plane) {
            add_at(sums, position_times_4, times_power(weight, plane));
          });
        }
    }
    run = next, span = next_span, next = after_next;
  }
}

// --- the kernel ------------------------------------------------------------------------------------------------------------

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
  work.before = launch.before, work.integers = launch.integers, work.wide = launch.wide, work.rounded = launch.rounded;
  work.stride = launch.stride;
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
