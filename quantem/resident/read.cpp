#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "quantem/resident/read_cuda.h"
#include "quantem/resident/sliced_encode.h"
#include "quantem/resident/volume.h"
#include "quantem/runtime/thread_pool.h"

namespace quantem {
namespace {

Result<Done> check_present(const Volume& volume, const Region& scan, const ReadOptions& o) {
  if (o.fill || volume.valid_positions().all()) return Done{};
  const std::uint32_t cols = volume.shape().scan.cols;
  std::uint64_t n_missing = 0;
  Position first;
  for (std::uint32_t r = scan.row_start; r < scan.row_stop; ++r)
    for (std::uint32_t c = scan.col_start; c < scan.col_stop; ++c)
      if (!volume.valid_positions()[std::uint64_t{r} * cols + c] && n_missing++ == 0) first = {r, c};
  if (n_missing == 0) return Done{};
  return Error{Code::missing_data, "read: " + std::to_string(n_missing) + " of " +
                                       std::to_string(scan.extent().count()) + " positions in scan region " +
                                       to_string(scan) + " are missing, the first at " + to_string(first) +
                                       "; fill= gives them a value"};
}

template <class T>
Result<T> fill_value(const std::optional<double>& fill) {
  const double f = fill.value_or(0);
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(f);
  } else {
    if (!(f >= static_cast<double>(std::numeric_limits<T>::min()) &&
          f <= static_cast<double>(std::numeric_limits<T>::max())) ||
        f != std::floor(f))
      return Error{Code::invalid_argument,
                   "read: fill " + std::to_string(f) + " is not a value of " + std::string(dtype_name(dtype_of<T>()))};
    return static_cast<T>(f);
  }
}

// Which positions of one block the region takes, and the frame each becomes in the result.
struct Wanted {
  std::uint32_t in_block;
  std::uint64_t frame;
};
std::vector<Wanted> wanted_of_block(const Region& scan, std::uint32_t scan_cols, std::uint64_t block) {
  std::vector<Wanted> out;
  const std::uint64_t first = block * kBlockPositions, cols = scan.extent().cols;
  for (std::uint64_t r = std::max<std::uint64_t>(scan.row_start, first / scan_cols);
       r < scan.row_stop && r * scan_cols < first + kBlockPositions; ++r)
    for (std::uint64_t c = scan.col_start; c < scan.col_stop; ++c)
      if (const std::uint64_t n = r * scan_cols + c; n >= first && n < first + kBlockPositions)
        out.push_back({static_cast<std::uint32_t>(n - first), (r - scan.row_start) * cols + (c - scan.col_start)});
  return out;
}

// A few positions: each value by itself.
template <class T>
void read_positions(const SlicedLayout& layout, const SlicedBlock& block, const std::vector<Wanted>& wanted,
                    const Region& det, std::span<T> out) {
  const std::uint64_t frame_pixels = det.extent().count();
  std::uint64_t to = 0;
  for (std::uint32_t r = det.row_start; r < det.row_stop; ++r)
    for (std::uint32_t c = det.col_start; c < det.col_stop; ++c, ++to) {
      const std::uint32_t stream = layout.stream_of_pixel[std::uint64_t{r} * layout.det.cols + c];
      for (const Wanted& w : wanted)
        out[w.frame * frame_pixels + to] = static_cast<T>(decode_value(block, stream, w.in_block));
    }
}

// Many positions: an 8x8 tile's streams are decoded whole, then written as rows of up to 8 pixels, a frame at a time.
template <class T>
void read_tile(const SlicedLayout& layout, const SlicedBlock& block, const std::vector<Wanted>& wanted,
               const Region& tile, const Region& det, std::vector<T>& pixels, std::span<T> out) {
  std::array<std::uint64_t, kBlockPositions> values;
  T* to = pixels.data();
  for (std::uint32_t r = tile.row_start; r < tile.row_stop; ++r)
    for (std::uint32_t c = tile.col_start; c < tile.col_stop; ++c, to += kBlockPositions) {
      decode_stream(block, layout.stream_of_pixel[std::uint64_t{r} * layout.det.cols + c], values);
      std::transform(values.begin(), values.end(), to, [](std::uint64_t v) { return static_cast<T>(v); });
    }
  const std::uint64_t frame_pixels = det.extent().count(), det_cols = det.extent().cols, cols = tile.extent().cols;
  for (const Wanted& w : wanted) {
    const T* from = pixels.data() + w.in_block;
    for (std::uint32_t r = tile.row_start; r < tile.row_stop; ++r) {
      T* row = out.data() + w.frame * frame_pixels + (r - det.row_start) * det_cols + (tile.col_start - det.col_start);
      for (std::uint64_t x = 0; x < cols; ++x, from += kBlockPositions) row[x] = *from;
    }
  }
}

template <class T>
void read_block(const SlicedStorage& storage, std::uint64_t b, const Region& scan, std::uint32_t scan_cols,
                const Region& det, std::span<T> out) {
  const std::vector<Wanted> wanted = wanted_of_block(scan, scan_cols, b);
  if (wanted.empty()) return;
  const SlicedLayout& layout = storage.layout;
  if (wanted.size() <= 8) return read_positions<T>(layout, storage.blocks[b], wanted, det, out);
  std::vector<T> pixels(std::uint64_t{64} * kBlockPositions);
  for (std::uint32_t row = det.row_start / 8; row <= (det.row_stop - 1) / 8; ++row)
    for (std::uint32_t col = det.col_start / 8; col <= (det.col_stop - 1) / 8; ++col) {
      const Region whole_tile = layout.tile8_region(row * layout.tiles8.cols + col);
      const Region tile{std::max(whole_tile.row_start, det.row_start), std::min(whole_tile.row_stop, det.row_stop),
                        std::max(whole_tile.col_start, det.col_start), std::min(whole_tile.col_stop, det.col_stop)};
      read_tile<T>(layout, storage.blocks[b], wanted, tile, det, pixels, out);
    }
}

template <class T>
void read_dense(const DenseStorage& storage, const Shape4& shape, const Region& scan, const Region& det,
                std::span<T> out) {
  const std::span<const T> counts = storage.counts.as<T>();
  const std::uint64_t cols = det.extent().cols;
  std::uint64_t to = 0;
  for (std::uint32_t sr = scan.row_start; sr < scan.row_stop; ++sr)
    for (std::uint32_t sc = scan.col_start; sc < scan.col_stop; ++sc)
      for (std::uint32_t r = det.row_start; r < det.row_stop; ++r, to += cols) {
        const std::uint64_t n = std::uint64_t{sr} * shape.scan.cols + sc;
        const std::uint64_t from = n * shape.frame_pixels() + std::uint64_t{r} * shape.det.cols + det.col_start;
        std::memcpy(out.data() + to, counts.data() + from, cols * sizeof(T));
      }
}

template <class T>
void fill_missing(const Volume& volume, const Region& scan, const Region& det, T fill, std::span<T> out) {
  const std::uint64_t frame_pixels = det.extent().count();
  std::uint64_t frame = 0;
  for (std::uint32_t r = scan.row_start; r < scan.row_stop; ++r)
    for (std::uint32_t c = scan.col_start; c < scan.col_stop; ++c, ++frame)
      if (!volume.valid_positions()[std::uint64_t{r} * volume.shape().scan.cols + c])
        std::fill_n(out.begin() + static_cast<std::ptrdiff_t>(frame * frame_pixels), frame_pixels, fill);
}

template <class T>
Result<Done> read_into(const Volume& volume, const Region& scan, const Region& det, const ReadOptions& o,
                       std::span<T> out) {
  QUANTEM_TRY_ASSIGN(fill, fill_value<T>(o.fill));  // refused before anything is read
  if (const SlicedStorage* sliced = volume.sliced()) {
    if constexpr (std::is_unsigned_v<T>) {
      const std::uint32_t scan_cols = volume.shape().scan.cols;
      const std::uint64_t first = (std::uint64_t{scan.row_start} * scan_cols + scan.col_start) / kBlockPositions;
      const std::uint64_t last = (std::uint64_t{scan.row_stop - 1} * scan_cols + scan.col_stop - 1) / kBlockPositions;
      parallel_for(
          last - first + 1, [&](std::uint64_t i) { read_block<T>(*sliced, first + i, scan, scan_cols, det, out); },
          volume.device().options().threads);
    }
  } else if (volume.sliced_device()) {
    QUANTEM_TRY(read_sliced_cuda(volume, scan, det, std::as_writable_bytes(out)));
  } else if (volume.dense_device()) {
    QUANTEM_TRY(read_dense_cuda(volume, scan, det, std::as_writable_bytes(out)));
  } else {
    read_dense<T>(*volume.dense(), volume.shape(), scan, det, out);
  }
  if (o.fill) fill_missing<T>(volume, scan, det, fill, out);
  return Done{};
}

BitMask cropped(const BitMask& pixels, Extent extent, const Region& det) {
  BitMask out(det.extent().count());
  std::uint64_t i = 0;
  for (std::uint32_t r = det.row_start; r < det.row_stop; ++r)
    for (std::uint32_t c = det.col_start; c < det.col_stop; ++c, ++i)
      out.set(i, pixels[std::uint64_t{r} * extent.cols + c]);
  return out;
}

}  // namespace

Result<HostArray> read(const Volume& volume, const Region& scan, const Region& det, const ReadOptions& options) {
  QUANTEM_TRY(volume.check_open());
  const Shape4& shape = volume.shape();
  QUANTEM_TRY(check_region(scan, shape.scan, "read: scan"));
  QUANTEM_TRY(check_region(det, shape.det, "read: det"));
  const Extent s = scan.extent(), d = det.extent();
  const std::uint64_t n_bytes = s.count() * d.count() * item_bytes(volume.dtype());
  if (n_bytes > options.limit_bytes)
    return Error{Code::out_of_memory, "read: " + to_string(Shape4{s, d}) + " " +
                                          std::string(dtype_name(volume.dtype())) + " is " + std::to_string(n_bytes) +
                                          " bytes, the limit is " + std::to_string(options.limit_bytes) +
                                          "; read a smaller region or raise limit_bytes"};
  QUANTEM_TRY(check_present(volume, scan, options));
  HostArray out;
  out.dtype = volume.dtype();
  out.shape = {s.rows, s.cols, d.rows, d.cols};
  QUANTEM_TRY_ASSIGN(memory, allocate_buffer(n_bytes, "read"));
  out.buffer = std::move(memory);
  QUANTEM_TRY(visit_count_dtype(volume.dtype(),
                                [&]<class T>() { return read_into<T>(volume, scan, det, options, out.as<T>()); }));
  out.valid_pixels = cropped(volume.valid_pixels(), shape.det, det);
  out.provenance = volume.provenance();
  out.provenance.operation = "read";
  out.provenance.path = volume.sliced_device()  ? "cuda_sliced_read"
                        : volume.dense_device() ? "cuda_dense_read"
                        : volume.sliced()       ? "cpu_read_sliced"
                                                : "cpu_read_dense";
  out.provenance.output_shape = to_string(Shape4{s, d});
  out.provenance.output_dtype = dtype_name(volume.dtype());
  const auto bounds = [](const Region& r) {
    return std::vector<double>{double(r.row_start), double(r.row_stop), double(r.col_start), double(r.col_stop)};
  };
  out.provenance.parameters = {{"scan", bounds(scan)}, {"det", bounds(det)}};
  if (!(scan == whole(shape.scan)) || !(det == whole(shape.det))) out.provenance.add_evidence("cropped");
  if (options.fill) out.provenance.parameters.emplace_back("fill", *options.fill);
  return out;
}

}  // namespace quantem
