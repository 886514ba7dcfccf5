// Compiled instead of detector_ops_cuda.cu where there is no CUDA compiler.

#include "quantem/detector/detector_ops.h"

namespace quantem {

const DetectorOps* detector_ops_cuda_sliced() {
  return nullptr;
}

}  // namespace quantem
