// Compiled instead of order_statistics_cuda.cu, colors_cuda.cu and fft_magnitude_cuda.cu where there is no CUDA compiler.

#include "quantem/display/device_kernels.h"

namespace quantem::display_detail {
namespace {

Error no_cuda() {
  return Error{Code::unsupported, "display: this build has no CUDA"};
}

}  // namespace

Result<OrderStatistics> order_statistics_cuda(const DeviceImage&, double, double, bool) {
  return no_cuda();
}
Result<Histogram> histogram_cuda(const DeviceImage&, const Window&) {
  return no_cuda();
}
Result<std::shared_ptr<DeviceMemory>> colorize_cuda(const DeviceImage&, const Window&, const ColorTable&, Color) {
  return no_cuda();
}
Result<std::shared_ptr<DeviceMemory>> fft_magnitude_cuda(const DeviceImage&, const FftOptions&) {
  return no_cuda();
}

}  // namespace quantem::display_detail
