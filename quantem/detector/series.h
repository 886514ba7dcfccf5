#pragma once
// One mask over many acquisitions: image i is masked_sum(volumes[i], mask), bit for bit, in the order of the list. Scan shapes, dtypes and
// storage may differ from volume to volume, the detector's shape may not.
//
// Encoded volumes of one CUDA device with the same valid pixels are answered together, 32 a launch, by one plan (32 volumes of
// 512x512x192x192, BF r=30: 0.51 ms of kernel on one H200). All others are asked one after the other.
// Errors: those of masked_sum, with the volume's place in the list; nothing comes back then. An empty list has no images.

#include <span>
#include <vector>

#include "quantem/core/array.h"
#include "quantem/core/job.h"
#include "quantem/detector/geometry.h"
#include "quantem/resident/volume.h"

namespace quantem {

Result<std::vector<Image<float>>> masked_sum_series(std::span<const Volume> volumes, const Mask& mask,
                                                    const Job& job = {});

namespace detector_detail {
// Sums over `selected` of encoded volumes that lie on one CUDA device and share a layout and their valid pixels, rounded once; the function
// sizes the images. unsupported where this build has no CUDA.
Result<std::string_view> series_sums_cuda(std::span<const Volume* const> volumes, const BitMask& selected,
                                          std::span<std::vector<float>> images, const Job& job);
}  // namespace detector_detail

}  // namespace quantem
