// Compiled instead of read_cuda.cu where there is no CUDA compiler.

#include "quantem/resident/dense_device.h"
#include "quantem/resident/read_cuda.h"

namespace quantem {

Result<Done> read_sliced_cuda(const Volume&, const Region&, const Region&, std::span<std::byte>) {
  return Error{Code::device, list_cuda_devices().reason};
}
Result<Done> read_dense_cuda(const Volume&, const Region&, const Region&, std::span<std::byte>) {
  return Error{Code::device, list_cuda_devices().reason};
}
Result<std::shared_ptr<const DenseDevice>> expand_sliced(CudaContext&, const SlicedDevice&, const Shape4&, Dtype) {
  return Error{Code::device, list_cuda_devices().reason};
}

}  // namespace quantem
