#pragma once
// Weights of a taper along one side, as every backend uses them: w_i = 1/2 - 1/2 cos(2 pi i / (n - 1)), 1 for n = 1; all 1 without a taper.

#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

#include "quantem/display/fft_magnitude.h"

namespace quantem {

inline std::vector<double> taper_weights(Taper taper, std::uint32_t n) {
  std::vector<double> w(n, 1.0);
  if (taper == Taper::hann)
    for (std::uint32_t i = 0; i < n && n > 1; ++i) w[i] = 0.5 - 0.5 * std::cos(2 * std::numbers::pi * i / (n - 1.0));
  return w;
}

}  // namespace quantem
