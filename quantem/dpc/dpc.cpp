#include "quantem/dpc/dpc.h"

#include <chrono>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "quantem/core/calibration.h"
#include "quantem/dpc/device_dpc.h"
#include "quantem/dpc/steps.h"

namespace quantem {
namespace {

// The file's sampling, or semiangle / disc radius (C42).
std::optional<Pair> detector_sampling(const Calibration& c) {
  if (c.det_sampling_mrad) return c.det_sampling_mrad.value;
  if (c.semiangle_mrad && c.radius_px && *c.radius_px.value > 0) {
    const double mrad = *c.semiangle_mrad.value / *c.radius_px.value;
    return Pair{mrad, mrad};
  }
  return std::nullopt;
}

Error missing(const char* name) {
  return Error{Code::invalid_argument, std::string("dpc: units=\"rad\" needs ") + name +
                                           ", which is not known; pass it or use units=\"relative\""};
}

}  // namespace

namespace dpc_detail {

Result<Done> check_dpc(Extent scan, const Calibration& c, const DpcOptions& options) {
  if (scan.rows < 2 || scan.cols < 2)
    return Error{Code::invalid_argument,
                 "dpc: the scan is " + to_string(scan) +
                     "; integration needs two dimensions. Use center_of_mass for its deflection"};
  if (options.transpose && !options.rotation_deg)
    return Error{Code::invalid_argument,
                 "dpc: transpose= is given without rotation_deg=; give both, or neither to search"};
  if (options.units != IdpcUnits::rad) return Done{};
  if (!c.voltage_kV) return missing("voltage_kV");
  if (!c.scan_sampling_A) return missing("scan_sampling_A");
  if (!detector_sampling(c)) return missing("det_sampling_mrad (or semiangle_mrad and radius_px)");
  return Done{};
}

RotationOptions search_options(const Calibration& c, const DpcOptions& options) {
  RotationOptions search;
  search.method = options.method;
  search.polarity =
      options.polarity.value_or(options.units == IdpcUnits::rad ? Polarity::skewness : Polarity::undetermined);
  search.scan_sampling_A = c.scan_sampling_A.value;
  search.det_sampling_mrad = detector_sampling(c);
  search.voltage_kV = c.voltage_kV.value;
  search.semiangle_mrad = c.semiangle_mrad.value;
  search.known_C10_A = options.known_C10_A;
  search.fitted_C10_A = options.fitted_C10_A;
  return search;
}

Rotation given_rotation(const DpcOptions& options) {
  Rotation given;
  given.rotation_deg = *options.rotation_deg;
  given.transpose = options.transpose.value_or(false);
  given.curl_fraction = std::numeric_limits<double>::quiet_NaN();
  return given;
}

IntegrateOptions integrate_options(const Calibration& c, const DpcOptions& options) {
  IntegrateOptions how;
  how.units = options.units;
  how.sign = options.sign;
  how.boundary = options.boundary;
  how.epsilon = options.epsilon;
  how.highpass = options.highpass;
  how.lowpass = options.lowpass;
  how.order = options.order;
  how.scan_sampling_A = c.scan_sampling_A.value;
  return how;
}

Pair component_factor(const Calibration& c, const DpcOptions& options) {
  if (options.units != IdpcUnits::rad) return {1, 1};
  const Pair k = *detector_sampling(c);
  const double per_mrad = 1e-3 / electron_wavelength_A(*c.voltage_kV.value);
  return {k.row * per_mrad, k.col * per_mrad};
}

void record_rotation(const Rotation& r, bool given, Provenance& p) {
  p.parameters.emplace_back("rotation_origin", std::string(given ? "caller" : method_name(r.method)));
  if (given) return;
  p.parameters.emplace_back("curl_fraction", r.curl_fraction);
  p.parameters.emplace_back("polarity", std::string(polarity_name(r.polarity)));
  if (r.polarity == Polarity::undetermined)
    p.warn(
        "dpc: rotation and rotation + 180 degrees fit alike; the sign of the phase is not determined: give polarity=");
  if (r.polarity == Polarity::skewness) {
    p.parameters.emplace_back("skewness", r.skewness);
    if (r.ambiguous)
      p.warn("dpc: the sign of the phase is ambiguous: skewness " + std::to_string(r.skewness) + " is below 0.3");
  }
}

void record_phase(const Calibration& c, const DpcOptions& options, Provenance& p) {
  p.operation = "dpc";
  p.output_dtype = "float32";
  if (options.units == IdpcUnits::rad && c.scan_sampling_A.note.find("uncalibrated") != std::string::npos)
    p.warn("dpc: the phase in rad rests on a scan step that its source calls uncalibrated");
}

}  // namespace dpc_detail

namespace {

void fill_maps(const ComField& aligned, Pair step, const std::string& step_unit, DpcResult& result) {
  const double none = std::numeric_limits<double>::quiet_NaN();
  const std::uint64_t n = aligned.scan.count();
  std::vector<float> magnitude(n), direction(n);
  for (std::uint64_t i = 0; i < n; ++i) {
    const double r = aligned.row[i], c = aligned.col[i];
    magnitude[i] = static_cast<float>(aligned.valid[i] ? std::hypot(r, c) : none);
    direction[i] = static_cast<float>(aligned.valid[i] ? std::atan2(c, r) * 180 / std::numbers::pi : none);
  }
  const FieldDerivatives d = field_derivatives(aligned, step);
  const std::string per = aligned.unit + "/" + step_unit;
  result.magnitude = scan_image(aligned, std::move(magnitude), aligned.unit);
  result.direction_deg = scan_image(aligned, std::move(direction), "deg");
  result.divergence = scan_image(aligned, std::vector<float>(d.divergence.begin(), d.divergence.end()), per);
  result.curl = scan_image(aligned, std::vector<float>(d.curl.begin(), d.curl.end()), per);
  if (!aligned.valid.all()) result.magnitude.valid = result.direction_deg.valid = aligned.valid;
}

}  // namespace

Result<DpcResult> run_dpc(const ComField& com, const Calibration& calibration, const DpcOptions& options) {
  using namespace dpc_detail;
  const auto start = std::chrono::steady_clock::now();
  QUANTEM_TRY(check_field(com, "dpc"));
  QUANTEM_TRY(check_dpc(com.scan, calibration, options));
  QUANTEM_TRY_ASSIGN(descanned, descan(com, options.descan));
  Rotation rotation;
  if (options.rotation_deg) {
    rotation = given_rotation(options);
  } else {
    QUANTEM_TRY_ASSIGN(found, find_rotation(descanned, search_options(calibration, options)));
    rotation = found;
  }
  DpcResult result;
  result.rotation = rotation;
  result.rotation_given = options.rotation_deg.has_value();
  record_rotation(rotation, result.rotation_given, descanned.provenance);
  ComMaps maps = to_maps(descanned);
  result.com_row = std::move(maps.row);
  result.com_col = std::move(maps.col);

  ComField in_units = descanned;
  if (options.units == IdpcUnits::rad)
    in_units = scale_components(descanned, component_factor(calibration, options), "1/A");
  QUANTEM_TRY_ASSIGN(aligned, align(in_units, rotation.rotation_deg, rotation.transpose));
  maps = to_maps(aligned);
  result.com_row_aligned = std::move(maps.row);
  result.com_col_aligned = std::move(maps.col);
  const bool known_step = calibration.scan_sampling_A.value.has_value();
  fill_maps(aligned, calibration.scan_sampling_A.value.value_or(Pair{1, 1}), known_step ? "A" : "step", result);

  QUANTEM_TRY_ASSIGN(phase, integrate(aligned, integrate_options(calibration, options)));
  record_phase(calibration, options, phase.provenance);
  result.phase = scan_image(aligned, std::vector<float>(phase.values.begin(), phase.values.end()), phase.unit);
  result.phase.provenance = result.provenance = phase.provenance;
  result.valid = descanned.valid;
  result.descan = options.descan.kind;
  result.filled = descanned.n_without_value();
  result.elapsed_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

Result<DpcResult> run_dpc(const Volume& volume, const DpcOptions& options, const Job& job) {
  using namespace dpc_detail;
  const auto start = std::chrono::steady_clock::now();
  QUANTEM_TRY(volume.check_open());
  std::string on_host;
  if (volume.device().backend() == Backend::cuda) {
    on_host = volume.sliced_device() ? why_on_host(options) : "the counts are dense";
    if (on_host.empty()) return run_dpc_cuda(volume, options, job);
  }
  QUANTEM_TRY_ASSIGN(com, com_field(volume, options.mask, job));
  if (!on_host.empty()) com.provenance.warn("dpc: on the host, from sums of the device: " + on_host);
  QUANTEM_TRY_ASSIGN(result, run_dpc(com, volume.calibration(), options));
  result.elapsed_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace quantem
