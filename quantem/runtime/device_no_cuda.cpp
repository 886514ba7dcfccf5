// Compiled instead of device_cuda.cu where there is no CUDA compiler.

#include "quantem/runtime/device.h"

namespace quantem {

void leave_cuda_device(int) {}

DeviceList list_cuda_devices() {
  return {{}, "this build has no CUDA support (no nvcc when it was configured)"};
}

}  // namespace quantem
