#pragma once
// masked_sum (masked_sum.h) of encoded counts on a CUDA device, whose image stays there: the same values bit for bit, the same provenance,
// the quiet NaN at missing positions. The call queues the sum and does not wait for it, except where a plan that is new goes up.
//   image  f32  (scan_rows, scan_cols)  counts
// Errors: those of masked_sum; unsupported where the counts are not encoded on a CUDA device; out_of_memory.

#include <memory>

#include "quantem/core/job.h"
#include "quantem/detector/geometry.h"
#include "quantem/resident/device_image.h"
#include "quantem/resident/volume.h"

namespace quantem {

Result<DeviceImage> masked_sum_on_device(const Volume& volume, const Mask& mask, const Job& job = {});

namespace detector_detail {
// Sums over `selected` of an encoded volume on a CUDA device, rounded once, NaN at missing positions; queued.
Result<std::shared_ptr<DeviceMemory>> masked_sum_on_device_cuda(const Volume& volume, const BitMask& selected,
                                                                const Job& job);
}  // namespace detector_detail

}  // namespace quantem
