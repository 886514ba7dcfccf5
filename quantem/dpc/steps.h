#pragma once
// Of this area only: what the steps of a DPC are made of and what they record, whatever runs them.

#include "quantem/dpc/dpc.h"
#include "quantem/dpc/terms.h"

namespace quantem::dpc_detail {

// --- centre of mass (com_cpu.cpp) --------------------------------------------------------------------------------------------
// A field of the volume's scan without components: unit, provenance, no position valid.
ComField described_field(const Volume& volume);
void record_selection(const Volume& volume, BitMask selected, const Parameters& parameters, Provenance& p);

// --- descan ------------------------------------------------------------------------------------------------------------------
Error no_position_to_descan();
void record_descan_point(Point subtracted, Provenance& p);

// --- rotation ----------------------------------------------------------------------------------------------------------------
// The disc's radius in 1 / unit of the scan step, where it is known.
std::optional<double> disc_radius(const RotationOptions& options);
Result<RotationMethod> choose_method(Extent scan, const RotationOptions& options);
Error no_position_to_rotate();
Error neither_curl_nor_divergence(Extent scan);
double opposite(double degrees);  // the other angle that fits alike, in (-180, 180]
// Polarity::defocus: whether the angle has to be turned by 180 degrees.
Result<bool> turned_by_defocus(const RotationOptions& options);
inline constexpr double kAmbiguousSkewness = 0.3;
Result<Done> check_angle(double rotation_deg);  // a number
void record_alignment(double rotation_deg, bool transpose, Provenance& p);

// --- integration (idpc.cpp) --------------------------------------------------------------------------------------------------
struct IntegratePlan {
  Boundary boundary = Boundary::periodic;
  double sign = 1;
  Pair factor{1, 1};  // of the components
  Pair step{1, 1};
  double kappa = 1, epsilon = 0;
  Butterworth filters;
};
Result<IntegratePlan> plan_integration(Extent scan, const std::string& unit, const IntegrateOptions& options);
void record_integration(Extent scan, const IntegrateOptions& options, const IntegratePlan& plan,
                        std::uint64_t n_without_value, Provenance& p);

// --- all of them (dpc.cpp) ---------------------------------------------------------------------------------------------------
Result<Done> check_dpc(Extent scan, const Calibration& c, const DpcOptions& options);
RotationOptions search_options(const Calibration& c, const DpcOptions& options);
Rotation given_rotation(const DpcOptions& options);
IntegrateOptions integrate_options(const Calibration& c, const DpcOptions& options);
// From pixels to the unit of the integrated field: 1/A for "rad", else pixels as they are.
Pair component_factor(const Calibration& c, const DpcOptions& options);
void record_rotation(const Rotation& r, bool given, Provenance& p);
void record_phase(const Calibration& c, const DpcOptions& options, Provenance& p);

}  // namespace quantem::dpc_detail
