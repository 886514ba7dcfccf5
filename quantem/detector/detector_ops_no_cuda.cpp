// Compiled instead of detector_ops_cuda.cu, masked_sum_cuda.cu and dense_ops_cuda.cu where there is no CUDA compiler.

#include "quantem/detector/detector_ops.h"
#include "quantem/detector/masked_sum_on_device.h"

namespace quantem {

const DetectorOps* detector_ops_cuda_sliced() {
  return nullptr;
}
const DetectorOps* detector_ops_cuda_dense() {
  return nullptr;
}

Result<std::shared_ptr<DeviceMemory>> detector_detail::masked_sum_on_device_cuda(const Volume&, const BitMask&,
                                                                                 const Job&) {
  return Error{Code::unsupported, "masked_sum_on_device: this build has no CUDA"};
}

}  // namespace quantem
