#pragma once
// A map of f32 values that lies in the memory of a CUDA device: what an operation leaves there, so that the next one (a window, colours, a
// transform) need not bring it to the host and back.
//   values  f32  (extent.rows, extent.cols), C order, device memory
//   about        extent, unit, `valid` and provenance, on the host, as an Image has them
// An element without a value (cleared in `valid`) holds the quiet NaN 0x7FC00000, so kernels need no `valid`.
//
// A DeviceImage is a cheap handle and immutable. Its memory goes with the last handle; up to 64 MiB a device are kept for the images that
// come next, because allocating takes longer than most queries.
// Order: operations are queued on the device's query stream and do not wait; what brings numbers to the host does. Before anything
// outside that stream reads data(), call finish(). A fault of the device shows at the next call that waits.

#include <memory>
#include <utility>

#include "quantem/core/array.h"
#include "quantem/core/result.h"
#include "quantem/runtime/cuda_context.h"
#include "quantem/runtime/device.h"

namespace quantem {

class DeviceImage {
 public:
  // For operations: `about` has no values; `values` has about.extent.count() floats, written or being written on the query stream.
  DeviceImage(Image<float> about, Device device, std::shared_ptr<const DeviceMemory> values)
      : about_(std::make_shared<const Image<float>>(std::move(about))),
        device_(std::move(device)),
        values_(std::move(values)) {}

  [[nodiscard]] const Image<float>& about() const { return *about_; }  // with no values
  [[nodiscard]] Extent extent() const { return about_->extent; }
  [[nodiscard]] const std::string& unit() const { return about_->unit; }
  [[nodiscard]] const BitMask& valid() const { return about_->valid; }  // empty: every element has a value
  [[nodiscard]] const Provenance& provenance() const { return about_->provenance; }
  [[nodiscard]] const Device& device() const { return device_; }
  [[nodiscard]] const float* data() const { return values_->as<float>(); }  // device memory

 private:
  std::shared_ptr<const Image<float>> about_;
  Device device_;
  std::shared_ptr<const DeviceMemory> values_;
};

// A copy on the device; what `valid` clears becomes NaN there. Extent, unit, valid and provenance are kept.
// Errors: invalid_argument for a CPU device, an empty image, or values or valid bits that disagree with the extent; out_of_memory; device.
Result<DeviceImage> to_device(const Device& device, const Grid<float>& image);
// The same bits on the host. Waits.
Result<Image<float>> to_host(const DeviceImage& image);
// Waits until the values are there.
Result<Done> finish(const DeviceImage& image);

// --- for operations that make or read images ---------------------------------------------------------------------------------------
// Device memory for n_bytes, uninitialised, to be written on the query stream only: it may be memory that work queued there still reads.
Result<std::shared_ptr<DeviceMemory>> image_memory(CudaContext& context, std::uint64_t n_bytes);
// NaN where a bit is cleared; `valid` is device memory, bit i of word i / 32. Queued; the query lock is held.
Result<Done> mark_missing_on_device(CudaContext& context, float* values, const std::uint32_t* valid, std::uint64_t n);
// Between pageable host memory and the device through pinned memory, behind what is queued. Waits; the query lock is held.
Result<Done> send_up(CudaContext& context, void* device_data, const void* host_data, std::uint64_t n_bytes);
Result<Done> bring_down(CudaContext& context, void* host_data, const void* device_data, std::uint64_t n_bytes);

}  // namespace quantem
