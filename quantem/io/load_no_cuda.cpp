// Compiled instead of load_cuda.cu where there is no CUDA compiler.

#include "quantem/io/load_cuda.h"

namespace quantem {

std::uint64_t cuda_work_bytes(const Device&, const LoadPlan&) {
  return 0;
}
Result<CudaLoaded> load_on_cuda(const Device&, const LoadPlan&, const FrameSource&, const BlockReader&,
                                const Container*, const FrameReader*, ProgressMeter&) {
  return Error{Code::device, list_cuda_devices().reason};
}

}  // namespace quantem
