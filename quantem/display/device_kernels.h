#pragma once
// What device_display.cpp asks of the device. Arguments are checked; images have fewer than 2^32 pixels. unsupported without CUDA.

#include <cstdint>
#include <memory>

#include "quantem/display/colormap.h"
#include "quantem/display/fft_magnitude.h"
#include "quantem/display/histogram.h"
#include "quantem/resident/device_image.h"

namespace quantem::display_detail {

// Of the finite values x (or |x|, or -0 taken as 0): how many there are, and of two percentiles p the values at rank_of(p, n).below and,
// where there is one, the rank above.
struct OrderStatistics {
  std::uint32_t n = 0;
  float below[2] = {}, above[2] = {};
};
Result<OrderStatistics> order_statistics_cuda(const DeviceImage& image, double low_percentile, double high_percentile,
                                              bool magnitudes);
Result<Histogram> histogram_cuda(const DeviceImage& image, const Window& window);
Result<std::shared_ptr<DeviceMemory>> colorize_cuda(const DeviceImage& image, const Window& window,
                                                    const ColorTable& table, Color bad);
Result<std::shared_ptr<DeviceMemory>> fft_magnitude_cuda(const DeviceImage& image, const FftOptions& options);

}  // namespace quantem::display_detail
