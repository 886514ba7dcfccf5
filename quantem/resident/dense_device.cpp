#include "quantem/resident/dense_device.h"

namespace quantem {

Result<std::shared_ptr<const DenseDevice>> upload_dense(CudaContext& context, const DenseStorage& host) {
  auto device = std::make_shared<DenseDevice>();
  QUANTEM_TRY_ASSIGN(memory, context.allocate(host.counts.n_bytes(), "dense volume"));
  QUANTEM_TRY(context.copy_up(memory.data(), host.counts.data(), host.counts.n_bytes()));
  device->counts = std::move(memory);
  return Result<std::shared_ptr<const DenseDevice>>(std::move(device));
}

}  // namespace quantem
