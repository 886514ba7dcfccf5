#include "quantem/core/calibration.h"

#include <cmath>
#include <numbers>

namespace quantem {
namespace {

// CODATA 2018: h, m, e and c are exact or known to ten digits.
constexpr double kPlanck = 6.62607015e-34, kMass = 9.1093837015e-31, kCharge = 1.602176634e-19, kLight = 299792458.0;
constexpr double kRestVolts = kMass * kLight * kLight / kCharge;  // m c^2 / e

}  // namespace

std::string_view origin_name(Origin origin) {
  constexpr std::string_view kNames[] = {"caller", "file", "side_file", "measured", "derived", "guessed"};
  return kNames[static_cast<std::size_t>(origin)];
}

double electron_wavelength_A(double voltage_kV) {
  const double volts = voltage_kV * 1e3;
  return 1e10 * kPlanck / std::sqrt(2 * kMass * kCharge * volts * (1 + volts / (2 * kRestVolts)));
}

double interaction_constant_rad_per_VA(double voltage_kV) {
  const double volts = voltage_kV * 1e3;
  return 2 * std::numbers::pi / (electron_wavelength_A(voltage_kV) * volts) * (kRestVolts + volts) /
         (2 * kRestVolts + volts);
}

}  // namespace quantem
