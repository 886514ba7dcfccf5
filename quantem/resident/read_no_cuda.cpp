// Compiled instead of read_cuda.cu where there is no CUDA compiler.

#include "quantem/resident/read_cuda.h"

namespace quantem {

Result<Done> read_sliced_cuda(const Volume&, const Region&, const Region&, std::span<std::byte>) {
  return Error{Code::device, list_cuda_devices().reason};
}

}  // namespace quantem
