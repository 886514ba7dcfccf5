// Compiled instead of chain_cuda.cu where there is no CUDA compiler. Nothing of it runs: no volume is on a CUDA device there.

#include "quantem/dpc/chain_cuda.h"

namespace quantem::dpc_detail {
namespace {

Error no_cuda() {
  return Error{Code::device, list_cuda_devices().reason};
}

}  // namespace

struct Chain::State {
  CudaContext* context = nullptr;
};

Chain::Chain(std::unique_ptr<State> state) : state_(std::move(state)) {}
Chain::Chain(Chain&&) noexcept = default;
Chain& Chain::operator=(Chain&&) noexcept = default;
Chain::~Chain() = default;

Result<Chain> Chain::open(const Volume&, const Mask*, const ChainPlan&, const Job&) {
  return no_cuda();
}
CudaContext& Chain::context() const {
  return *state_->context;
}
std::string_view Chain::path() const {
  return {};
}
Result<Done> Chain::queue(float*, float*) const {
  return no_cuda();
}
Result<ChainRecord> Chain::record() const {
  return no_cuda();
}

}  // namespace quantem::dpc_detail
