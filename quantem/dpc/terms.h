#pragma once
// Of this area only: formulas that host code and kernels share. Their contracts stand in rotation.h and idpc.h.

#include <cmath>
#include <cstdint>

#include "quantem/core/host_device.h"

namespace quantem {

// cos and sin of an angle in degrees, exact at multiples of 90.
struct CosSin {
  double cos, sin;
};

namespace dpc_detail {

inline constexpr double kPi = 3.14159265358979323846, kDegrees = 180 / kPi;

QUANTEM_HOST_DEVICE inline CosSin cos_sin_of(double degrees) {
  const double turned = ::remainder(degrees, 360.0);  // exact
  if (turned == 0) return {1, 0};
  if (turned == 90) return {0, 1};
  if (turned == -90) return {0, -1};
  if (turned == 180 || turned == -180) return {-1, 0};
  return {::cos(turned / kDegrees), ::sin(turned / kDegrees)};
}

QUANTEM_HOST_DEVICE inline double disc_transfer_of(double x) {
  x = ::fabs(x);
  if (x >= 1) return 0;
  return 2 / kPi * (::acos(x) - x * ::sqrt(1 - x * x));
}

// A = <curl^2>, D = <div^2>, X = <curl div> of the field with or without its components exchanged.
struct RotationMoments {
  double a = 0, d = 0, x = 0;
  [[nodiscard]] QUANTEM_HOST_DEVICE double lowest_curl() const { return 0.5 * (a + d) - 0.5 * ::hypot(a - d, 2 * x); }
  [[nodiscard]] QUANTEM_HOST_DEVICE double angle_deg() const {
    const double t = 0.5 * ::atan2(-2 * x, d - a) * kDegrees;
    return t <= -90 ? 90 : t;  // (-90, 90]
  }
};

// Longitudinal and transverse power of one bin, direction (ur, uc) of its frequency; row and col are the components' spectra.
QUANTEM_HOST_DEVICE inline void add_power(RotationMoments& m, double along_re, double along_im, double across_re,
                                          double across_im, double weight) {
  m.d += weight * (along_re * along_re + along_im * along_im);
  m.a += weight * (across_re * across_re + across_im * across_im);
  m.x += weight * (along_re * across_re + along_im * across_im);
}

struct FoundAngle {
  double degrees = 0, curl_fraction = 0;
  bool transpose = false;
};
QUANTEM_HOST_DEVICE inline FoundAngle smaller_of(const RotationMoments& plain, const RotationMoments& swapped) {
  const double j0 = plain.lowest_curl(), j1 = swapped.lowest_curl();
  // Less than rounding can tell apart is a tie (one stencil alone fits both handednesses), so that every backend decides alike.
  const bool transpose = j1 < j0 - 1e-12 * (plain.a + plain.d);
  const RotationMoments& m = transpose ? swapped : plain;
  const double j = transpose ? j1 : j0;
  return {m.angle_deg(), (j > 0 ? j : 0) / (m.a + m.d), transpose};
}

// Butterworth filters; a cut-off of 0 is none.
struct Butterworth {
  double highpass = 0, lowpass = 0, power = 4;  // power: 2 order
  [[nodiscard]] QUANTEM_HOST_DEVICE bool any() const { return highpass > 0 || lowpass > 0; }
  [[nodiscard]] QUANTEM_HOST_DEVICE double at(double q) const {
    double t = 1;
    if (highpass > 0) t *= 1 - 1 / (1 + ::pow(q / highpass, power));
    if (lowpass > 0) t *= 1 / (1 + ::pow(q / lowpass, power));
    return t;
  }
};

}  // namespace dpc_detail
}  // namespace quantem
