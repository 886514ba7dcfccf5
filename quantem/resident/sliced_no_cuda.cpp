// Compiled instead of sliced_cuda.cu where there is no CUDA compiler.

#include "quantem/resident/sliced_device.h"

namespace quantem {

Result<std::shared_ptr<const SlicedDevice>> upload_sliced(CudaContext&, const SlicedStorage&) {
  return Error{Code::device, list_cuda_devices().reason};
}
Result<SlicedStorage> download_sliced(CudaContext&, const SlicedDevice&) {
  return Error{Code::device, list_cuda_devices().reason};
}

}  // namespace quantem
