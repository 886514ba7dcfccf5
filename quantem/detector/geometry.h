#pragma once
// Detector geometry: which pixels a detector selects. Masks are made once, on the host, in double; backends receive bits, so
// no two of them can disagree about an edge pixel.

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "quantem/core/bit_mask.h"
#include "quantem/core/dtype.h"
#include "quantem/core/provenance.h"
#include "quantem/core/region.h"
#include "quantem/core/result.h"
#include "quantem/core/shape.h"

namespace quantem {

// A binary detector. Operations AND it with the volume's valid pixels.
struct Mask {
  Extent det;
  BitMask bits;           // det.count()
  Parameters parameters;  // how it was made, for provenance ("shape": "annulus", "inner_px": 30, ...)
  [[nodiscard]] std::uint64_t n_selected() const { return bits.n_set(); }
};

// d2 = (i - r0)^2 + (j - c0)^2 in double, every operation rounded separately; a pixel is selected when
// inner^2 <= d2 <= outer^2: both edges inclusive. 0 <= inner < outer, outer may be +inf, the centre is finite; a detector partly
// or wholly outside is cut at the edge and may be empty. 192x192, centre (95.5, 95.5): r <= 30 selects 2,828; 30-60 8,476.
Result<Mask> disk(Point center, double radius_px, Extent det);
Result<Mask> annulus(Point center, double inner_px, double outer_px, Extent det);
// (i - r0) sin(a) + (j - c0) cos(a) >= 0 with a = angle_deg: the side to which the direction points (0: +col, 90: +row).
Result<Mask> half_plane(Point center, double angle_deg, Extent det);
Result<Mask> rectangle(const Region& region, Extent det);
// Pixels whose centre lies inside the polygon (even-odd rule; a centre on an edge belongs to it).
Result<Mask> polygon(std::span<const Point> corners, Extent det);
Result<Mask> mask_from(std::span<const std::uint8_t> zeros_and_ones, Extent det);
Mask all_pixels(Extent det);

// Fixed-point weights: e the smallest integer with max|w| <= 2^e, step = 2^(e - 15), q = rint(w / step), |q| <= 32768.
// A weighted sum is f32(step * double(sum of q * I)), the sum exact in 64 bits. Weights that are multiples of step are exact;
// otherwise |q * step - w| <= 2^(e - 16).
struct Weights {
  Extent det;
  double step = 1;
  std::vector<std::int32_t> q;  // det.count()
  bool exact = true;            // every q * step == w
};
// invalid_argument for a weight that is not finite, and for weights whose largest is below 2^-1050 (the step would
// vanish).
Result<Weights> weights_from(std::span<const double> weights, Extent det);

// An array argument as callers hold it: any strides, any memory order. Boolean arrays are u8.
struct StridedArray {
  Dtype dtype = Dtype::u8;
  std::vector<std::uint64_t> shape;
  std::vector<std::int64_t> strides_bytes;  // one an axis
  const void* data = nullptr;
};
// Integers that are all 0 or 1 are a binary mask, any other numbers are weights; floats always are weights.
// invalid_argument "mask is (6, 4), detector is (4, 6)" for any shape but the detector's.
Result<std::variant<Mask, Weights>> selection_from(const StridedArray& array, Extent det);

}  // namespace quantem
