// Compiled instead of device_fft.cu where there is no CUDA compiler. No context is ever made there, so only find_cufft() runs.

#include "quantem/runtime/device_fft.h"

namespace quantem {
namespace {

Error no_cuda() {
  return Error{Code::unsupported, "cuFFT: " + list_cuda_devices().reason};
}

}  // namespace

Result<Done> find_cufft() {
  return no_cuda();
}
Result<DeviceFft> DeviceFft::of(CudaContext&, Kind, Extent) {
  return no_cuda();
}
Result<Done> DeviceFft::forward(const std::complex<double>*, std::complex<double>*) const {
  return no_cuda();
}
Result<Done> DeviceFft::inverse(const std::complex<double>*, std::complex<double>*) const {
  return no_cuda();
}
Result<Done> DeviceFft::forward(const double*, std::complex<double>*) const {
  return no_cuda();
}
Result<Done> DeviceFft::inverse(std::complex<double>*, double*) const {
  return no_cuda();
}

}  // namespace quantem
