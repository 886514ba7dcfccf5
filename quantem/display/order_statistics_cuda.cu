// Exact order statistics of an image on a CUDA device, by digits: keys of 32 bits that order as the values do are counted by their first 11
// bits, then, among those with the digits found so far, by the next 11 and the last 10. Four statistics at once: two percentiles, each
// with the rank above it. Integer counts only, so the result does not depend on any order.
//   count_keys   CTA of 512 threads, four values a thread and step; counts in shared memory, then added to those of the device. The CTA
//                that finishes last finds the digit of each statistic. Reads the image once a pass, from L2 after the first (1 MiB for 512x512).

#include <cuda_runtime_api.h>

#include <algorithm>
#include <bit>
#include <cstddef>

#include "quantem/display/device_kernels.h"
#include "quantem/display/each_value.cuh"
#include "quantem/runtime/current_device.cuh"

namespace quantem::display_detail {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

constexpr u32 kThreads = 512, kBins = 2048, kStatistics = 4;
constexpr u32 kNoPrefix = ~u32{0};  // prefixes have at most 22 bits
static_assert(kBins == 4 * kThreads, "a thread takes four neighbouring bins where digits are found");

// In device memory, all zero before the first pass.
struct Selection {
  u32 n;                    // finite values
  u32 arrived[3];           // CTAs of each pass that have added their counts
  u32 prefix[kStatistics];  // the digits found so far, the whole key at the end
  u32 rank[kStatistics];    // among the values with that prefix
  u32 owner[kStatistics];   // the first statistic with the same prefix, whose bins serve both
  u32 bins[3][kStatistics][kBins];
};
constexpr std::size_t kHeadBytes = offsetof(Selection, bins);
static_assert(kHeadBytes % 16 == 0, "bins are read 16 bytes at a time");

struct SelectWork {
  const float* values;
  u32 n_values;
  bool magnitudes;
  double fraction[2];  // of the percentiles
  Selection* selection;
};

// Orders as the values do; both zeros have one key.
__device__ __forceinline__ u32 key_of(u32 bits, bool magnitudes) {
  if (magnitudes) return bits & 0x7fffffffu;
  if (bits == 0x80000000u) bits = 0;
  return bits ^ (bits >> 31 ? ~u32{0} : 0x80000000u);
}

// Equal neighbours, the rule in a smooth image, are counted together: fewer atomics that meet in one bin.
struct Run {
  u32* bin = nullptr;
  u32 n = 0;
  __device__ __forceinline__ void add(u32* next) {
    if (next != bin) flush(), bin = next, n = 0;
    ++n;
  }
  __device__ __forceinline__ void flush() const {
    if (bin) atomicAdd(bin, n);
  }
};

// The sum of `own` over the threads before this one, and over all.
__device__ u32 sum_before(u32 own, u32* of_warp, u32& total) {
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  u32 sum = own;
  for (u32 step = 1; step < 32; step *= 2) {
    const u32 other = __shfl_up_sync(~0u, sum, step);
    if (lane >= step) sum += other;
  }
  __syncthreads();  // of_warp may still be read
  if (lane == 31) of_warp[warp] = sum;
  __syncthreads();
  u32 before = sum - own;
  total = 0;
  for (u32 w = 0; w < kThreads / 32; ++w) {
    if (w < warp) before += of_warp[w];
    total += of_warp[w];
  }
  return before;
}

// Rank r of the whole image: rank_of() of order_statistic.h, or the one above it. One multiplication, rounded as on the host.
__device__ u32 first_rank(const SelectWork& work, u32 r, u32 n) {
  const u32 last = n ? n - 1 : 0;
  const u64 below = static_cast<u64>(__dmul_rn(work.fraction[r / 2], static_cast<double>(last)));
  return static_cast<u32>(min(below + r % 2, static_cast<u64>(last)));
}

// The next digit of each statistic, by one CTA, when all counts are there.
template <int Pass, int Bits>
__device__ void find_digits(const SelectWork& work) {
  __shared__ u32 of_warp[kThreads / 32], prefix[kStatistics], rank[kStatistics];
  Selection& s = *work.selection;
  if (threadIdx.x < kStatistics) prefix[threadIdx.x] = rank[threadIdx.x] = 0;
  u32 total = 0;
  for (u32 r = 0; r < kStatistics; ++r) {
    const u32 set = Pass == 0 ? 0 : s.owner[r];
    const uint4 c = __ldcg(reinterpret_cast<const uint4*>(s.bins[Pass][set]) + threadIdx.x);
    const u32 own = c.x + c.y + c.z + c.w;
    u32 before = sum_before(own, of_warp, total);
    const u32 wanted = Pass == 0 ? first_rank(work, r, total) : s.rank[r];
    if (wanted < before || wanted - before >= own) continue;
    u32 digit = 4 * threadIdx.x;
    const u32 counts[3] = {c.x, c.y, c.z};
#pragma unroll
    for (int i = 0; i < 3; ++i)
      if (digit == 4 * threadIdx.x + i && wanted - before >= counts[i]) before += counts[i], ++digit;
    prefix[r] = (Pass == 0 ? 0 : s.prefix[r]) << Bits | digit;
    rank[r] = wanted - before;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  if (Pass == 0) s.n = total;
  for (u32 r = 0; r < kStatistics; ++r) {
    s.prefix[r] = prefix[r], s.rank[r] = rank[r];
    u32 first = 0;
    while (prefix[first] != prefix[r]) ++first;
    s.owner[r] = first;
  }
}

template <int Pass, int Bits, int Shift>
__global__ void __launch_bounds__(kThreads) count_keys(const __grid_constant__ SelectWork work) {
  constexpr u32 kSets = Pass == 0 ? 1 : kStatistics;
  __shared__ u32 bins[kSets * kBins];
  __shared__ u32 prefix[kStatistics], is_last;
  Selection& s = *work.selection;
  for (u32 i = threadIdx.x; i < kSets * kBins; i += kThreads) bins[i] = 0;
  if (threadIdx.x < kStatistics)
    prefix[threadIdx.x] = Pass != 0 && s.owner[threadIdx.x] == threadIdx.x ? s.prefix[threadIdx.x] : kNoPrefix;
  __syncthreads();

  Run run;
  const auto count = [&](float x) {
    const u32 value = __float_as_uint(x);
    if ((value & 0x7f800000u) == 0x7f800000u) return;  // NaN and infinities take no part
    const u32 key = key_of(value, work.magnitudes), digit = key >> Shift & ((1u << Bits) - 1);
    if (Pass == 0) return run.add(bins + digit);
    for (u32 r = 0; r < kSets; ++r)
      if (prefix[r] == key >> Shift >> Bits) return run.add(bins + r * kBins + digit);
  };
  each_value<kThreads>(work.values, work.n_values, count);
  run.flush();
  __syncthreads();
  for (u32 i = threadIdx.x; i < kSets * kBins; i += kThreads)
    if (bins[i]) atomicAdd(&s.bins[Pass][i / kBins][i % kBins], bins[i]);

  __threadfence();  // counts before the arrival
  __syncthreads();
  if (threadIdx.x == 0) is_last = atomicAdd(&s.arrived[Pass], 1u) == gridDim.x - 1;
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  find_digits<Pass, Bits>(work);
}

float value_of(u32 key, bool magnitudes) {
  if (magnitudes) return std::bit_cast<float>(key);
  return std::bit_cast<float>(key >> 31 ? key ^ 0x80000000u : ~key);
}

}  // namespace

Result<OrderStatistics> order_statistics_cuda(const DeviceImage& image, double low_percentile, double high_percentile,
                                              bool magnitudes) {
  QUANTEM_TRY_ASSIGN(context, CudaContext::of(image.device()));
  const auto lock = context->query_lock();
  const CurrentDevice current(context->device());
  const auto stream = reinterpret_cast<cudaStream_t>(context->query_stream());
  QUANTEM_TRY_ASSIGN(area, context->work_area(sizeof(Selection)));
  QUANTEM_TRY_ASSIGN(pinned, context->pinned_result(kHeadBytes));
  QUANTEM_TRY(context->check(cudaMemsetAsync(area, 0, sizeof(Selection), stream), "window"));
  const SelectWork work{image.data(),
                        static_cast<u32>(image.extent().count()),
                        magnitudes,
                        {low_percentile / 100, high_percentile / 100},
                        static_cast<Selection*>(area)};
  const u32 n_ctas = std::clamp<u32>(work.n_values / (4 * kThreads), 1, 2 * context->multiprocessors());
  count_keys<0, 11, 21><<<n_ctas, kThreads, 0, stream>>>(work);
  count_keys<1, 11, 10><<<n_ctas, kThreads, 0, stream>>>(work);
  count_keys<2, 10, 0><<<n_ctas, kThreads, 0, stream>>>(work);
  QUANTEM_TRY(context->check(cudaGetLastError(), "window"));
  QUANTEM_TRY(context->check(cudaMemcpyAsync(pinned, area, kHeadBytes, cudaMemcpyDeviceToHost, stream), "window"));
  QUANTEM_TRY(context->synchronize("window"));
  const auto* head = static_cast<const u32*>(pinned);
  const u32* key = head + offsetof(Selection, prefix) / 4;
  OrderStatistics found;
  found.n = head[0];
  if (found.n == 0) return found;
  for (int i = 0; i < 2; ++i)
    found.below[i] = value_of(key[2 * i], magnitudes), found.above[i] = value_of(key[2 * i + 1], magnitudes);
  return found;
}

}  // namespace quantem::display_detail
