#pragma once
// window.h, histogram.h, colormap.h and fft_magnitude.h for images that stay on a CUDA device (resident/device_image.h): the same functions,
// and, but for the last, the same numbers and bytes as for the image on the host. Only limits, counts and, where asked for, finished
// pictures cross the link.
//
//   window      three passes over the image: the digits of order-preserving keys are counted, 11, 11 and 10 bits. Integers only, so the
//               limits are the exact order statistics whatever ran first. 64 bytes come to the host, which makes the edges.
//   histogram   one pass; 259 counts come to the host
//   colorize    one pass, 4 bytes read and 4 written a pixel; nothing waits
//   fft_magnitude  in double by cuFFT, within 1e-5 of the largest magnitude beside the zero frequency (docs/contract.md); where all of those
//               are rounding (a flat image), within 1e-12 n max |x|. The result stays. Waits, for it must know whether any value is
//               valid. Its work area of 16 bytes a pixel is kept for other queries.
//
// Errors: as their namesakes; unsupported for 2^32 pixels or more, and for fft_magnitude where cuFFT is not found; device, out_of_memory.

#include <cstdint>
#include <memory>
#include <string_view>

#include "quantem/display/colormap.h"
#include "quantem/display/fft_magnitude.h"
#include "quantem/display/histogram.h"
#include "quantem/display/window.h"
#include "quantem/resident/device_image.h"

namespace quantem {

// Exact order statistics of the finite values (what has no value is NaN there). kMinMax gives the least and the greatest.
Result<Window> window(const DeviceImage& image, Percentiles percentiles = {}, Transform transform = Transform::linear,
                      double gamma = 0.5);
Result<Window> symmetric_window(const DeviceImage& image, double percentile = 99.5);
Result<Histogram> histogram(const DeviceImage& image, const Window& window);

// uint8 (rows, cols, 4) as Rgba has it, in device memory. A cheap handle; the order of work is that of DeviceImage.
class DeviceRgba {
 public:
  DeviceRgba(Extent extent, Device device, std::shared_ptr<const DeviceMemory> bytes)
      : extent_(extent), device_(std::move(device)), bytes_(std::move(bytes)) {}
  [[nodiscard]] Extent extent() const { return extent_; }
  [[nodiscard]] const Device& device() const { return device_; }
  [[nodiscard]] const std::uint8_t* data() const { return bytes_->as<std::uint8_t>(); }  // device memory

 private:
  Extent extent_;
  Device device_;
  std::shared_ptr<const DeviceMemory> bytes_;
};
Result<DeviceRgba> colorize_on_device(const DeviceImage& image, const Window& window,
                                      std::string_view colormap = "gray", Color bad = {0, 0, 0, 0});
Result<Rgba> to_host(const DeviceRgba& picture);  // waits
// Both.
Result<Rgba> colorize(const DeviceImage& image, const Window& window, std::string_view colormap = "gray",
                      Color bad = {0, 0, 0, 0});

Result<DeviceImage> fft_magnitude(const DeviceImage& image, const FftOptions& options = {});

}  // namespace quantem
