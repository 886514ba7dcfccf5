// Sums and maxima over scan positions for each detector pixel, single frames and their statistics, from dense counts on a CUDA device.
// Missing positions and bad pixels are stored as 0.

#include <cuda_runtime.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "quantem/detector/dense_query_cuda.h"
#include "quantem/resident/device_bits.cuh"
#include "quantem/runtime/current_device.cuh"

namespace quantem::detector_detail {
namespace {

using bits::u32;
using bits::u64;

constexpr u32 kThreads = 256, kWarps = 8, kAhead = 4;
constexpr u64 kMostPerCta = 16384;  // positions: 65535 times this stays below 2^31
constexpr u64 kCtas = 1056;         // about eight an SM

// The positions of a CTA's share: a list in ascending order, or, where members is null, 0 .. n_members.
struct Positions {
  const u64* members;
  u64 n_members;
  u64 per_cta;
  [[nodiscard]] __device__ u64 at(u64 i) const { return members ? __ldg(members + i) : i; }
};

// What a thread loads of a frame, and its counts one by one: a 16-byte segment, or a single count where frames are no whole segments.
template <class T, bool Wide>
struct Piece {
  static constexpr u32 kCounts = Wide ? 16 / sizeof(T) : 1;
  using Load = std::conditional_t<Wide, uint4, T>;
  [[nodiscard]] static __device__ T count(const Load& x, u32 i) {
    if constexpr (Wide) {
      const u32 word = i / (4 / sizeof(T)) == 0   ? x.x
                       : i / (4 / sizeof(T)) == 1 ? x.y
                       : i / (4 / sizeof(T)) == 2 ? x.z
                                                  : x.w;
      return static_cast<T>(word >> i % (4 / sizeof(T)) * 8 * sizeof(T));
    } else {
      return x;
    }
  }
};

// A thread a piece of the frame, a CTA a share of the positions: neighbouring threads read neighbouring pieces. Shares add up in `sums`
// (64 bits, two's complement), which must be 0 before.
template <class T, bool Wide>
__global__ void __launch_bounds__(kThreads)
    sum_positions(const typename Piece<T, Wide>::Load* counts, u32 frame_pieces, const Positions positions, u64* sums) {
  using P = Piece<T, Wide>;
  // 8- and 16-bit counts of a share fit 32 bits.
  using Part = std::conditional_t<sizeof(T) == 4, std::int64_t, std::conditional_t<std::is_signed_v<T>, int, u32>>;
  const u32 piece = blockIdx.x * kThreads + threadIdx.x;
  if (piece >= frame_pieces) return;
  const u64 first = blockIdx.y * positions.per_cta, stop = min(first + positions.per_cta, positions.n_members);
  Part sum[P::kCounts] = {};
  u64 i = first;
  for (; i + kAhead <= stop; i += kAhead) {
    typename P::Load x[kAhead];
#pragma unroll
    for (u32 k = 0; k < kAhead; ++k) x[k] = __ldcs(counts + positions.at(i + k) * frame_pieces + piece);
#pragma unroll
    for (u32 k = 0; k < kAhead; ++k)
#pragma unroll
      for (u32 j = 0; j < P::kCounts; ++j) sum[j] += static_cast<Part>(P::count(x[k], j));
  }
  for (; i < stop; ++i) {
    const typename P::Load x = counts[positions.at(i) * frame_pieces + piece];
#pragma unroll
    for (u32 j = 0; j < P::kCounts; ++j) sum[j] += static_cast<Part>(P::count(x, j));
  }
#pragma unroll
  for (u32 j = 0; j < P::kCounts; ++j)
    atomicAdd(reinterpret_cast<unsigned long long*>(sums + u64{piece} * P::kCounts + j),
              static_cast<unsigned long long>(static_cast<long long>(sum[j])));
}

// Integers in an order that unsigned comparison keeps; 0 is the least.
template <class T>
__host__ __device__ u32 key_of(T x) {
  return static_cast<u32>(x) ^ (std::is_signed_v<T> ? 0x80000000u : 0);
}
template <class T>
void values_of(const u32* keys, std::span<std::byte> out) {
  for (std::size_t p = 0; p < out.size() / sizeof(T); ++p) {
    const T value = static_cast<T>(keys[p] ^ (std::is_signed_v<T> ? 0x80000000u : 0));
    std::memcpy(out.data() + p * sizeof(T), &value, sizeof value);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    max_positions(const T* counts, u32 frame_pixels, const Positions positions, u32* keys) {
  const u32 pixel = blockIdx.x * kThreads + threadIdx.x;
  if (pixel >= frame_pixels) return;
  const u64 first = blockIdx.y * positions.per_cta, stop = min(first + positions.per_cta, positions.n_members);
  u32 largest = 0;
#pragma unroll 8
  for (u64 i = first; i < stop; ++i) largest = max(largest, key_of(counts[positions.at(i) * frame_pixels + pixel]));
  atomicMax(keys + pixel, largest);
}

struct RealPatterns {
  double* sum;
  u64* n_finite;
  float* largest;
};

// Float counts: a thread a pixel goes through the positions in order, as the reference does, with kRealAhead samples in flight.
__global__ void __launch_bounds__(64)
    real_positions(const float* counts, u32 frame_pixels, const Positions positions, const RealPatterns out) {
  constexpr u32 kRealAhead = 16;
  const u32 pixel = blockIdx.x * 64 + threadIdx.x;
  if (pixel >= frame_pixels) return;
  double sum = 0;
  u64 n_finite = 0;
  float largest = __int_as_float(0x7FC00000);
  for (u64 i = 0; i < positions.n_members; i += kRealAhead) {
    float x[kRealAhead];
#pragma unroll
    for (u32 k = 0; k < kRealAhead; ++k)  // past the end: not finite, so it takes no part
      x[k] = i + k < positions.n_members ? __ldcs(counts + positions.at(i + k) * frame_pixels + pixel)
                                         : __int_as_float(0x7FC00000);
#pragma unroll
    for (u32 k = 0; k < kRealAhead; ++k)
      if (isfinite(x[k])) {
        sum = __dadd_rn(sum, static_cast<double>(x[k]));
        ++n_finite;
        if (!(largest >= x[k])) largest = x[k];
      }
  }
  out.sum[pixel] = sum, out.n_finite[pixel] = n_finite, out.largest[pixel] = largest;
}

struct StatisticsOut {
  u64* total;
  u32 *max, *argmax, *n_nonzero, *n_saturated;
};

// A warp a position. The key of a sample is its value, then its place from the end: the largest key is the first of the largest values.
template <class T>
__global__ void __launch_bounds__(kWarps * 32)
    frame_statistics(const T* counts, u64 n_positions, u32 frame_pixels, const u32* valid, u64 saturation,
                     const StatisticsOut out) {
  const u32 lane = threadIdx.x % 32;
  const u64 position = u64{blockIdx.x} * kWarps + threadIdx.x / 32;
  if (position >= n_positions) return;  // the same in all 32 lanes
  const T* frame = counts + position * frame_pixels;
  u64 total = 0, key = 0;
  u32 n_nonzero = 0, n_saturated = 0;
  for (u32 p = lane; p < frame_pixels; p += 32) {
    if (!(__ldg(valid + p / 32) >> lane & 1)) continue;
    const u32 x = frame[p];
    total += x, n_nonzero += x != 0, n_saturated += x >= saturation;
    key = max(key, u64{x} << 32 | (0xFFFFFFFFu - p));
  }
  n_nonzero = __reduce_add_sync(~0u, n_nonzero), n_saturated = __reduce_add_sync(~0u, n_saturated);
  for (int step = 16; step > 0; step /= 2) {
    total += __shfl_xor_sync(~0u, total, step);
    key = max(key, __shfl_xor_sync(~0u, key, step));
  }
  if (lane != 0) return;
  out.total[position] = total, out.n_nonzero[position] = n_nonzero, out.n_saturated[position] = n_saturated;
  out.max[position] = static_cast<u32>(key >> 32);
  out.argmax[position] = key ? 0xFFFFFFFFu - static_cast<u32>(key) : 0;  // no valid pixel: the first
}

// --- launches --------------------------------------------------------------------------------------------------------------
// The members of a set; empty where it is every position: then none need be listed.
std::vector<u64> members_of(const BitMask& positions) {
  std::vector<u64> members;
  if (positions.all()) return members;
  for (u64 n = 0; n < positions.count(); ++n)
    if (positions[n]) members.push_back(n);
  return members;
}

Positions share(u64 n_positions, const std::vector<u64>& members, const void* on_device, u64 columns) {
  const u64 n = members.empty() ? n_positions : members.size();
  const u64 shares = std::clamp<u64>(kCtas / columns, 1, 65535);
  const u64 per_cta = std::clamp<u64>((n + shares - 1) / shares, std::max<u64>(64, (n + 65534) / 65535), kMostPerCta);
  return {members.empty() ? nullptr : static_cast<const u64*>(on_device), n, per_cta};
}

Error too_many(u64 n) {
  return Error{Code::unsupported, "patterns over " + std::to_string(n) +
                                      " positions: at most 1073725440 from dense counts on a CUDA device"};
}

template <class T, bool Wide>
Result<Done> queue_sums(DenseQuery& query, u64 n_positions, const std::vector<u64>& members, const void* list,
                        u64* sums) {
  using P = Piece<T, Wide>;
  const u32 pieces = query.frame_pixels() / P::kCounts, columns = (pieces + kThreads - 1) / kThreads;
  const Positions positions = share(n_positions, members, list, columns);
  const u64 shares = (positions.n_members + positions.per_cta - 1) / positions.per_cta;
  if (shares > 65535) return too_many(positions.n_members);
  sum_positions<T, Wide><<<dim3(columns, static_cast<u32>(shares)), kThreads, 0, query.stream()>>>(
      query.counts<typename P::Load>(), pieces, positions, sums);
  return query.context().check(cudaGetLastError(), "sum_pattern");
}

}  // namespace

Result<Done> launch_sum_positions(DenseQuery& query, u64 n_positions, const std::vector<u64>& members,
                                  const void* on_device, u64* sums) {
  const u64 n_bytes = u64{query.frame_pixels()} * 8;
  QUANTEM_TRY(query.context().check(cudaMemsetAsync(sums, 0, n_bytes, query.stream()), "sum_pattern"));
  return visit_count_dtype(query.volume().dtype(), [&]<class T>() -> Result<Done> {
    if constexpr (std::is_floating_point_v<T>)
      return Error{Code::internal, "sum_pattern: integer path on float counts"};
    else
      return query.has_segments() ? queue_sums<T, true>(query, n_positions, members, on_device, sums)
                                  : queue_sums<T, false>(query, n_positions, members, on_device, sums);
  });
}

DetectorOps::Path pattern_sum_dense_cuda(const Volume& volume, const BitMask& set, std::span<u64> sum, const Job& job) {
  QUANTEM_TRY_ASSIGN(query, DenseQuery::open(volume, job, "sum_pattern"));
  const CurrentDevice current(query.context().device());
  const std::vector<u64> members = members_of(set);
  const std::span<const std::byte> parts[] = {bytes_of(members)};
  QUANTEM_TRY_ASSIGN(placed, query.place(sum.size_bytes(), parts));
  auto* sums = static_cast<u64*>(placed.results);
  const void* list = members.empty() ? nullptr : placed.parts[0];
  QUANTEM_TRY(launch_sum_positions(query, set.count(), members, list, sums));
  QUANTEM_TRY_ASSIGN(pinned, query.copy_down(sums, sum.size_bytes()));
  std::copy_n(static_cast<const u64*>(pinned), sum.size(), sum.begin());
  return std::string_view("cuda_dense_sum_pattern");
}

namespace {

// The three patterns of float counts, in pinned memory.
Result<RealPatterns> real_patterns(DenseQuery& query, const BitMask& set) {
  const u64 n = query.frame_pixels(), n_bytes = n * 20;
  const std::vector<u64> members = members_of(set);
  const std::span<const std::byte> parts[] = {bytes_of(members)};
  QUANTEM_TRY_ASSIGN(placed, query.place(n_bytes, parts));
  const auto at = [n](void* base) {
    auto* sum = static_cast<double*>(base);
    return RealPatterns{sum, reinterpret_cast<u64*>(sum + n), reinterpret_cast<float*>(sum + 2 * n)};
  };
  const Positions positions{members.empty() ? nullptr : static_cast<const u64*>(placed.parts[0]),
                            members.empty() ? set.count() : members.size(), 0};
  real_positions<<<static_cast<u32>((n + 63) / 64), 64, 0, query.stream()>>>(
      query.counts<float>(), query.frame_pixels(), positions, at(placed.results));
  QUANTEM_TRY(query.context().check(cudaGetLastError(), "patterns"));
  QUANTEM_TRY_ASSIGN(pinned, query.copy_down(placed.results, n_bytes));
  return at(const_cast<void*>(pinned));
}

}  // namespace

DetectorOps::Path pattern_sum_real_dense_cuda(const Volume& volume, const BitMask& set, std::span<double> sum,
                                              std::span<u64> n_finite, const Job& job) {
  QUANTEM_TRY_ASSIGN(query, DenseQuery::open(volume, job, "sum_pattern"));
  const CurrentDevice current(query.context().device());
  QUANTEM_TRY_ASSIGN(patterns, real_patterns(query, set));
  std::copy_n(patterns.sum, sum.size(), sum.begin());
  std::copy_n(patterns.n_finite, n_finite.size(), n_finite.begin());
  return std::string_view("cuda_dense_sum_pattern");
}

DetectorOps::Path pattern_max_dense_cuda(const Volume& volume, const BitMask& set, std::span<std::byte> out,
                                         const Job& job) {
  QUANTEM_TRY_ASSIGN(query, DenseQuery::open(volume, job, "max_pattern"));
  const CurrentDevice current(query.context().device());
  if (volume.dtype() == Dtype::f32) {
    QUANTEM_TRY_ASSIGN(patterns, real_patterns(query, set));
    std::memcpy(out.data(), patterns.largest, out.size());
    return std::string_view("cuda_dense_max_pattern");
  }
  const std::vector<u64> members = members_of(set);
  const std::span<const std::byte> parts[] = {bytes_of(members)};
  const u32 n = query.frame_pixels(), columns = (n + kThreads - 1) / kThreads;
  QUANTEM_TRY_ASSIGN(placed, query.place(u64{n} * 4, parts));
  QUANTEM_TRY(query.context().check(cudaMemsetAsync(placed.results, 0, u64{n} * 4, query.stream()), "max_pattern"));
  const Positions positions = share(set.count(), members, members.empty() ? nullptr : placed.parts[0], columns);
  const u64 shares = (positions.n_members + positions.per_cta - 1) / positions.per_cta;
  if (shares > 65535) return too_many(positions.n_members);
  auto* keys = static_cast<u32*>(placed.results);
  QUANTEM_TRY(visit_count_dtype(volume.dtype(), [&]<class T>() -> Result<Done> {
    if constexpr (!std::is_floating_point_v<T>)
      max_positions<T><<<dim3(columns, static_cast<u32>(shares)), kThreads, 0, query.stream()>>>(query.counts<T>(), n,
                                                                                                 positions, keys);
    return query.context().check(cudaGetLastError(), "max_pattern");
  }));
  QUANTEM_TRY_ASSIGN(pinned, query.copy_down(keys, u64{n} * 4));
  visit_count_dtype(volume.dtype(), [&]<class T>() { values_of<T>(static_cast<const u32*>(pinned), out); });
  return std::string_view("cuda_dense_max_pattern");
}

DetectorOps::Path frame_dense_cuda(const Volume& volume, u64 position, std::span<std::byte> out) {
  QUANTEM_TRY_ASSIGN(query, DenseQuery::open(volume, Job{}, "frame"));
  const CurrentDevice current(query.context().device());
  QUANTEM_TRY_ASSIGN(pinned, query.copy_down(query.counts<std::byte>() + position * out.size(), out.size()));
  std::memcpy(out.data(), pinned, out.size());
  return std::string_view("cuda_dense_frame");
}

DetectorOps::Path frame_statistics_dense_cuda(const Volume& volume, u64 saturation, FrameStatistics& out,
                                              const Job& job) {
  QUANTEM_TRY_ASSIGN(query, DenseQuery::open(volume, job, "frame_statistics"));
  const CurrentDevice current(query.context().device());
  const u64 n = query.n_positions(), n_bytes = n * 24;
  std::vector<u32> valid((query.frame_pixels() + 31) / 32);
  for (u32 p = 0; p < query.frame_pixels(); ++p) valid[p / 32] |= u32{volume.valid_pixels()[p]} << p % 32;
  const std::span<const std::byte> parts[] = {bytes_of(valid)};
  QUANTEM_TRY_ASSIGN(placed, query.place(n_bytes, parts));
  const auto at = [n](void* base) {
    auto* total = static_cast<u64*>(base);
    auto* rest = reinterpret_cast<u32*>(total + n);
    return StatisticsOut{total, rest, rest + n, rest + 2 * n, rest + 3 * n};
  };
  QUANTEM_TRY(visit_count_dtype(volume.dtype(), [&]<class T>() -> Result<Done> {
    if constexpr (!std::is_unsigned_v<T>)
      return Error{Code::internal, "frame_statistics: unsigned path on other counts"};
    else
      frame_statistics<T><<<static_cast<u32>((n + kWarps - 1) / kWarps), kWarps * 32, 0, query.stream()>>>(
          query.counts<T>(), n, query.frame_pixels(), static_cast<const u32*>(placed.parts[0]), saturation,
          at(placed.results));
    return query.context().check(cudaGetLastError(), "frame_statistics");
  }));
  QUANTEM_TRY_ASSIGN(pinned, query.copy_down(placed.results, n_bytes));
  const StatisticsOut s = at(const_cast<void*>(pinned));
  for (u64 i = 0; i < n; ++i) {
    if (!volume.valid_positions()[i]) continue;
    out.total[i] = s.total[i], out.max[i] = static_cast<double>(s.max[i]), out.argmax[i] = s.argmax[i];
    out.n_nonzero[i] = s.n_nonzero[i], out.n_saturated[i] = s.n_saturated[i];
  }
  return std::string_view("cuda_dense_frame_statistics");
}

}  // namespace quantem::detector_detail
