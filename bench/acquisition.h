#pragma once
// The acquisition that speeds are quoted for: fresh Poisson counts, never zeros.
//   mean(r) = disc_mean for r <= 30 px of the detector's centre, else tail_mean * exp(-(r - 30) / 70)
//   times 1 + 0.3 sin(i / 37) at flat scan position i.
// Counter-based: frame i is the same whatever was generated before it.

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "quantem/core/shape.h"
#include "tests/support/splitmix64.h"

namespace quantem::bench {

struct Acquisition {
  Shape4 shape{{256, 256}, {192, 192}};
  double disc_radius_px = 30, disc_mean = 8, tail_mean = 0.6, tail_px = 70;
  std::uint64_t seed = 1;
  std::vector<std::uint32_t> hot_pixels;  // flat; 65535 in every frame and bad in the pixel mask
};

class AcquisitionFrames {
 public:
  explicit AcquisitionFrames(const Acquisition& acquisition) : acquisition_(acquisition) {
    const Extent det = acquisition.shape.det;
    const Point center = geometric_center(det);
    for (std::uint32_t r = 0; r < det.rows; ++r)
      for (std::uint32_t c = 0; c < det.cols; ++c) {
        const double radius = std::hypot(r - center.row, c - center.col);
        mean_.push_back(static_cast<float>(
            radius <= acquisition.disc_radius_px
                ? acquisition.disc_mean
                : acquisition.tail_mean * std::exp(-(radius - acquisition.disc_radius_px) / acquisition.tail_px)));
      }
  }

  void fill(std::uint64_t position, std::span<std::uint16_t> frame) const {
    const float gain = static_cast<float>(1 + 0.3 * std::sin(static_cast<double>(position) / 37));
    std::uint64_t counter = (acquisition_.seed << 48) + position * frame.size();
    for (std::size_t p = 0; p < frame.size(); ++p)
      frame[p] = poisson(mean_[p] * gain, support::splitmix64(counter + p));
    for (const std::uint32_t p : acquisition_.hot_pixels) frame[p] = 65535;
  }

 private:
  // By inversion: the number of terms of the cumulative distribution that lie below one uniform number.
  static std::uint16_t poisson(float mean, std::uint64_t bits) {
    const float uniform = static_cast<float>(bits >> 40) * 0x1p-24f;
    float term = std::exp(-mean), below = term;
    std::uint16_t k = 0;
    while (uniform >= below && k < 200) below += term *= mean / static_cast<float>(++k);
    return k;
  }

  Acquisition acquisition_;
  std::vector<float> mean_;
};

}  // namespace quantem::bench
