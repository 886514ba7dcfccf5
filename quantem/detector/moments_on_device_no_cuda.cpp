// Compiled instead of moments_on_device.cu where there is no CUDA compiler. Nothing of it runs: no volume is on a CUDA device there.

#include "quantem/detector/moments_on_device.h"

namespace quantem {
namespace {

Error no_cuda() {
  return Error{Code::device, list_cuda_devices().reason};
}

}  // namespace

struct MomentsOnDevice::State {
  CudaContext* context = nullptr;
};

MomentsOnDevice::MomentsOnDevice(std::unique_ptr<State> state) : state_(std::move(state)) {}
MomentsOnDevice::MomentsOnDevice(MomentsOnDevice&&) noexcept = default;
MomentsOnDevice& MomentsOnDevice::operator=(MomentsOnDevice&&) noexcept = default;
MomentsOnDevice::~MomentsOnDevice() = default;

Result<MomentsOnDevice> MomentsOnDevice::open_selected(const Volume&, const BitMask&, const Job&) {
  return no_cuda();
}
CudaContext& MomentsOnDevice::context() const {
  return *state_->context;
}
bool MomentsOnDevice::wide() const {
  return false;
}
std::uint64_t MomentsOnDevice::n_bytes() const {
  return 0;
}
std::string_view MomentsOnDevice::path() const {
  return {};
}
Result<Done> MomentsOnDevice::queue(void*) const {
  return no_cuda();
}

}  // namespace quantem
