// Compiled instead of cuda_context.cu where there is no CUDA compiler: no context is ever made, so nothing else here runs; it lets
// code that would use one link.

#include "quantem/runtime/cuda_context.h"
#include "quantem/runtime/cuda_load_area.h"

namespace quantem {
namespace {

Error no_cuda() {
  return Error{Code::device, list_cuda_devices().reason};
}

}  // namespace

DeviceMemory::~DeviceMemory() = default;
Result<CudaContext*> CudaContext::of(const Device&) {
  return no_cuda();
}
Result<DeviceMemory> CudaContext::allocate(std::uint64_t, const char*) {
  return no_cuda();
}
std::uint64_t CudaContext::free_bytes() const {
  return 0;
}
Result<void*> CudaContext::work_area(std::uint64_t) {
  return no_cuda();
}
Result<void*> CudaContext::pinned_result(std::uint64_t) {
  return no_cuda();
}
Result<void*> CudaContext::pinned_upload(std::uint64_t) {
  return no_cuda();
}
Result<std::vector<void*>> CudaContext::pinned_slabs(std::size_t, std::uint64_t) {
  return no_cuda();
}
Result<Done> CudaContext::check(int, const char*) {
  return no_cuda();
}
Result<Done> CudaContext::copy_up(void*, const void*, std::uint64_t) {
  return no_cuda();
}
Result<Done> CudaContext::copy_down(void*, const void*, std::uint64_t) {
  return no_cuda();
}
Result<Done> CudaContext::synchronize(const char*) {
  return no_cuda();
}
void release_load_area(int) {}

}  // namespace quantem
