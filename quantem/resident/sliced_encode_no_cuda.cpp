// Compiled instead of sliced_encode_cuda.cu and its kernels where there is no CUDA compiler.

#include "quantem/resident/sliced_device_encode.h"

namespace quantem {

struct SlicedDeviceBuilder::State {};
SlicedDeviceBuilder::SlicedDeviceBuilder(std::unique_ptr<State> state) : state_(std::move(state)) {}
SlicedDeviceBuilder::~SlicedDeviceBuilder() = default;
std::uint64_t SlicedDeviceBuilder::work_bytes(const Options&) {
  return 0;
}
Result<std::unique_ptr<SlicedDeviceBuilder>> SlicedDeviceBuilder::make(CudaContext&, const Options&) {
  return Error{Code::device, list_cuda_devices().reason};
}
CudaStream* SlicedDeviceBuilder::stream(std::uint32_t) const {
  return nullptr;
}
PlaneRows SlicedDeviceBuilder::rows(std::uint32_t) const {
  return {};
}
Result<Done> SlicedDeviceBuilder::rows_from_values(std::uint32_t, const void*, std::uint32_t) {
  return Done{};
}
Result<Done> SlicedDeviceBuilder::clear_flagged(std::uint32_t, std::uint64_t, std::uint32_t) {
  return Done{};
}
Result<Done> SlicedDeviceBuilder::encode(std::uint32_t, std::uint64_t, std::uint32_t) {
  return Done{};
}
Result<Done> SlicedDeviceBuilder::place(std::uint32_t) {
  return Done{};
}
Result<std::shared_ptr<const SlicedDevice>> SlicedDeviceBuilder::finish(DeviceAudit&, std::vector<FlaggedSample>&) {
  return Error{Code::device, list_cuda_devices().reason};
}

}  // namespace quantem
