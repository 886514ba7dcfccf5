#pragma once
// From detector axes to scan axes, and the angle between them. docs: phase.md 1.6, 4; contract C56-C58.
//   align: exchange the components if `transpose`, then r' = cos(t) r - sin(t) c, c' = sin(t) r + cos(t) c, t =
//   rotation_deg. With rows growing down, positive angles turn +row towards +col. Scan axes are never rotated or
//   resampled.
// The angle minimises the curl of the aligned field. Rotating by t turns (curl, div) like a vector, so with A =
// <curl^2>, D = <div^2>, X = <curl div> the minimum over all angles is closed form:
//   t = atan2(-2X, D - A) / 2 in (-90, 90] degrees,   J = (A + D)/2 - hypot(A - D, 2X)/2
// taken for both handednesses; the smaller J wins, plain on a tie
// (less than 1e-12 (A + D) apart). curl_fraction = J / (A + D): 0 curl-free, 1/2 no
// information. t and t + 180 degrees fit alike: without `polarity` the result is `undetermined` in sign. Bounds: 1e-6
// rad for the same field on every backend, the exchange decision equal. Same input: the same bits. Errors: undetermined
// when a scan side is below 3 (8 for `fourier`) or the field has neither curl nor divergence:
//   "pass rotation_deg="; invalid_argument when a calibration that the method needs is not known, by name.

#include <optional>
#include <string_view>

#include "quantem/dpc/field.h"
#include "quantem/dpc/terms.h"

namespace quantem {

enum class RotationMethod : std::uint8_t {
  automatic,  // fourier when voltage, semiangle and scan sampling are known and the scan is at least 8x8, else curl
  curl,       // central differences on interior points whose stencil is valid
  fourier,    // longitudinal and transverse power per scan frequency, weighted by the disc's transfer squared: least
              // noise
  grid,       // mean curl^2 at `steps` angles from 0 to 180 degrees inclusive, first minimum
  grid_abs    // mean |curl| from -89 to 90 degrees in 1 degree steps: what other programs do, for comparison
};
enum class Polarity : std::uint8_t {
  undetermined,
  skewness,  // atoms are positive peaks: of the two signs, the phase with positive skewness
  defocus    // the known sign of C10 against the one that was measured at this angle
};
std::string_view method_name(RotationMethod m);
std::string_view polarity_name(Polarity p);
Result<RotationMethod> parse_rotation_method(std::string_view name);
Result<Polarity> parse_polarity(std::string_view name);  // "undetermined" or "", "skewness", "defocus"

struct RotationOptions {
  RotationMethod method = RotationMethod::automatic;
  std::uint32_t steps = 180;  // grid
  Polarity polarity = Polarity::undetermined;
  // What is known enters per axis, detector samplings before the rotation.
  std::optional<Pair> scan_sampling_A, det_sampling_mrad;
  std::optional<double> voltage_kV, semiangle_mrad;
  // Polarity::defocus. Underfocus is C10 < 0.
  std::optional<double> known_C10_A, fitted_C10_A;
};

struct Rotation {
  double rotation_deg = 0;
  bool transpose = false;
  double curl_fraction = 0;
  RotationMethod method = RotationMethod::curl;
  Polarity polarity = Polarity::undetermined;
  double skewness = 0;     // of the phase at the angle returned; 0 unless polarity is skewness
  bool ambiguous = false;  // |skewness| < 0.3: the sign is a guess
};

Result<Rotation> find_rotation(const ComField& field, const RotationOptions& options = {});
Result<Rotation> find_rotation(const ComMaps& maps, const RotationOptions& options = {});
// `fourier` and `curl` read differences only, but a mean that was not taken out enters the stencils at missing
// positions: descan first.

Result<ComField> align(const ComField& field, double rotation_deg, bool transpose);
Result<ComMaps> align(const ComMaps& maps, double rotation_deg, bool transpose);

CosSin cos_sin_deg(double degrees);  // exact at multiples of 90

// Transfer of a hard disc, x = |q| / (2 q_alpha): (2/pi)(acos x - x sqrt(1 - x^2)), 0 from x = 1 on.
double disc_transfer(double x);

}  // namespace quantem
