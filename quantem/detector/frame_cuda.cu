// Single frames and statistics of all frames, from bit-sliced storage on a CUDA device.

#include <algorithm>
#include <cstring>

#include "quantem/detector/sliced_query_cuda.h"
#include "quantem/resident/sliced_device.cuh"
#include "quantem/runtime/current_device.cuh"

namespace quantem::detector_detail {
namespace {

using bits::u32;
using bits::u64;
using sliced::kWords;

// A thread a pixel stream: one bit of each plane, and the listed bits of its position, whose first two chunks are on their way
// meanwhile.
template <class T>
__global__ void __launch_bounds__(128) one_frame(const __grid_constant__ SlicedDeviceView volume, u64 position,
                                                 const u32* pixel_of_stream, u32 n_pixels, T* frame) {
  const u32 stream = blockIdx.x * 128 + threadIdx.x;
  if (stream >= n_pixels) return;
  const auto block = static_cast<u32>(position / kBlockPositions),
             in_block = static_cast<u32>(position % kBlockPositions);
  const u32 entry = sliced::entry_of(volume, block, stream);
  const uint4* lists = sliced::lists_of(volume, block);
  const sliced::ListSpan span = sliced::listed(volume, block, stream, stream);
  const u32 pixel = __ldg(pixel_of_stream + stream);
  uint4 chunk[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) chunk[i] = sliced::load_chunk(lists, span.first_chunk() + i, i < span.n_chunks());
  const char* words = sliced::words_of(volume, block, in_block / 32) + (entry & ~63u);
  u32 value = 0;
#pragma unroll 4
  for (u32 k = 0; k < (entry & 63); ++k)
    value |= (__ldg(reinterpret_cast<const u32*>(words + k * kPlaneBytes)) >> in_block % 32 & 1) << k;
  const auto look = [&](u32 position_times_4, u32 plane) {
    if (position_times_4 == in_block * 4) value |= 1u << plane;
  };
#pragma unroll
  for (int i = 0; i < 2; ++i) sliced::for_each_bit(chunk[i], sliced::inside(span, span.first_chunk() + i), look);
  for (int i = 2; i < span.n_chunks(); ++i)
    sliced::for_each_bit(sliced::load_chunk(lists, span.first_chunk() + i, true),
                         sliced::inside(span, span.first_chunk() + i), look);
  frame[pixel] = static_cast<T>(value);
}

struct StatisticsOut {
  u64* total;
  u32 *max, *argmax, *n_nonzero, *n_saturated;
};

// A CTA a block, a thread a position, 32 streams a turn: their listed bits are put into shared memory by all threads, then every
// thread reads its own bit of their planes (a warp shares the word). Pixels come in stream order; of equal maxima the lowest pixel stays.
constexpr u32 kTurn = 16;
__global__ void __launch_bounds__(kBlockPositions)
    frame_totals(const __grid_constant__ SlicedDeviceView volume, const u32* pixel_of_stream, u32 n_pixels,
                 u32 first_valid, u32 saturation, bool saturates, const StatisticsOut out) {
  __shared__ u32 listed_value[kTurn][kBlockPositions];
  __shared__ u32 entries[kTurn], pixels[kTurn];
  const u32 thread = threadIdx.x, block = blockIdx.x, warp = thread / 32, lane = thread % 32;
  const char* words = sliced::words_of(volume, block, thread / 32);
  const auto* lists = reinterpret_cast<const bits::u16*>(sliced::lists_of(volume, block));
  u64 total = 0;
  u32 best = 0, best_pixel = first_valid, n_nonzero = 0, n_saturated = 0;
  for (u32 first = 0; first < n_pixels; first += kTurn) {
    const u32 n = min(kTurn, n_pixels - first);
    for (u32 s = 0; s < n; ++s) listed_value[s][thread] = 0;
    if (thread < n) {
      entries[thread] = sliced::entry_of(volume, block, first + thread);
      pixels[thread] = __ldg(pixel_of_stream + first + thread);
    }
    __syncthreads();
    if (warp < n) {
      const sliced::ListSpan span = sliced::listed(volume, block, first + warp, first + warp);
      for (int e = span.begin + static_cast<int>(lane); e < span.end; e += 32) {
        const u32 bit = __ldg(lists + e);
        atomicOr(&listed_value[warp][bit >> 2 & 511], 1u << (bit >> 11));
      }
    }
    __syncthreads();
    for (u32 s = 0; s < n; ++s) {
      const u32 entry = entries[s], pixel = pixels[s];
      const char* p = words + (entry & ~63u);
      u32 value = listed_value[s][thread];
      for (u32 k = 0; k < (entry & 63); ++k)
        value |= (__ldg(reinterpret_cast<const u32*>(p + k * kPlaneBytes)) >> lane & 1) << k;
      total += value;
      n_nonzero += value != 0;
      n_saturated += saturates && value >= saturation;
      if (value > best || (value == best && value != 0 && pixel < best_pixel)) best = value, best_pixel = pixel;
    }
    __syncthreads();
  }
  const u64 position = u64{block} * kBlockPositions + thread;  // outputs are padded to whole blocks
  out.total[position] = total, out.max[position] = best, out.argmax[position] = best_pixel;
  out.n_nonzero[position] = n_nonzero, out.n_saturated[position] = n_saturated;
}
static_assert(kTurn == kBlockPositions / 32, "a warp a list");

template <class T>
void start_frame(SlicedQuery& query, u64 position, void* frame) {
  const SlicedDevice& device = query.device();
  const u32 n_pixels = device.layout.n_pixels;
  one_frame<T><<<(n_pixels + 127) / 128, 128, 0, query.stream()>>>(
      device.view, position, device.pixel_of_stream.as<u32>(), n_pixels, static_cast<T*>(frame));
}

}  // namespace

Result<Done> launch_frame(SlicedQuery& query, std::uint64_t position, void* frame) {
  switch (item_bytes(query.volume().dtype())) {
    case 1:
      start_frame<std::uint8_t>(query, position, frame);
      break;
    case 2:
      start_frame<std::uint16_t>(query, position, frame);
      break;
    default:
      start_frame<std::uint32_t>(query, position, frame);
  }
  return query.context().check(cudaGetLastError(), "frame");
}

DetectorOps::Path frame_cuda(const Volume& volume, std::uint64_t position, std::span<std::byte> out) {
  QUANTEM_TRY_ASSIGN(query, SlicedQuery::open(volume, Job{}, "frame"));
  const CurrentDevice current(query.context().device());
  QUANTEM_TRY_ASSIGN(area, query.context().work_area(out.size()));
  QUANTEM_TRY(launch_frame(query, position, area));
  QUANTEM_TRY_ASSIGN(pinned, query.copy_down(area, out.size()));
  std::memcpy(out.data(), pinned, out.size());
  return std::string_view("cuda_sliced_frame");
}

DetectorOps::Path frame_statistics_cuda(const Volume& volume, std::uint64_t saturation, FrameStatistics& out,
                                        const Job& job) {
  QUANTEM_TRY_ASSIGN(query, SlicedQuery::open(volume, job, "frame_statistics"));
  const CurrentDevice current(query.context().device());
  const SlicedDevice& device = query.device();
  const u64 padded = u64{device.view.n_blocks} * kBlockPositions, n_bytes = padded * 24;
  QUANTEM_TRY_ASSIGN(area, query.context().work_area(n_bytes));
  const auto split = [padded](void* base) {
    auto* total = static_cast<u64*>(base);
    auto* words = reinterpret_cast<u32*>(total + padded);
    return StatisticsOut{total, words, words + padded, words + 2 * padded, words + 3 * padded};
  };
  const std::uint64_t found = (~volume.valid_pixels()).first_unset();  // the first valid pixel
  const auto first_valid = static_cast<u32>(found < device.layout.n_pixels ? found : 0);
  frame_totals<<<device.view.n_blocks, kBlockPositions, 0, query.stream()>>>(
      device.view, device.pixel_of_stream.as<u32>(), device.layout.n_pixels, first_valid, static_cast<u32>(saturation),
      saturation <= 0xffffffffu, split(area));
  QUANTEM_TRY(query.context().check(cudaGetLastError(), "frame_statistics"));
  QUANTEM_TRY_ASSIGN(pinned, query.copy_down(area, n_bytes));
  const StatisticsOut got = split(const_cast<void*>(pinned));
  for (u64 i = 0; i < device.n_positions; ++i) {
    if (!volume.valid_positions()[i]) continue;  // stays 0
    out.total[i] = got.total[i];
    out.max[i] = got.max[i];
    out.argmax[i] = got.argmax[i];
    out.n_nonzero[i] = got.n_nonzero[i];
    out.n_saturated[i] = got.n_saturated[i];
  }
  return std::string_view("cuda_sliced_frame_statistics");
}

}  // namespace quantem::detector_detail
