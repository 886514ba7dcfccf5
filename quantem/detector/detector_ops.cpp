#include "quantem/detector/detector_ops.h"

#include <string>

namespace quantem {

Result<const DetectorOps*> detector_ops(const Volume& volume) {
  const DetectorOps* ops = nullptr;
  if (volume.device().backend() == Backend::cpu)
    ops = volume.sliced() ? detector_ops_cpu_sliced() : detector_ops_cpu_dense();
  else if (volume.sliced_device())
    ops = detector_ops_cuda_sliced();
  else if (volume.dense_device())
    ops = detector_ops_cuda_dense();
  if (!ops)
    return Error{Code::unsupported, "detector: backend '" + std::string(backend_name(volume.device().backend())) +
                                        "' has no operations for " +
                                        std::string(representation_name(volume.representation())) +
                                        " volumes in this build; load with backend='cpu'"};
  return ops;
}

}  // namespace quantem
