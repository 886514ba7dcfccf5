#pragma once
// Dense counts on a GPU: frame-major, working dtype, C order, as DenseStorage; missing frames and bad pixels hold 0. The bytes begin
// at a 256-byte boundary and 256 more may be read behind them.

#include <memory>

#include "quantem/resident/sliced_device.h"
#include "quantem/resident/volume.h"
#include "quantem/runtime/cuda_context.h"

namespace quantem {

struct DenseDevice {
  DeviceMemory counts;  // n_values * item_bytes
  [[nodiscard]] std::uint64_t resident_bytes() const { return counts.n_bytes(); }
};

Result<std::shared_ptr<const DenseDevice>> upload_dense(CudaContext& context, const DenseStorage& host);
// All counts of an encoded volume, made on the device; it may go afterwards. out_of_memory where both do not fit together.
Result<std::shared_ptr<const DenseDevice>> expand_sliced(CudaContext& context, const SlicedDevice& sliced,
                                                         const Shape4& shape, Dtype dtype);

}  // namespace quantem
