#pragma once
// Integrated deflection: the image whose gradient the aligned field g is, by least squares over all frequencies.
// phase.md 5, C59-C61.
//   F(q) = -i kappa (q_r g_r(q) + q_c g_c(q)) / (|q|^2 + epsilon),  F(0) = 0,  phi = sign Re ifft2(F), mean 0
// On an even axis the Nyquist frequency of that axis is 0 in the numerator only. Positions without a value enter as (0,
// 0), are counted and warned about; the output is finite everywhere. Nothing is descanned here. A constant field cannot
// come out of a periodic solution: a ramp is not periodic.
//   units      kappa       boundary   g -> phi
//   relative   0.25        periodic   detector pixels, no sampling enters -> a signal, not a phase; atoms bright
//   gradient   1/(2 pi)    periodic   rad per scan step -> rad
//   rad        1           mirror     1/A (px are scaled when the detector sampling is square), q in 1/A
//                                     -> specimen phase in rad, blurred by the probe's intensity; atoms bright
// relative = (pi/2) gradient; with square samplings rad = 4 dk step relative.
// boundary: periodic; mirror = phi continued evenly, the component normal to each fold changes sign; zeropad = twice
// the size. highpass, lowpass: Butterworth, 1 - 1/(1 + (q/q0)^(2 order)) and 1/(1 + (q/q0)^(2 order)), q0 in the unit
// of q. Any size from 2x2 on, prime ones included. Double throughout, one rounding for the float form. Bound of other
// backends: 1e-5 max(1, max |phi|), absolute. Errors: invalid_argument for a scan side below 2, and for "rad" without
// voltage or samplings, by name.

#include <optional>
#include <string_view>

#include "quantem/dpc/field.h"

namespace quantem {

enum class IdpcUnits : std::uint8_t { relative, gradient, rad };
enum class Boundary : std::uint8_t { periodic, mirror, zeropad };
std::string_view units_name(IdpcUnits u);
std::string_view boundary_name(Boundary b);
Result<IdpcUnits> parse_idpc_units(std::string_view name);
Result<Boundary> parse_boundary(std::string_view name);
Boundary default_boundary(IdpcUnits u);

struct IntegrateOptions {
  IdpcUnits units = IdpcUnits::relative;
  std::optional<double> sign;        // overrides +1
  std::optional<Boundary> boundary;  // overrides the table's
  double epsilon = 0;                // in the unit of q squared
  std::optional<double> highpass, lowpass;
  std::uint32_t order = 2;
  std::optional<Pair> scan_sampling_A, det_sampling_mrad;
  std::optional<double> voltage_kV;
};

Result<Image<double>> integrate(const ComField& aligned, const IntegrateOptions& options = {});
Result<Image<float>> integrate(const ComMaps& aligned, const IntegrateOptions& options = {});

}  // namespace quantem
