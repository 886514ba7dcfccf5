#pragma once
// Adding listed bits, one warp: lane = a chunk of eight listed bits, each added to the integer of its position in shared memory. Bound by
// instructions, not bytes: warps of their own do it while others read planes; how many is in the plan (list_warps).

#include "quantem/detector/sums_cuda.h"
#include "quantem/resident/sliced_device.cuh"

namespace quantem::detector_detail {

using bits::u32;
using bits::u64;

template <class Integer>
struct ListRow {
  int start, begin, end;  // the run's first chunk among those of the turn; its span
  Integer weight;
};

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

}  // namespace quantem::detector_detail
