// Reads regions of a volume on the device to dense counts, a few scan rows at a time through pinned memory, and whole encoded volumes to
// dense ones that stay there.

#include <algorithm>

#include "quantem/resident/dense_device.h"
#include "quantem/resident/device_image.h"
#include "quantem/resident/read_cuda.h"
#include "quantem/resident/sliced_device.cuh"
#include "quantem/runtime/current_device.cuh"

namespace quantem {
namespace {

using bits::u32;
using bits::u64;

constexpr u64 kStagingBytes = u64{64} << 20;
constexpr u32 kWarps = 4, kMostGridY = 65535;

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

// A CTA a position of the region, its threads over the pixels.
template <class T>
__global__ void __launch_bounds__(256)
    copy_region(const T* counts, Region scan, Region det, u32 scan_cols, Extent detector, u64 first, T* out) {
  const u32 cols = scan.col_stop - scan.col_start, width = det.col_stop - det.col_start,
            n_pixels = (det.row_stop - det.row_start) * width;
  const u64 i = first + blockIdx.x, position = (scan.row_start + i / cols) * scan_cols + scan.col_start + i % cols;
  const T* frame = counts + position * detector.rows * detector.cols;
  for (u32 p = threadIdx.x; p < n_pixels; p += 256)
    out[u64{blockIdx.x} * n_pixels + p] =
        frame[u64{det.row_start + p / width} * detector.cols + det.col_start + p % width];
}

// Rows of the region, some at a time: `fill(first row, rows, counts on the device)` makes them, then they come down to `out`.
template <class Fill>
Result<Done> bring_rows_down(CudaContext& context, u64 n_rows, u64 rows_at_once, u64 row_bytes, char* counts,
                             std::span<std::byte> out, const Fill& fill) {
  for (u64 row = 0; row < n_rows; row += rows_at_once) {
    const u64 n_here = std::min(rows_at_once, n_rows - row);
    fill(static_cast<u32>(row), static_cast<u32>(n_here), counts);
    QUANTEM_TRY(context.check(cudaGetLastError(), "read"));
    QUANTEM_TRY(bring_down(context, out.data() + row * row_bytes, counts, n_here * row_bytes));
  }
  return Done{};
}

Error too_wide(const char* what) {
  return Error{Code::unsupported, std::string(what) + ": a scan row of more than 2e6 positions on a CUDA device"};
}

// Queues the counts of n_rows rows of the region, from `row` of it on.
template <class T>
void launch_read(ReadWork work, const Region& scan, u32 row, u32 n_rows, T* counts, cudaStream_t stream) {
  work.scan_row = scan.row_start + row;
  work.rows = n_rows;
  const dim3 grid((work.n_pixels + kWarps * 32 - 1) / (kWarps * 32), work.rows * work.words_of_row);
  read_region<T><<<grid, kWarps * 32, 0, stream>>>(work, counts);
}

ReadWork work_of(const SlicedDevice& device, const Region& scan, u32 scan_cols, u32 n_pixels) {
  ReadWork work{};
  work.volume = device.view;
  work.scan_cols = scan_cols;
  work.scan_col = scan.col_start;
  work.cols = scan.extent().cols;
  work.words_of_row = (work.cols + 31) / 32 + 1;
  work.n_pixels = n_pixels;
  return work;
}

template <class T>
Result<Done> read_rows(CudaContext& context, const Volume& volume, const Region& scan, const Region& det,
                       std::span<std::byte> out) {
  const SlicedDevice& device = *volume.sliced_device();
  const auto stream = reinterpret_cast<cudaStream_t>(context.query_stream());
  const Extent s = scan.extent(), d = det.extent();
  ReadWork work = work_of(device, scan, volume.shape().scan.cols, static_cast<u32>(d.count()));
  if (work.words_of_row > kMostGridY) return too_wide("read");
  const u64 row_bytes = u64{s.cols} * d.count() * sizeof(T), order_bytes = (d.count() * 4 + 255) / 256 * 256;
  const u64 n_rows =
      std::clamp<u64>(kStagingBytes / row_bytes, 1, std::min<u64>(s.rows, kMostGridY / work.words_of_row));
  QUANTEM_TRY_ASSIGN(area, context.work_area(order_bytes + n_rows * row_bytes));
  QUANTEM_TRY_ASSIGN(order, context.pinned_upload(order_bytes));
  for (u32 r = det.row_start, i = 0; r < det.row_stop; ++r)
    for (u32 c = det.col_start; c < det.col_stop; ++c, ++i)
      static_cast<u32*>(order)[i] = device.layout.stream_of_pixel[u64{r} * device.layout.det.cols + c];
  QUANTEM_TRY(context.check(cudaMemcpyAsync(area, order, d.count() * 4, cudaMemcpyHostToDevice, stream), "read"));
  work.stream_of_pixel = static_cast<const u32*>(area);
  return bring_rows_down(
      context, s.rows, n_rows, row_bytes, static_cast<char*>(area) + order_bytes, out,
      [&](u32 row, u32 n, char* to) { launch_read<T>(work, scan, row, n, reinterpret_cast<T*>(to), stream); });
}

template <class T>
Result<Done> copy_rows(CudaContext& context, const Volume& volume, const Region& scan, const Region& det,
                       std::span<std::byte> out) {
  const auto stream = reinterpret_cast<cudaStream_t>(context.query_stream());
  const Extent s = scan.extent();
  const u64 row_bytes = u64{s.cols} * det.extent().count() * sizeof(T);
  const u64 n_rows = std::clamp<u64>(kStagingBytes / row_bytes, 1, s.rows);
  QUANTEM_TRY_ASSIGN(area, context.work_area(n_rows * row_bytes));
  const T* counts = volume.dense_device()->counts.as<T>();
  return bring_rows_down(
      context, s.rows, n_rows, row_bytes, static_cast<char*>(area), out, [&](u32 row, u32 n, char* to) {
        copy_region<T><<<n * s.cols, 256, 0, stream>>>(counts, scan, det, volume.shape().scan.cols, volume.shape().det,
                                                       u64{row} * s.cols, reinterpret_cast<T*>(to));
      });
}

template <class T>
Result<Done> expand_rows(CudaContext& context, const SlicedDevice& sliced, const Shape4& shape, T* counts) {
  const auto stream = reinterpret_cast<cudaStream_t>(context.query_stream());
  const Region scan = whole(shape.scan);
  ReadWork work = work_of(sliced, scan, shape.scan.cols, static_cast<u32>(shape.frame_pixels()));
  if (work.words_of_row > kMostGridY) return too_wide("dense volume");
  QUANTEM_TRY_ASSIGN(area, context.work_area(shape.frame_pixels() * 4));
  QUANTEM_TRY(context.copy_up(area, sliced.layout.stream_of_pixel.data(), shape.frame_pixels() * 4));
  work.stream_of_pixel = static_cast<const u32*>(area);
  const u32 rows_at_once = kMostGridY / work.words_of_row;
  for (u32 row = 0; row < shape.scan.rows; row += rows_at_once) {
    T* to = counts + u64{row} * shape.scan.cols * shape.frame_pixels();
    launch_read<T>(work, scan, row, std::min(rows_at_once, shape.scan.rows - row), to, stream);
    QUANTEM_TRY(context.check(cudaGetLastError(), "dense volume"));
  }
  return context.synchronize("dense volume");
}

// Calls call(T{}) with the unsigned type of so many bytes: reads move bits, whatever they mean.
template <class Call>
Result<Done> with_words(Dtype dtype, const Call& call) {
  switch (item_bytes(dtype)) {
    case 1:
      return call(std::uint8_t{});
    case 2:
      return call(std::uint16_t{});
    default:
      return call(std::uint32_t{});
  }
}

}  // namespace

Result<Done> read_sliced_cuda(const Volume& volume, const Region& scan, const Region& det, std::span<std::byte> out) {
  QUANTEM_TRY_ASSIGN(context, CudaContext::of(volume.device()));
  const auto lock = context->query_lock();
  const CurrentDevice current(context->device());
  return with_words(volume.dtype(), [&]<class T>(T) { return read_rows<T>(*context, volume, scan, det, out); });
}

Result<Done> read_dense_cuda(const Volume& volume, const Region& scan, const Region& det, std::span<std::byte> out) {
  QUANTEM_TRY_ASSIGN(context, CudaContext::of(volume.device()));
  const auto lock = context->query_lock();
  const CurrentDevice current(context->device());
  return with_words(volume.dtype(), [&]<class T>(T) { return copy_rows<T>(*context, volume, scan, det, out); });
}

Result<std::shared_ptr<const DenseDevice>> expand_sliced(CudaContext& context, const SlicedDevice& sliced,
                                                         const Shape4& shape, Dtype dtype) {
  const auto lock = context.query_lock();
  const CurrentDevice current(context.device());
  auto device = std::make_shared<DenseDevice>();
  QUANTEM_TRY_ASSIGN(memory, context.allocate(shape.n_values() * item_bytes(dtype), "dense volume"));
  device->counts = std::move(memory);
  QUANTEM_TRY(with_words(
      dtype, [&]<class T>(T) { return expand_rows<T>(context, sliced, shape, device->counts.template as<T>()); }));
  return Result<std::shared_ptr<const DenseDevice>>(std::move(device));
}

}  // namespace quantem
