// Compiled instead of cuda_context.cu where there is no CUDA compiler: no context, so nothing else is ever called.

#include "quantem/runtime/cuda_context.h"

namespace quantem {

DeviceMemory::~DeviceMemory() = default;
Result<CudaContext*> CudaContext::of(const Device&) { return Error{Code::device, list_cuda_devices().reason}; }

}  // namespace quantem
