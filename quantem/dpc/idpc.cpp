#include "quantem/dpc/idpc.h"

#include <cmath>
#include <numbers>
#include <utility>

#include "quantem/core/calibration.h"
#include "quantem/dpc/spectrum.h"
#include "quantem/dpc/steps.h"

namespace quantem {
namespace {

using Plan = dpc_detail::IntegratePlan;

Error missing(const char* name) {
  return Error{Code::invalid_argument, std::string("integrate: units=\"rad\" needs ") + name +
                                           ", which is not known; pass it or use units=\"relative\""};
}

bool positive(Pair p) {
  return p.row > 0 && p.col > 0 && std::isfinite(p.row) && std::isfinite(p.col);
}

Result<Done> plan_radians(const std::string& unit, const IntegrateOptions& options, Plan& plan) {
  if (!options.scan_sampling_A) return missing("scan_sampling_A");
  if (!positive(*options.scan_sampling_A))
    return Error{Code::invalid_argument, "integrate: scan_sampling_A must be positive"};
  plan.step = *options.scan_sampling_A;
  if (unit == "1/A") return Done{};
  if (!options.voltage_kV) return missing("voltage_kV");
  if (!options.det_sampling_mrad) return missing("det_sampling_mrad");
  const Pair k = *options.det_sampling_mrad;
  if (!positive(k)) return Error{Code::invalid_argument, "integrate: det_sampling_mrad must be positive"};
  if (k.row != k.col)
    return Error{Code::invalid_argument,
                 "integrate: the detector sampling is not square (" + std::to_string(k.row) + ", " +
                     std::to_string(k.col) +
                     ") mrad and the field is in pixels: scale its components to 1/A before aligning, as run_dpc does"};
  const double dk = k.row * 1e-3 / electron_wavelength_A(*options.voltage_kV);
  plan.factor = {dk, dk};
  return Done{};
}

Result<Done> check_filters(const IntegrateOptions& options) {
  const std::pair<const char*, std::optional<double>> cutoffs[] = {{"highpass", options.highpass},
                                                                   {"lowpass", options.lowpass}};
  for (const auto& [name, value] : cutoffs)
    if (value && !(*value > 0 && std::isfinite(*value)))
      return Error{Code::invalid_argument,
                   std::string("integrate: ") + name + " is " + std::to_string(*value) + ", a cut-off must be above 0"};
  if (options.order == 0 || options.order > 64)
    return Error{Code::invalid_argument,
                 "integrate: order is " + std::to_string(options.order) + ", it must be 1 to 64"};
  if (!(options.epsilon >= 0) || !std::isfinite(options.epsilon))
    return Error{Code::invalid_argument,
                 "integrate: epsilon is " + std::to_string(options.epsilon) + ", it must be 0 or more"};
  return Done{};
}

// One component on the cell that the boundary asks for. `row_sign`, `col_sign`: what it turns into across either fold.
std::vector<double> on_cell(const std::vector<double>& values, Extent scan, Extent cell, Boundary boundary,
                            double row_sign, double col_sign, double factor) {
  std::vector<double> out(cell.count());
  for (std::uint64_t r = 0; r < cell.rows; ++r)
    for (std::uint64_t c = 0; c < cell.cols; ++c) {
      const bool row_folded = r >= scan.rows, col_folded = c >= scan.cols;
      if ((row_folded || col_folded) && boundary != Boundary::mirror) continue;  // zeropad
      const std::uint64_t sr = row_folded ? 2 * std::uint64_t{scan.rows} - 1 - r : r;
      const std::uint64_t sc = col_folded ? 2 * std::uint64_t{scan.cols} - 1 - c : c;
      const double sign = (row_folded ? row_sign : 1.0) * (col_folded ? col_sign : 1.0);
      out[r * cell.cols + c] = sign * factor * values[sr * scan.cols + sc];
    }
  return out;
}

}  // namespace

Result<Plan> dpc_detail::plan_integration(Extent scan, const std::string& unit, const IntegrateOptions& options) {
  if (scan.rows < 2 || scan.cols < 2)
    return Error{Code::invalid_argument,
                 "integrate: the scan is " + to_string(scan) + "; integration needs at least 2 rows and 2 columns"};
  QUANTEM_TRY(check_filters(options));
  Plan plan;
  plan.boundary = options.boundary.value_or(default_boundary(options.units));
  plan.sign = options.sign.value_or(1.0);
  plan.epsilon = options.epsilon;
  plan.filters = {options.highpass.value_or(0), options.lowpass.value_or(0), 2.0 * options.order};
  switch (options.units) {
    case IdpcUnits::relative:
      plan.kappa = 0.25;
      break;
    case IdpcUnits::gradient:
      plan.kappa = 0.5 / std::numbers::pi;
      break;
    case IdpcUnits::rad:
      QUANTEM_TRY(plan_radians(unit, options, plan));
      break;
  }
  if (options.units != IdpcUnits::rad && unit != "px" && options.units == IdpcUnits::relative)
    return Error{Code::invalid_argument,
                 "integrate: units=\"relative\" takes a field in detector pixels, it is in " + unit};
  return plan;
}

void dpc_detail::record_integration(Extent scan, const IntegrateOptions& options, const Plan& plan,
                                    std::uint64_t n_without_value, Provenance& p) {
  p.operation = "integrate";
  p.path = "cpu_idpc_fft_f64";
  p.accumulator_dtype = "float64";
  p.parameters.emplace_back("units", std::string(units_name(options.units)));
  p.parameters.emplace_back("sign", plan.sign);
  p.parameters.emplace_back("boundary", std::string(boundary_name(plan.boundary)));
  p.parameters.emplace_back("epsilon", options.epsilon);
  const auto cutoff = [&](const char* name, const std::optional<double>& value) {
    p.parameters.emplace_back(name, value ? ParameterValue(*value) : ParameterValue(nullptr));
  };
  cutoff("highpass", options.highpass);
  cutoff("lowpass", options.lowpass);
  if (options.highpass || options.lowpass) {
    p.parameters.emplace_back("order", std::int64_t{options.order});
    p.add_evidence("filtered");
  }
  p.parameters.emplace_back("filled", static_cast<std::int64_t>(n_without_value));
  if (n_without_value) {
    p.add_evidence("incomplete");
    p.warn("integrate: " + std::to_string(n_without_value) + " of " + std::to_string(scan.count()) +
           " positions have no centre of mass and entered as no deflection");
  }
}

Boundary default_boundary(IdpcUnits u) {
  return u == IdpcUnits::rad ? Boundary::mirror : Boundary::periodic;
}

Result<Image<double>> integrate(const ComField& aligned, const IntegrateOptions& options) {
  QUANTEM_TRY(check_field(aligned, "integrate"));
  QUANTEM_TRY_ASSIGN(plan, dpc_detail::plan_integration(aligned.scan, aligned.unit, options));
  const Extent scan = aligned.scan;
  Extent cell = scan;
  if (plan.boundary != Boundary::periodic) cell = {2 * scan.rows, 2 * scan.cols};
  const FieldSpectrum g = field_spectrum(cell, on_cell(aligned.row, scan, cell, plan.boundary, -1, 1, plan.factor.row),
                                         on_cell(aligned.col, scan, cell, plan.boundary, 1, -1, plan.factor.col));
  Solve how{plan.step, plan.kappa, plan.epsilon, {}};
  if (plan.filters.any()) how.transfer = [filters = plan.filters](double q) { return filters.at(q); };
  const std::vector<double> solved = solve_phase(g, how);
  std::vector<double> phase(scan.count());
  double mean = 0;
  for (std::uint64_t r = 0; r < scan.rows; ++r)
    for (std::uint64_t c = 0; c < scan.cols; ++c)
      mean += phase[r * scan.cols + c] = plan.sign * solved[r * cell.cols + c];
  mean /= static_cast<double>(scan.count());
  for (double& x : phase) x -= mean;
  Image<double> image =
      scan_image(aligned, std::move(phase), options.units == IdpcUnits::relative ? "relative" : "rad");
  dpc_detail::record_integration(scan, options, plan, aligned.n_without_value(), image.provenance);
  return image;
}

Result<Image<float>> integrate(const ComMaps& aligned, const IntegrateOptions& options) {
  QUANTEM_TRY_ASSIGN(field, to_field(aligned));
  QUANTEM_TRY_ASSIGN(exact, integrate(field, options));
  Image<float> image;
  static_cast<Grid<float>&>(image) = {
      exact.extent, {exact.values.begin(), exact.values.end()}, exact.unit, {}, exact.provenance};
  image.provenance.output_dtype = "float32";
  return image;
}

namespace {

constexpr std::pair<std::string_view, IdpcUnits> kUnits[] = {
    {"relative", IdpcUnits::relative}, {"gradient", IdpcUnits::gradient}, {"rad", IdpcUnits::rad}};
constexpr std::pair<std::string_view, Boundary> kBoundaries[] = {
    {"periodic", Boundary::periodic}, {"mirror", Boundary::mirror}, {"zeropad", Boundary::zeropad}};

}  // namespace

std::string_view units_name(IdpcUnits u) {
  for (const auto& [name, value] : kUnits)
    if (value == u) return name;
  return "";
}

std::string_view boundary_name(Boundary b) {
  for (const auto& [name, value] : kBoundaries)
    if (value == b) return name;
  return "";
}

Result<IdpcUnits> parse_idpc_units(std::string_view name) {
  for (const auto& [known, value] : kUnits)
    if (known == name) return value;
  return Error{Code::invalid_argument, "units: '" + std::string(name) + "' is none of relative, gradient, rad"};
}

Result<Boundary> parse_boundary(std::string_view name) {
  for (const auto& [known, value] : kBoundaries)
    if (known == name) return value;
  return Error{Code::invalid_argument, "boundary: '" + std::string(name) + "' is none of periodic, mirror, zeropad"};
}

}  // namespace quantem
