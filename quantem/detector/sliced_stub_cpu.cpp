#include "quantem/detector/detector_ops.h"

namespace quantem {
const DetectorOps* detector_ops_cpu_sliced() {
  return nullptr;
}
}  // namespace quantem
