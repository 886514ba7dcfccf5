#pragma once
// From counts to the integrated image in one call: centre of mass -> descan -> rotation -> align -> integrate.
// Every step is one of this area's operations with its own contract; all run in double and each map is rounded once.
// With units = "rad" the components are scaled to 1/A (detector sampling / wavelength, per axis) before they are
// aligned, so a detector whose pixels are not square is right too. Calibration comes from the volume; what is missing
// is named in the error. Float maps hold NaN at positions without a value; the phase is finite everywhere and `filled`
// counts what it had to fill. Errors: those of the steps. A 1xN scan has a centre of mass but no phase: use
// center_of_mass.

#include "quantem/dpc/com.h"
#include "quantem/dpc/idpc.h"
#include "quantem/dpc/rotation.h"

namespace quantem {

struct DpcOptions {
  const Mask* mask = nullptr;
  Descan descan;
  std::optional<double> rotation_deg;  // given: no search, and `transpose` defaults to false
  std::optional<bool> transpose;       // given without an angle: refused
  RotationMethod method = RotationMethod::automatic;
  std::optional<Polarity> polarity;                 // unset: skewness for "rad", else undetermined
  std::optional<double> known_C10_A, fitted_C10_A;  // Polarity::defocus
  IdpcUnits units = IdpcUnits::relative;
  std::optional<double> sign;
  std::optional<Boundary> boundary;
  double epsilon = 0;
  std::optional<double> highpass, lowpass;
  std::uint32_t order = 2;
};

struct DpcResult {
  Image<float> phase;
  Image<float> com_row, com_col;                  // descanned, detector axes, px
  Image<float> com_row_aligned, com_col_aligned;  // scan axes; px, or 1/A with units "rad"
  Image<float> magnitude, direction_deg;          // of the aligned field; atan2(col, row): 0 is +row, 90 is +col
  Image<float> divergence, curl;  // central differences, NaN on the border; per A where the step is known
  Rotation rotation;
  bool rotation_given = false;
  BitMask valid;
  Descan::Kind descan = Descan::Kind::mean;
  std::uint64_t filled = 0;  // positions that entered the phase as no deflection
  Provenance provenance;
  double elapsed_s = 0;
};

Result<DpcResult> run_dpc(const Volume& volume, const DpcOptions& options = {}, const Job& job = {});
// The same from centres of mass that are there already (before descan, in px).
Result<DpcResult> run_dpc(const ComField& com, const Calibration& calibration, const DpcOptions& options = {});

}  // namespace quantem
