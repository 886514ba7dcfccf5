// Reads regions of a bit-sliced volume to dense counts, a few scan rows at a time through pinned memory.

#include <algorithm>
#include <cstring>

#include "quantem/resident/read_cuda.h"
#include "quantem/resident/sliced_device.cuh"
#include "quantem/runtime/current_device.cuh"
#include "quantem/runtime/thread_pool.h"

namespace quantem {
namespace {

using bits::u32;
using bits::u64;

constexpr u64 kStagingBytes = u64{64} << 20;
constexpr u32 kWarps = 4;

struct ReadWork {
  SlicedDeviceView volume;
  u32 scan_cols, scan_row, scan_col, rows, cols;  // of the whole scan; of the region
  u32 words_of_row;                               // words of 32 flat positions that a row of the region can touch
  u32 n_pixels;                                   // of the detector region
  const u32* stream_of_pixel;                     // of the detector region, C order
};

// A warp takes one word of 32 flat positions and 32 pixels of the region, a pixel a lane: planes are pushed in from the top, listed bits
// go through shared memory, each lane its own column. Writes 32 neighbouring pixels of a frame at a time.
template <class T>
__global__ void __launch_bounds__(kWarps * 32) read_region(const __grid_constant__ ReadWork work, T* out) {
  __shared__ u32 extra[kWarps][32][32];
  const u32 lane = threadIdx.x % 32;
  u32(&mine)[32][32] = extra[threadIdx.x / 32];
  const u32 pixel = (blockIdx.x * kWarps + threadIdx.x / 32) * 32 + lane, i_pixel = min(pixel, work.n_pixels - 1);
  const u32 row = blockIdx.y / work.words_of_row;
  const u64 row_start = u64{work.scan_row + row} * work.scan_cols + work.scan_col, row_stop = row_start + work.cols;
  const u64 first = (row_start / 32 + blockIdx.y % work.words_of_row) * 32;  // flat position of the word's bit 0
  if (first >= row_stop) return;                                             // the same in the whole CTA
  const auto block = static_cast<u32>(first / kBlockPositions), word = static_cast<u32>(first % kBlockPositions / 32);
  const u32 stream = __ldg(work.stream_of_pixel + i_pixel);
  const u32 entry = sliced::entry_of(work.volume, block, stream), width = entry & 63;
  const sliced::ListSpan span = sliced::listed(work.volume, block, stream, stream);
  const uint4* lists = sliced::lists_of(work.volume, block);
#pragma unroll
  for (int j = 0; j < 32; ++j) mine[j][lane] = 0;
  for (int c = span.first_chunk(); c * 8 < span.end; ++c)
    sliced::for_each_bit(__ldg(lists + c), sliced::inside(span, c), [&](u32 position_times_4, u32 plane) {
      if (position_times_4 / 128 == word) mine[position_times_4 / 4 % 32][lane] |= 1u << plane;
    });
  const char* p = sliced::words_of(work.volume, block, word) + (entry & ~63u);
  u32 value[32] = {};
  for (int k = static_cast<int>(__reduce_max_sync(~0u, width)) - 1; k >= 0; --k) {
    const u32 x = k < static_cast<int>(width) ? __ldg(reinterpret_cast<const u32*>(p + k * kPlaneBytes)) : 0;
#pragma unroll
    for (int j = 0; j < 32; ++j) value[j] = __funnelshift_l(x << (31 - j), value[j], 1);
  }
  if (pixel >= work.n_pixels) return;
#pragma unroll
  for (int j = 0; j < 32; ++j) {
    const u64 position = first + j;
    if (position >= row_start && position < row_stop)
      out[(u64{row} * work.cols + (position - row_start)) * work.n_pixels + pixel] =
          static_cast<T>(value[j] | mine[j][lane]);
  }
}

template <class T>
Result<Done> read_rows(CudaContext& context, ReadWork work, const Region& scan, const Region& det,
                       const SlicedDevice& device, std::span<std::byte> out) {
  const auto stream = reinterpret_cast<cudaStream_t>(context.query_stream());
  const Extent s = scan.extent(), d = det.extent();
  work.cols = s.cols;
  work.words_of_row = (s.cols + 31) / 32 + 1;
  work.n_pixels = static_cast<u32>(d.count());
  if (work.words_of_row > 65535)
    return Error{Code::unsupported, "read: a scan row of more than 2e6 positions on a CUDA device"};
  const u64 row_bytes = u64{s.cols} * d.count() * sizeof(T), order_bytes = (d.count() * 4 + 255) / 256 * 256;
  const u64 n_rows = std::clamp<u64>(kStagingBytes / row_bytes, 1, std::min<u64>(s.rows, 65535 / work.words_of_row));
  QUANTEM_TRY_ASSIGN(area, context.work_area(order_bytes + n_rows * row_bytes));
  QUANTEM_TRY_ASSIGN(order, context.pinned_upload(order_bytes));
  for (u32 r = det.row_start, i = 0; r < det.row_stop; ++r)
    for (u32 c = det.col_start; c < det.col_stop; ++c, ++i)
      static_cast<u32*>(order)[i] = device.layout.stream_of_pixel[u64{r} * device.layout.det.cols + c];
  QUANTEM_TRY(context.check(cudaMemcpyAsync(area, order, d.count() * 4, cudaMemcpyHostToDevice, stream), "read"));
  work.stream_of_pixel = static_cast<const u32*>(area);
  T* counts = reinterpret_cast<T*>(static_cast<char*>(area) + order_bytes);
  for (u64 row = 0; row < s.rows; row += n_rows) {
    const u64 n_here = std::min<u64>(n_rows, s.rows - row), n_bytes = n_here * row_bytes;
    work.scan_row = scan.row_start + static_cast<u32>(row);
    work.rows = static_cast<u32>(n_here);
    const dim3 grid((work.n_pixels + kWarps * 32 - 1) / (kWarps * 32), work.rows * work.words_of_row);
    read_region<T><<<grid, kWarps * 32, 0, stream>>>(work, counts);
    QUANTEM_TRY(context.check(cudaGetLastError(), "read"));
    QUANTEM_TRY_ASSIGN(pinned, context.pinned_result(n_bytes));
    QUANTEM_TRY(context.check(cudaMemcpyAsync(pinned, counts, n_bytes, cudaMemcpyDeviceToHost, stream), "read"));
    QUANTEM_TRY(context.synchronize("read"));
    constexpr u64 kPart = u64{1} << 20;
    std::byte* to = out.data() + row * row_bytes;
    parallel_for((n_bytes + kPart - 1) / kPart, [&](u64 i) {
      std::memcpy(to + i * kPart, static_cast<const std::byte*>(pinned) + i * kPart,
                  std::min(kPart, n_bytes - i * kPart));
    });
  }
  return Done{};
}

}  // namespace

Result<Done> read_sliced_cuda(const Volume& volume, const Region& scan, const Region& det, std::span<std::byte> out) {
  QUANTEM_TRY_ASSIGN(context, CudaContext::of(volume.device()));
  const auto lock = context->query_lock();
  const CurrentDevice current(context->device());
  const SlicedDevice& device = *volume.sliced_device();
  ReadWork work{};
  work.volume = device.view;
  work.scan_cols = volume.shape().scan.cols;
  work.scan_col = scan.col_start;
  switch (item_bytes(volume.dtype())) {
    case 1:
      return read_rows<std::uint8_t>(*context, work, scan, det, device, out);
    case 2:
      return read_rows<std::uint16_t>(*context, work, scan, det, device, out);
    default:
      return read_rows<std::uint32_t>(*context, work, scan, det, device, out);
  }
}

}  // namespace quantem
