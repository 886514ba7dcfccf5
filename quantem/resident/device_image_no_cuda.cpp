// Compiled instead of device_image.cu where there is no CUDA compiler. No context is ever made there, so none of this runs.

#include "quantem/resident/device_image.h"

namespace quantem {
namespace {

Error no_cuda() {
  return Error{Code::device, list_cuda_devices().reason};
}

}  // namespace

Result<Done> mark_missing_on_device(CudaContext&, float*, const std::uint32_t*, std::uint64_t) {
  return no_cuda();
}
Result<Done> send_up(CudaContext&, void*, const void*, std::uint64_t) {
  return no_cuda();
}
Result<Done> bring_down(CudaContext&, void*, const void*, std::uint64_t) {
  return no_cuda();
}

}  // namespace quantem
