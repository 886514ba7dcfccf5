#pragma once
// What the public functions of this area share: checks of arguments and the provenance of a product.

#include <limits>
#include <string>
#include <vector>

#include "quantem/detector/geometry.h"
#include "quantem/resident/volume.h"

namespace quantem::detector_detail {

// closed, then invalid_argument "masked_sum: mask is (6, 4), detector is (4, 6)".
Result<Done> check_selection(const Volume& volume, Extent selection_det, std::uint64_t n, const char* operation);

Provenance product_provenance(const Volume& volume, const char* operation, std::string_view path, Extent output,
                              Dtype output_dtype, Dtype accumulator_dtype);
// Which pixels entered: hash and number of `selected` (the mask and the valid pixels), a warning when there is none.
struct MaskRecord {  // made once where many products share a mask
  MaskRecord(const BitMask& selected) : sha256(selected.sha256()), n_pixels(selected.n_set()) {}
  std::string sha256;
  std::uint64_t n_pixels;
};
void record_mask(Provenance& provenance, const Parameters& parameters, const MaskRecord& selected);

// The largest |count| of the volume.
double largest_count(const Volume& volume);

// No position is missing. Part of every call: BitMask::all() would count the bits, 14 us of them for 512x512 positions.
inline bool has_every_position(const Volume& volume) {
  return volume.valid_positions().first_unset() == volume.valid_positions().count();
}

// At missing positions: the value without a meaning, and a cleared bit.
template <class T>
void mark_missing(const Volume& volume, Image<T>& image) {
  const BitMask& valid = volume.valid_positions();
  if (has_every_position(volume)) return;
  constexpr T kNone =
      std::numeric_limits<T>::has_quiet_NaN ? std::numeric_limits<T>::quiet_NaN() : std::numeric_limits<T>::max();
  for (std::uint64_t n = 0; n < valid.count(); ++n)
    if (!valid[n]) image.values[n] = kNone;
  image.valid = valid;
}

// An image that has everything but its values and its missing positions.
template <class T>
Image<T> described(const Volume& volume, const char* operation, std::string_view path, Dtype accumulator,
                   const Parameters& parameters, const MaskRecord& selected) {
  Image<T> image;
  image.extent = volume.shape().scan;
  image.unit = "counts";
  image.provenance = product_provenance(volume, operation, path, volume.shape().scan, dtype_of<T>(), accumulator);
  record_mask(image.provenance, parameters, selected);
  return image;
}

// `values` become an image: missing positions marked, provenance written.
template <class T>
Image<T> finished(const Volume& volume, std::vector<T> values, const char* operation, std::string_view path,
                  Dtype accumulator, const Parameters& parameters, const MaskRecord& selected) {
  Image<T> image = described<T>(volume, operation, path, accumulator, parameters, selected);
  image.values = std::move(values);
  mark_missing(volume, image);
  return image;
}

// One rounding of each exact sum. Signed counts: the integer is two's complement.
std::vector<float> rounded(const std::vector<std::uint64_t>& sums, bool is_signed);

}  // namespace quantem::detector_detail
