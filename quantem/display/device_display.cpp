#include "quantem/display/device_display.h"

#include <limits>
#include <string>

#include "quantem/display/device_kernels.h"
#include "quantem/display/order_statistic.h"

namespace quantem {
namespace {

Result<Done> check_extent(const DeviceImage& image, const char* what) {
  if (image.extent().count() <= std::numeric_limits<std::uint32_t>::max()) return Done{};
  return Error{Code::unsupported, std::string(what) + ": counts reach 4294967295 on a device, the image has " +
                                      std::to_string(image.extent().count()) + " pixels; crop or bin it first"};
}

}  // namespace

Result<Window> window(const DeviceImage& image, Percentiles percentiles, Transform transform, double gamma) {
  QUANTEM_TRY(check_percentiles(percentiles.low, percentiles.high));
  QUANTEM_TRY(check_extent(image, "window"));
  QUANTEM_TRY_ASSIGN(found, display_detail::order_statistics_cuda(image, percentiles.low, percentiles.high, false));
  if (found.n == 0) return manual_window(0, 0, transform, gamma);
  return manual_window(value_at_rank(rank_of(percentiles.low, found.n), found.below[0], found.above[0]),
                       value_at_rank(rank_of(percentiles.high, found.n), found.below[1], found.above[1]), transform,
                       gamma);
}

Result<Window> symmetric_window(const DeviceImage& image, double percentile) {
  QUANTEM_TRY(check_percentiles(percentile, percentile));
  QUANTEM_TRY(check_extent(image, "symmetric_window"));
  QUANTEM_TRY_ASSIGN(found, display_detail::order_statistics_cuda(image, percentile, percentile, true));
  const double reach = found.n == 0 ? 0 : value_at_rank(rank_of(percentile, found.n), found.below[0], found.above[0]);
  return manual_window(-reach, reach);
}

Result<Histogram> histogram(const DeviceImage& image, const Window& window) {
  QUANTEM_TRY(check_extent(image, "histogram"));
  return display_detail::histogram_cuda(image, window);
}

Result<DeviceRgba> colorize_on_device(const DeviceImage& image, const Window& window, std::string_view name,
                                      Color bad) {
  QUANTEM_TRY(check_extent(image, "colorize"));
  QUANTEM_TRY_ASSIGN(table, colormap(name));
  QUANTEM_TRY_ASSIGN(bytes, display_detail::colorize_cuda(image, window, *table, bad));
  return DeviceRgba(image.extent(), image.device(), std::move(bytes));
}

Result<Rgba> to_host(const DeviceRgba& picture) {
  QUANTEM_TRY_ASSIGN(context, CudaContext::of(picture.device()));
  const auto lock = context->query_lock();
  Rgba out;
  out.extent = picture.extent();
  out.bytes.resize(4 * out.extent.count());
  QUANTEM_TRY(bring_down(*context, out.bytes.data(), picture.data(), out.bytes.size()));
  return out;
}

Result<Rgba> colorize(const DeviceImage& image, const Window& window, std::string_view name, Color bad) {
  QUANTEM_TRY_ASSIGN(picture, colorize_on_device(image, window, name, bad));
  return to_host(picture);
}

Result<DeviceImage> fft_magnitude(const DeviceImage& image, const FftOptions& options) {
  QUANTEM_TRY(check_extent(image, "fft_magnitude"));
  QUANTEM_TRY_ASSIGN(values, display_detail::fft_magnitude_cuda(image, options));
  Image<float> about;
  about.extent = image.extent(), about.unit = options.log ? "log(1+|F|)" : "|F|", about.provenance = image.provenance();
  return DeviceImage(std::move(about), image.device(), std::move(values));
}

}  // namespace quantem
