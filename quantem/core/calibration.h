#pragma once
// What is known of an acquisition's geometry, and where each value came from. Unknown is empty, never 0 and never a default.

#include <optional>
#include <string>
#include <string_view>

#include "quantem/core/shape.h"

namespace quantem {

enum class Origin : std::uint8_t { caller, file, side_file, measured, derived, guessed };
std::string_view origin_name(Origin origin);

template <class T>
struct Known {
  std::optional<T> value;
  std::string unit;
  Origin origin = Origin::file;
  std::string note;
  explicit operator bool() const { return value.has_value(); }
};

struct Calibration {
  Known<double> voltage_kV, semiangle_mrad, rotation_deg, camera_length_mm, dwell_us;
  Known<Pair> scan_sampling_A;    // angstrom per scan step
  Known<Pair> det_sampling_mrad;  // mrad per detector pixel
  Known<Point> center_px;         // optical axis on the detector
  Known<double> radius_px;        // bright-field disc
};

// Relativistic electron wavelength in angstrom: h / sqrt(2 m e V (1 + e V / (2 m c^2))). 300 kV: 0.0196874890.
double electron_wavelength_A(double voltage_kV);
// Interaction constant in rad / (V angstrom): (2 pi / (lambda V)) (m c^2 + e V) / (2 m c^2 + e V). 300 kV: 6.52616e-4.
double interaction_constant_rad_per_VA(double voltage_kV);

}  // namespace quantem
