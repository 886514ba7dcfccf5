// Sums over detector pixels at each scan position, from dense counts on a CUDA device.
//   selected   16-byte segments of a frame that have a selected pixel, four positions a warp: reads each such segment once
//   listed     any dtype, any frame, any weights: 32 positions a warp, pixels in order, so float sums have the order of the reference
//   com        total and first moments of whole frames in one pass over the counts
// Missing positions and bad pixels are stored as 0.

#include <cuda_runtime.h>

#include <algorithm>
#include <type_traits>

#include "quantem/detector/dense_query_cuda.h"
#include "quantem/detector/moved_sum.h"
#include "quantem/resident/device_bits.cuh"
#include "quantem/runtime/current_device.cuh"

namespace quantem::detector_detail {
namespace {

using bits::u32;
using bits::u64;
using i64 = std::int64_t;

constexpr u32 kWarps = 8, kTileWarps = 4;
constexpr u32 kPositionsPerWarp = 4;  // of `selected`: as many loads in flight a lane, and one look at the list for all
constexpr u32 kFlush = 4096;  // segments a lane sums in 32 bits: 16 * 255 and 8 * 65535 times this stay below 2^32

__device__ u64 warp_sum(u64 value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(~0u, value, step);
  return value;
}

// Sum of a segment's selected counts: `mask` has a byte 0 or 1 for each.
__device__ u32 add_selected(std::uint8_t, uint4 x, uint4 mask, u32 sum) {
  return __dp4a(x.x, mask.x, __dp4a(x.y, mask.y, __dp4a(x.z, mask.z, __dp4a(x.w, mask.w, sum))));
}
__device__ u32 add_selected(std::uint16_t, uint4 x, uint4 mask, u32 sum) {
  return __dp2a_lo(x.x, mask.x, __dp2a_hi(x.y, mask.x, __dp2a_lo(x.z, mask.y, __dp2a_hi(x.w, mask.y, sum))));
}

template <class T>
__global__ void __launch_bounds__(kWarps * 32)
    sum_segments(const uint4* counts, u64 n_positions, u32 frame_segments, const u32* segments, const uint4* masks,
                 u32 n_segments, u64* image) {
  const u32 lane = threadIdx.x % 32;
  const u64 first = (u64{blockIdx.x} * kWarps + threadIdx.x / 32) * kPositionsPerWarp;
  if (first >= n_positions) return;  // the same in all 32 lanes
  const uint4* frame[kPositionsPerWarp];
  u64 sum[kPositionsPerWarp] = {};
#pragma unroll
  for (u32 k = 0; k < kPositionsPerWarp; ++k)  // past the end: the last frame again, its sum is not written
    frame[k] = counts + min(first + k, n_positions - 1) * frame_segments;
  for (u32 base = 0; base < n_segments; base += kFlush * 32) {
    u32 part[kPositionsPerWarp] = {};
    const u32 stop = min(n_segments - base, kFlush * 32) + base;
    for (u32 i = base + lane; i < stop; i += 32) {
      const u32 segment = __ldg(segments + i);
      const uint4 mask = __ldg(masks + i);
      uint4 x[kPositionsPerWarp];
#pragma unroll
      for (u32 k = 0; k < kPositionsPerWarp; ++k) x[k] = __ldcs(frame[k] + segment);
#pragma unroll
      for (u32 k = 0; k < kPositionsPerWarp; ++k) part[k] = add_selected(T{}, x[k], mask, part[k]);
    }
#pragma unroll
    for (u32 k = 0; k < kPositionsPerWarp; ++k) sum[k] += part[k];
  }
#pragma unroll
  for (u32 k = 0; k < kPositionsPerWarp; ++k) {
    const u64 all = warp_sum(sum[k]);
    if (lane == 0 && first + k < n_positions) image[first + k] = all;
  }
}

template <class T>
using Wide =
    std::conditional_t<std::is_floating_point_v<T>, float, std::conditional_t<std::is_signed_v<T>, std::int32_t, u32>>;

// A sum in the order of the pixels: integers modulo 2^64, floats in double with every operation rounded, NaN once a sample is not finite.
template <class T>
struct OrderedSum {
  u64 value = 0;
  __device__ void add(i64 weight, Wide<T> x) {
    value += static_cast<u64>(weight) * static_cast<u64>(static_cast<i64>(x));
  }
  [[nodiscard]] __device__ u64 result() const { return value; }
};
template <>
struct OrderedSum<float> {
  double value = 0;
  bool finite = true;
  __device__ void add(i64 weight, float x) {
    if (weight == 0) return;
    finite = finite && isfinite(x);
    value = __dadd_rn(value, __dmul_rn(static_cast<double>(weight), static_cast<double>(x)));
  }
  [[nodiscard]] __device__ double result() const { return finite ? value : __longlong_as_double(0x7FF8000000000000LL); }
};

// A warp takes 32 positions and 32 listed pixels a turn: lanes read along the pixels, and after a turn of the tile each lane sums along its
// own position. weights: K sets of n_listed; null: 1.
template <class T, int K, class Sum>
__global__ void __launch_bounds__(kTileWarps * 32)
    sum_listed(const T* counts, u64 n_positions, u32 frame_pixels, const u32* pixels, const i64* weights, u32 n_listed,
               Sum* images) {
  __shared__ Wide<T> tiles[kTileWarps][32][33];
  const u32 lane = threadIdx.x % 32;
  Wide<T>(&tile)[32][33] = tiles[threadIdx.x / 32];
  const u64 first = (u64{blockIdx.x} * kTileWarps + threadIdx.x / 32) * 32;
  if (first >= n_positions) return;  // the same in all 32 lanes
  OrderedSum<T> sum[K];
  for (u32 base = 0; base < n_listed; base += 32) {
    const u32 n_here = min(32u, n_listed - base), pixel = __ldg(pixels + base + min(lane, n_here - 1));
#pragma unroll 8
    for (u32 k = 0; k < 32; ++k)
      tile[k][lane] = first + k < n_positions ? counts[(first + k) * frame_pixels + pixel] : T{0};
    __syncwarp();
    for (u32 j = 0; j < n_here; ++j) {
      const Wide<T> x = tile[lane][j];
#pragma unroll
      for (int s = 0; s < K; ++s) sum[s].add(weights ? __ldg(weights + u64(s) * n_listed + base + j) : 1, x);
    }
    __syncwarp();
  }
  if (first + lane < n_positions)
#pragma unroll
    for (int s = 0; s < K; ++s) images[s * n_positions + first + lane] = sum[s].result();
}

// Sum of a segment's counts, and of counts times their place in the segment.
struct SegmentSums {
  u32 total, col;
};
__device__ SegmentSums segment_sums(std::uint8_t, uint4 x) {
  constexpr u32 kOnes = 0x01010101;
  return {__dp4a(x.x, kOnes, __dp4a(x.y, kOnes, __dp4a(x.z, kOnes, __dp4a(x.w, kOnes, 0u)))),
          __dp4a(x.x, 0x03020100u, __dp4a(x.y, 0x07060504u, __dp4a(x.z, 0x0B0A0908u, __dp4a(x.w, 0x0F0E0D0Cu, 0u))))};
}
__device__ SegmentSums segment_sums(std::uint16_t, uint4 x) {
  constexpr u32 kOnes = 0x0101;
  return {__dp2a_lo(x.x, kOnes, __dp2a_lo(x.y, kOnes, __dp2a_lo(x.z, kOnes, __dp2a_lo(x.w, kOnes, 0u)))),
          __dp2a_lo(x.x, 0x0100u, __dp2a_lo(x.y, 0x0302u, __dp2a_lo(x.z, 0x0504u, __dp2a_lo(x.w, 0x0706u, 0u))))};
}

// A warp a position: a lane takes every 32nd segment of the frame, kAhead of them in flight.
template <class T>
__global__ void __launch_bounds__(kWarps * 32)
    com_frames(const uint4* counts, u64 n_positions, u32 frame_segments, u32 row_segments, u64* images) {
  constexpr u32 kAhead = 8, kCounts = 16 / sizeof(T);
  const u32 lane = threadIdx.x % 32;
  const u64 position = u64{blockIdx.x} * kWarps + threadIdx.x / 32;
  if (position >= n_positions) return;  // the same in all 32 lanes
  const uint4* frame = counts + position * frame_segments;
  const u32 step_row = 32 / row_segments, step_col = 32 % row_segments;
  u32 row = lane / row_segments, col = lane % row_segments;  // of the lane's next segment
  u64 sum = 0, sum_row = 0, sum_col = 0;
  for (u32 at = lane; at < frame_segments; at += 32 * kAhead) {
    uint4 x[kAhead];
#pragma unroll
    for (u32 k = 0; k < kAhead; ++k)
      x[k] = at + 32 * k < frame_segments ? __ldcs(frame + at + 32 * k) : uint4{0, 0, 0, 0};
#pragma unroll
    for (u32 k = 0; k < kAhead; ++k) {
      const SegmentSums s = segment_sums(T{}, x[k]);
      sum += s.total;
      sum_row += u64{row} * s.total;
      sum_col += u64{col * kCounts} * s.total + s.col;
      row += step_row, col += step_col;
      if (col >= row_segments) col -= row_segments, ++row;
    }
  }
  sum = warp_sum(sum), sum_row = warp_sum(sum_row), sum_col = warp_sum(sum_col);
  if (lane == 0)
    images[position] = sum, images[n_positions + position] = sum_row, images[2 * n_positions + position] = sum_col;
}

// Bit 0: a selected sample is not finite; bit 1: one is negative. A warp a position.
template <class T>
__global__ void __launch_bounds__(kWarps * 32) look_at_samples(const T* counts, u64 n_positions, u32 frame_pixels,
                                                               const u32* pixels, u32 n_listed, std::uint8_t* states) {
  const u64 position = u64{blockIdx.x} * kWarps + threadIdx.x / 32;
  if (position >= n_positions) return;  // the same in all 32 lanes
  bool negative = false, not_finite = false;
  for (u32 i = threadIdx.x % 32; i < n_listed; i += 32) {
    const T x = counts[position * frame_pixels + __ldg(pixels + i)];
    negative |= x < T{0};
    if constexpr (std::is_floating_point_v<T>) not_finite |= !isfinite(x);
  }
  negative = __any_sync(~0u, negative), not_finite = __any_sync(~0u, not_finite);
  if (threadIdx.x % 32 == 0) states[position] = static_cast<std::uint8_t>(not_finite | negative << 1);
}

// --- launches --------------------------------------------------------------------------------------------------------------
u32 ctas(u64 n, u64 per_cta) {
  return static_cast<u32>((n + per_cta - 1) / per_cta);
}

std::vector<u32> pixels_of(const BitMask& selected) {
  std::vector<u32> pixels;
  for (u64 p = 0; p < selected.count(); ++p)
    if (selected[p]) pixels.push_back(static_cast<u32>(p));
  return pixels;
}

// K sums over listed pixels at every position, in pinned memory one after the other.
template <class T, int K, class Sum>
Result<const Sum*> listed_sums(DenseQuery& query, const std::vector<u32>& pixels, const std::vector<i64>& weights) {
  const u64 n = query.n_positions();
  const std::span<const std::byte> parts[] = {bytes_of(pixels), bytes_of(weights)};
  QUANTEM_TRY_ASSIGN(placed, query.place(K * n * sizeof(Sum), parts));
  const auto* on_device = weights.empty() ? nullptr : static_cast<const i64*>(placed.parts[1]);
  sum_listed<T, K, Sum><<<ctas(n, kTileWarps * 32), kTileWarps * 32, 0, query.stream()>>>(
      query.counts<T>(), n, query.frame_pixels(), static_cast<const u32*>(placed.parts[0]), on_device,
      static_cast<u32>(pixels.size()), static_cast<Sum*>(placed.results));
  QUANTEM_TRY(query.context().check(cudaGetLastError(), "masked_sum"));
  QUANTEM_TRY_ASSIGN(pinned, query.copy_down(placed.results, K * n * sizeof(Sum)));
  return static_cast<const Sum*>(pinned);
}

// The segments that have a selected pixel, and a byte for each of their counts.
struct Segments {
  std::vector<u32> index;
  std::vector<uint4> masks;
};
template <class T>
Segments segments_of(const BitMask& selected) {
  constexpr u32 kCounts = 16 / sizeof(T);
  Segments out;
  for (u64 first = 0; first < selected.count(); first += kCounts) {
    u32 words[4] = {};
    for (u32 i = 0; i < kCounts; ++i)
      if (selected[first + i]) words[i / 4] |= 1u << i % 4 * 8;
    if (!(words[0] | words[1] | words[2] | words[3])) continue;
    out.index.push_back(static_cast<u32>(first / kCounts));
    out.masks.push_back({words[0], words[1], words[2], words[3]});
  }
  return out;
}

// Calls call(T{}) with the 8- or 16-bit unsigned type of so many bytes.
template <class Call>
void with_small_counts(Dtype dtype, const Call& call) {
  if (item_bytes(dtype) == 1)
    call(std::uint8_t{});
  else
    call(std::uint16_t{});
}

}  // namespace

Result<SelectedOnDevice> place_selected(DenseQuery& query, const BitMask& selected) {
  Segments segments;
  with_small_counts(query.volume().dtype(), [&]<class T>(T) { segments = segments_of<T>(selected); });
  const std::span<const std::byte> parts[] = {bytes_of(segments.index), bytes_of(segments.masks)};
  QUANTEM_TRY_ASSIGN(placed, query.place(query.n_positions() * 8, parts));
  return SelectedOnDevice{static_cast<const u32*>(placed.parts[0]), placed.parts[1],
                          static_cast<u32>(segments.index.size()), static_cast<u64*>(placed.results)};
}

Result<Done> launch_selected(DenseQuery& query, const SelectedOnDevice& s) {
  const u64 n = query.n_positions();
  with_small_counts(query.volume().dtype(), [&]<class T>(T) {
    sum_segments<T><<<ctas(n, kWarps * kPositionsPerWarp), kWarps * 32, 0, query.stream()>>>(
        query.counts<uint4>(), n, static_cast<u32>(query.frame_pixels() * sizeof(T) / 16), s.segments,
        static_cast<const uint4*>(s.masks), s.n_segments, s.image);
  });
  return query.context().check(cudaGetLastError(), "masked_sum");
}

bool has_com_kernel(const Volume& volume) {
  return (volume.dtype() == Dtype::u8 || volume.dtype() == Dtype::u16) &&
         volume.shape().det.cols * item_bytes(volume.dtype()) % 16 == 0;
}

Result<Done> launch_com(DenseQuery& query, u64* images) {
  const u64 n = query.n_positions();
  with_small_counts(query.volume().dtype(), [&]<class T>(T) {
    com_frames<T><<<ctas(n, kWarps), kWarps * 32, 0, query.stream()>>>(
        query.counts<uint4>(), n, static_cast<u32>(query.frame_pixels() * sizeof(T) / 16),
        static_cast<u32>(query.volume().shape().det.cols * sizeof(T) / 16), images);
  });
  return query.context().check(cudaGetLastError(), "moment_sums");
}

namespace {

template <class T>
Result<const u64*> selected_sums(DenseQuery& query, const BitMask& selected) {
  if constexpr (std::is_same_v<T, std::uint8_t> || std::is_same_v<T, std::uint16_t>) {
    if (query.has_segments()) {
      QUANTEM_TRY_ASSIGN(placed, place_selected(query, selected));
      QUANTEM_TRY(launch_selected(query, placed));
      QUANTEM_TRY_ASSIGN(pinned, query.copy_down(placed.image, query.n_positions() * 8));
      return static_cast<const u64*>(pinned);
    }
  }
  return listed_sums<T, 1, u64>(query, pixels_of(selected), {});
}

// total, row and column moments of whole frames, one after the other in pinned memory.
Result<const u64*> com_sums(DenseQuery& query) {
  const u64 n_bytes = 3 * query.n_positions() * 8;
  QUANTEM_TRY_ASSIGN(placed, query.place(n_bytes, {}));
  QUANTEM_TRY(launch_com(query, static_cast<u64*>(placed.results)));
  QUANTEM_TRY_ASSIGN(pinned, query.copy_down(placed.results, n_bytes));
  return static_cast<const u64*>(pinned);
}

// The total image, once a volume.
template <class T>
Result<const u64*> total_of(DenseQuery& query) {
  std::vector<u64>& total = query.session().total;
  if (total.empty()) {
    const u64* sums = nullptr;
    if (has_com_kernel(query.volume())) {
      QUANTEM_TRY_ASSIGN(moments, com_sums(query));
      sums = moments;
    } else {
      QUANTEM_TRY_ASSIGN(selected, selected_sums<T>(query, query.volume().valid_pixels()));
      sums = selected;
    }
    total.assign(sums, sums + query.n_positions());
  }
  return static_cast<const u64*>(total.data());
}

constexpr std::string_view kSelected = "cuda_rawkernel_selected",
                           kTotalMinusComplement = "cuda_rawkernel_total_minus_complement",
                           kBothWays = "cuda_rawkernel_selected, cuda_rawkernel_total_minus_complement";

// The sum over one mask; true where it was taken from the total.
template <class T>
Result<bool> masked_sum_into(DenseQuery& query, const BitMask& selected, std::span<u64> image) {
  const BitMask& valid = query.volume().valid_pixels();
  if (selected.none()) {
    std::fill(image.begin(), image.end(), 0);
    return false;
  }
  if (2 * selected.n_set() <= valid.n_set()) {
    QUANTEM_TRY_ASSIGN(sums, selected_sums<T>(query, selected));
    std::copy_n(sums, image.size(), image.begin());
    return false;
  }
  QUANTEM_TRY_ASSIGN(total, total_of<T>(query));
  std::copy_n(total, image.size(), image.begin());
  BitMask complement = ~selected;
  complement &= valid;
  if (complement.none()) return true;
  QUANTEM_TRY_ASSIGN(sums, selected_sums<T>(query, complement));
  for (std::size_t n = 0; n < image.size(); ++n) image[n] -= sums[n];
  return true;
}

// Calls call(T{}) with the volume's integer type.
template <class Call>
Result<Done> with_integers(const Volume& volume, const Call& call) {
  return visit_count_dtype(volume.dtype(), [&]<class T>() -> Result<Done> {
    if constexpr (std::is_floating_point_v<T>)
      return Error{Code::internal, "integer path on float counts"};
    else
      return call(T{});
  });
}

// Pixels that any set weighs, and every set's weights of them.
struct Terms {
  std::vector<u32> pixels;
  std::vector<i64> weights;
};
Terms terms_of(std::span<const std::span<const i64>> sets) {
  Terms terms;
  for (u64 p = 0; p < sets[0].size(); ++p)
    if (std::any_of(sets.begin(), sets.end(), [p](const auto& set) { return set[p] != 0; }))
      terms.pixels.push_back(static_cast<u32>(p));
  for (const auto& set : sets)
    for (const u32 p : terms.pixels) terms.weights.push_back(set[p]);
  return terms;
}

// Sums of weight sets, three to a pass while there are three.
template <class T, class Sum>
Result<Done> weighted_images(DenseQuery& query, std::span<const std::span<const i64>> sets,
                             std::span<const std::span<Sum>> images) {
  for (std::size_t first = 0; first < sets.size();) {
    const std::size_t k = sets.size() - first >= 3 ? 3 : 1;
    const Terms terms = terms_of(sets.subspan(first, k));
    const Sum* sums = nullptr;
    if (!terms.pixels.empty()) {
      if (k == 3) {
        QUANTEM_TRY_ASSIGN(three, (listed_sums<T, 3, Sum>(query, terms.pixels, terms.weights)));
        sums = three;
      } else {
        QUANTEM_TRY_ASSIGN(one, (listed_sums<T, 1, Sum>(query, terms.pixels, terms.weights)));
        sums = one;
      }
    }
    for (std::size_t s = 0; s < k; ++s) {
      const std::span<Sum> image = images[first + s];
      if (sums)
        std::copy_n(sums + s * image.size(), image.size(), image.begin());
      else
        std::fill(image.begin(), image.end(), Sum{0});
    }
    first += k;
  }
  return Done{};
}

}  // namespace

DetectorOps::Path masked_sums_dense_cuda(const Volume& volume, std::span<const BitMask> masks,
                                         std::span<const std::span<u64>> images, const Job& job) {
  QUANTEM_TRY_ASSIGN(query, DenseQuery::open(volume, job, "masked_sum"));
  const CurrentDevice current(query.context().device());
  bool selected = false, from_total = false;
  QUANTEM_TRY(with_integers(volume, [&]<class T>(T) -> Result<Done> {
    for (std::size_t m = 0; m < masks.size(); ++m) {
      QUANTEM_TRY_ASSIGN(total, masked_sum_into<T>(query, masks[m], images[m]));
      (total ? from_total : selected) = true;
    }
    return Done{};
  }));
  return selected && from_total ? kBothWays : from_total ? kTotalMinusComplement : kSelected;
}

DetectorOps::Path move_sum_dense_cuda(const Volume& volume, const BitMask& from, const BitMask& to,
                                      std::span<u64> image, const Job& job) {
  return moved_sum(masked_sums_dense_cuda, volume, from, to, image, job, "cuda_dense_moved_sum");
}

DetectorOps::Path weighted_sums_dense_cuda(const Volume& volume, std::span<const std::span<const i64>> weights,
                                           std::span<const std::span<u64>> images, const Job& job) {
  QUANTEM_TRY_ASSIGN(query, DenseQuery::open(volume, job, "weighted_sum"));
  const CurrentDevice current(query.context().device());
  QUANTEM_TRY(with_integers(volume, [&]<class T>(T) { return weighted_images<T, u64>(query, weights, images); }));
  return std::string_view("cuda_dense_weighted_sum");
}

DetectorOps::Path weighted_sums_real_dense_cuda(const Volume& volume, std::span<const std::span<const i64>> weights,
                                                std::span<const std::span<double>> images, const Job& job) {
  QUANTEM_TRY_ASSIGN(query, DenseQuery::open(volume, job, "weighted_sum"));
  const CurrentDevice current(query.context().device());
  QUANTEM_TRY((weighted_images<float, double>(query, weights, images)));
  return std::string_view("cuda_dense_real_sum");
}

DetectorOps::Path moment_sums_dense_cuda(const Volume& volume, const BitMask& selected, std::span<u64> total,
                                         std::span<u64> row, std::span<u64> col, const Job& job) {
  QUANTEM_TRY_ASSIGN(query, DenseQuery::open(volume, job, "moment_sums"));
  const CurrentDevice current(query.context().device());
  const std::span<u64> images[] = {total, row, col};
  if (selected == volume.valid_pixels() && has_com_kernel(volume)) {
    QUANTEM_TRY_ASSIGN(sums, com_sums(query));
    for (std::size_t s = 0; s < 3; ++s) std::copy_n(sums + s * total.size(), total.size(), images[s].begin());
    return std::string_view("cuda_rawkernel_com");
  }
  QUANTEM_TRY(with_integers(volume, [&]<class T>(T) -> Result<Done> {
    const u32 det_cols = volume.shape().det.cols;
    std::vector<i64> weights[3];
    for (auto& w : weights) w.resize(selected.count());
    for (u64 p = 0; p < selected.count(); ++p)
      if (selected[p]) {
        weights[0][p] = 1;
        weights[1][p] = static_cast<i64>(p / det_cols);
        weights[2][p] = static_cast<i64>(p % det_cols);
      }
    const std::span<const i64> sets[] = {weights[0], weights[1], weights[2]};
    return weighted_images<T, u64>(query, sets, images);
  }));
  return std::string_view("cuda_dense_listed_moments");
}

DetectorOps::Path sample_states_dense_cuda(const Volume& volume, const BitMask& selected,
                                           std::span<std::uint8_t> states, const Job& job) {
  QUANTEM_TRY_ASSIGN(query, DenseQuery::open(volume, job, "center_of_mass"));
  const CurrentDevice current(query.context().device());
  const std::vector<u32> pixels = pixels_of(selected);
  const std::span<const std::byte> parts[] = {bytes_of(pixels)};
  QUANTEM_TRY_ASSIGN(placed, query.place(states.size(), parts));
  const auto* list = pixels.empty() ? nullptr : static_cast<const u32*>(placed.parts[0]);
  QUANTEM_TRY(visit_count_dtype(volume.dtype(), [&]<class T>() -> Result<Done> {
    if constexpr (std::is_unsigned_v<T>)
      return Error{Code::internal, "sample states of unsigned counts"};
    else
      look_at_samples<T><<<ctas(states.size(), kWarps), kWarps * 32, 0, query.stream()>>>(
          query.counts<T>(), states.size(), query.frame_pixels(), list, static_cast<u32>(pixels.size()),
          static_cast<std::uint8_t*>(placed.results));
    return query.context().check(cudaGetLastError(), "center_of_mass");
  }));
  QUANTEM_TRY_ASSIGN(pinned, query.copy_down(placed.results, states.size()));
  std::copy_n(static_cast<const std::uint8_t*>(pinned), states.size(), states.begin());
  return std::string_view("cuda_dense_sample_states");
}

}  // namespace quantem::detector_detail
