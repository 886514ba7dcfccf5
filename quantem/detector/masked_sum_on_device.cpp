#include "quantem/detector/masked_sum_on_device.h"

#include "quantem/detector/product.h"

namespace quantem {

Result<DeviceImage> masked_sum_on_device(const Volume& volume, const Mask& mask, const Job& job) {
  QUANTEM_TRY(detector_detail::check_selection(volume, mask.det, mask.bits.count(), "masked_sum_on_device"));
  if (!volume.sliced_device())
    return Error{Code::unsupported,
                 "masked_sum_on_device: the counts are " + std::string(representation_name(volume.representation())) +
                     " on '" + volume.device().label() +
                     "'; load them encoded with backend='cuda', or take masked_sum() and to_device()"};
  BitMask selected = mask.bits;
  selected &= volume.valid_pixels();
  QUANTEM_TRY_ASSIGN(values, detector_detail::masked_sum_on_device_cuda(volume, selected, job));
  Image<float> about = detector_detail::described<float>(volume, "masked_sum", "cuda_sliced_masked_sum", Dtype::u64,
                                                         mask.parameters, selected);
  if (!detector_detail::has_every_position(volume)) about.valid = volume.valid_positions();
  return DeviceImage(std::move(about), volume.device(), std::move(values));
}

}  // namespace quantem
