// Compiled instead of bslz4_*.cu where there is no CUDA compiler.

#include "quantem/io/bslz4_cuda.h"

namespace quantem {

struct Bslz4Decoder::State {};
Bslz4Decoder::Bslz4Decoder(std::unique_ptr<State> state) : state_(std::move(state)) {}
Bslz4Decoder::~Bslz4Decoder() = default;
bool Bslz4Decoder::supports(std::uint32_t, std::uint32_t) {
  return false;
}
std::uint64_t Bslz4Decoder::work_bytes(const Options&) {
  return 0;
}
Result<std::unique_ptr<Bslz4Decoder>> Bslz4Decoder::make(CudaContext&, const Options&) {
  return Error{Code::device, list_cuda_devices().reason};
}
Result<Done> Bslz4Decoder::decode(std::uint32_t, CudaStream*, const void*, const ChunkPlace*, std::uint32_t,
                                  const PlaneRows&, std::uint32_t*) {
  return Error{Code::device, list_cuda_devices().reason};
}

}  // namespace quantem
