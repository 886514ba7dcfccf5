#pragma once
// Adding planes of bit-sliced streams, one warp: half-warp = eight streams of a round, lane = a word of 32 positions. Up to 32 loads of 4
// bytes are in flight a thread; a plane is 64 bytes, one access of a half-warp. By far most of what sums_cuda.cu reads is read here.
//
// How wide a round's streams are decides the code that adds them, and the planner deals out rounds by width, so that a warp rarely changes.
// A sum of 512x512x192x192 counts over a disc is latency at both ends and memory in the middle: 24 % of issue slots, DRAM 52-70 %.

#include "quantem/detector/sums_cuda.h"
#include "quantem/resident/sliced_device.cuh"

namespace quantem::detector_detail {

using bits::Sliced;
using bits::u32;
using bits::u64;

inline constexpr u32 kStageRounds = 32;  // whose entries a warp holds in shared memory at once

struct Stage {  // of one warp
  u32 entries[kStageRounds][kRoundStreams];
  u64 codes[kStageRounds];
};

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

}  // namespace quantem::detector_detail
