#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>

#include "quantem/io/atomic_file.h"
#include "quantem/io/npy.h"
#include "quantem/io/save.h"
#include "quantem/runtime/thread_pool.h"

namespace quantem {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

Result<SaveReport> write_npy(const std::filesystem::path& path, const Shape4& shape, Dtype dtype,
                             const FrameProvider& frames, bool overwrite, const Job& job) {
  const auto frame_bytes = checked_multiply(shape.frame_pixels(), item_bytes(dtype));
  const auto data_bytes = frame_bytes ? checked_multiply(*frame_bytes, shape.n_positions()) : std::nullopt;
  if (!data_bytes || *data_bytes == 0 || *data_bytes > ~std::uint64_t{0} >> 2 || shape.frame_pixels() > kMaxFramePixels)
    return Error{Code::invalid_argument, "write_npy: shape " + to_string(shape) + " cannot be written"};
  QUANTEM_TRY_ASSIGN(file, AtomicFile::create(path, overwrite));
  const std::uint64_t dims[] = {shape.scan.rows, shape.scan.cols, shape.det.rows, shape.det.cols};
  const std::string header = npy_header(dtype, dims);
  QUANTEM_TRY(file.write_at(0, bytes_of(header)));

  // Runs of frames of about 1 MiB, each written with one call.
  const std::uint64_t run = std::max<std::uint64_t>(1, (std::uint64_t{1} << 20) / *frame_bytes);
  const std::uint64_t n_runs = (shape.n_positions() + run - 1) / run;
  ProgressMeter meter(job, "write", shape.n_positions(), "frames");
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::optional<Error> first_error;
  parallel_for(n_runs, [&](std::uint64_t r) {
    if (failed.load(std::memory_order_relaxed) || meter.cancelled()) return;
    const std::uint64_t first = r * run, n = std::min(run, shape.n_positions() - first);
    const auto write_run = [&]() -> Result<Done> {
      QUANTEM_TRY_ASSIGN(buffer, allocate_buffer(n * *frame_bytes, "write_npy"));
      const std::span<std::byte> all(buffer.data(), static_cast<std::size_t>(n * *frame_bytes));
      for (std::uint64_t i = 0; i < n; ++i)
        QUANTEM_TRY(frames(first + i, all.subspan(static_cast<std::size_t>(i * *frame_bytes),
                                                  static_cast<std::size_t>(*frame_bytes))));
      return file.write_at(header.size() + first * *frame_bytes, all);
    };
    if (auto written = write_run(); !written) {
      const std::lock_guard lock(mutex);
      if (!first_error) first_error = written.take_error();
      failed = true;
    } else {
      meter.add(n);
    }
  });
  if (first_error) return *std::move(first_error);
  if (meter.cancelled()) return meter.cancelled_error("write_npy");
  QUANTEM_TRY(file.publish());
  meter.finish();
  return SaveReport{{path}, shape.n_positions(), *data_bytes, header.size() + *data_bytes};
}

Result<Done> write_npy(const std::filesystem::path& path, const ArrayView& array, bool overwrite) {
  std::uint64_t bytes = item_bytes(array.dtype);
  for (const std::uint64_t n : array.shape) {
    const auto product = checked_multiply(bytes, n);
    if (!product) return Error{Code::invalid_argument, "write_npy: the shape passes 2^64 bytes"};
    bytes = *product;
  }
  if (bytes != 0 && !array.data) return Error{Code::invalid_argument, "write_npy: no data"};
  QUANTEM_TRY_ASSIGN(file, AtomicFile::create(path, overwrite));
  const std::string header = npy_header(array.dtype, array.shape);
  QUANTEM_TRY(file.write_at(0, bytes_of(header)));
  if (bytes != 0)
    QUANTEM_TRY(
        file.write_at(header.size(), {static_cast<const std::byte*>(array.data), static_cast<std::size_t>(bytes)}));
  return file.publish();
}

}  // namespace quantem
