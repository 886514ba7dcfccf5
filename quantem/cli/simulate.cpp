// `quantem-gpu simulate`: an acquisition with known phase, and the truth beside it.

#include "quantem/simulate/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "quantem/cli/npy.h"
#include "quantem/cli/output_set.h"
#include "quantem/cli/parse.h"
#include "quantem/cli/verbs.h"
#include "quantem/io/save.h"

namespace quantem::cli {
namespace {

namespace fs = std::filesystem;

struct Target {
  bool arina = false;
  fs::path file, phase, blurred, about;
};

Result<Target> target_of(const std::string& out) {
  Target target;
  target.file = out;
  std::string stem = target.file.filename().string();
  constexpr std::string_view kMaster = "_master.h5", kNpy = ".npy";
  if (stem.ends_with(kMaster) && stem.size() > kMaster.size()) {
    target.arina = true;
    stem.resize(stem.size() - kMaster.size());
  } else if (stem.ends_with(kNpy) && stem.size() > kNpy.size()) {
    stem.resize(stem.size() - kNpy.size());
  } else {
    return Error{Code::invalid_argument, fmt::format("simulate: OUT must end in _master.h5 or .npy, found '{}'", out)};
  }
  const fs::path folder = target.file.parent_path();
  target.phase = folder / (stem + "_phase.npy");
  target.blurred = folder / (stem + "_phase_blurred.npy");
  target.about = folder / (stem + "_simulation.json");
  return target;
}

// C_nm of magnitude `length` and azimuth `degrees`, in the Cartesian form that has no angle.
Aberration polar(int n, int m, double nm, double degrees) {
  const double angle = m * degrees * std::numbers::pi / 180;
  return {n, m, 10 * nm * std::cos(angle), 10 * nm * std::sin(angle)};
}

Result<Aberrations> aberrations_of(const SimulateArguments& a) {
  QUANTEM_TRY_ASSIGN(c10, parse_number(a.c10_nm, "--c10-nm"));
  QUANTEM_TRY_ASSIGN(c12, parse_number(a.c12_nm, "--c12-nm"));
  QUANTEM_TRY_ASSIGN(phi12, parse_number(a.phi12_deg, "--phi12-deg"));
  QUANTEM_TRY_ASSIGN(c21, parse_number(a.c21_nm, "--c21-nm"));
  QUANTEM_TRY_ASSIGN(phi21, parse_number(a.phi21_deg, "--phi21-deg"));
  Aberrations list;
  if (c10 != 0) list.push_back(polar(1, 0, c10, 0));
  if (c12 != 0) list.push_back(polar(1, 2, c12, phi12));
  if (c21 != 0) list.push_back(polar(2, 1, c21, phi21));
  return list;
}

Result<SimulateOptions> simulate_options(const SimulateArguments& a) {
  SimulateOptions options;
  QUANTEM_TRY_ASSIGN(scan, parse_extent(a.scan, "--scan"));
  QUANTEM_TRY_ASSIGN(det, parse_extent(a.detector, "--detector"));
  options.scan = scan, options.det = det;
  QUANTEM_TRY_ASSIGN(step, parse_step(a.scan_step_A, "--scan-step-a"));
  options.scan_step_A = step;
  QUANTEM_TRY_ASSIGN(voltage, parse_positive(a.voltage_kV, "--voltage-kv"));
  QUANTEM_TRY_ASSIGN(semiangle, parse_positive(a.semiangle_mrad, "--semiangle-mrad"));
  options.voltage_kV = voltage, options.semiangle_mrad = semiangle;
  const double disc_px = std::min(det.rows, det.cols) / 6.0;  // three disc radii from the axis to the edge
  options.det_step_mrad = {semiangle / disc_px, semiangle / disc_px};
  if (!a.det_mrad.empty()) {
    QUANTEM_TRY_ASSIGN(det_step, parse_step(a.det_mrad, "--det-mrad"));
    options.det_step_mrad = det_step;
  }
  if (!a.center.empty()) {
    QUANTEM_TRY_ASSIGN(center, parse_point(a.center, "--center"));
    options.center_px = center;
  }
  QUANTEM_TRY_ASSIGN(peak, parse_positive(a.phase_max, "--phase-max"));
  options.specimen = crystal(scan, step, 4.0, peak);
  QUANTEM_TRY_ASSIGN(aberrations, aberrations_of(a));
  options.aberrations = aberrations;
  QUANTEM_TRY_ASSIGN(rotation, parse_number(a.rotation_deg, "--rotation-deg"));
  options.rotation_deg = rotation, options.transpose = a.transpose;
  QUANTEM_TRY_ASSIGN(dose, parse_number(a.dose, "--dose"));
  QUANTEM_TRY_ASSIGN(seed, parse_unsigned(a.seed, "--seed"));
  options.dose = dose, options.seed = seed;
  auto dtype = parse_dtype(a.dtype);
  if (!dtype) return with_context("--dtype", dtype.error());
  options.dtype = *dtype;
  return options;
}

Json about_json(const Simulation& s, const Target& target) {
  const SimulateOptions& o = s.options;
  Json json = {{"schema", "quantem.gpu.simulation/v1"}, {"version", software_revision()}};
  json["file"] = target.file.filename().string();
  json["true_phase"] = target.phase.filename().string();
  json["blurred_phase"] = target.blurred.filename().string();
  json["shape"] = shape_json(s.shape);
  json["dtype"] = dtype_name(s.dtype);
  json["dose_electrons_per_frame"] = o.dose;
  json["seed"] = o.seed;
  json["voltage_kV"] = o.voltage_kV;
  json["semiangle_mrad"] = o.semiangle_mrad;
  json["scan_step_A"] = to_json_array(o.scan_step_A);
  json["det_step_mrad"] = to_json_array(o.det_step_mrad);
  json["center_px"] = s.calibration.center_px.value ? to_json_array(*s.calibration.center_px.value) : Json();
  json["rotation_deg"] = o.rotation_deg;
  json["transpose"] = o.transpose;
  json["aberrations"] = to_string(o.aberrations);
  json["phase_max_rad"] = *std::max_element(s.phase_rad.begin(), s.phase_rad.end());
  json["periodic"] = true;
  return json;
}

Result<SaveReport> write_counts(const Simulation& s, const Target& target, bool overwrite, Session& session) {
  const FrameProvider frames = [&](std::uint64_t position, std::span<std::byte> out) { return s.frame(position, out); };
  if (!target.arina) return write_npy(target.file, s.shape, s.dtype, frames, overwrite, session.job());
  ArinaSpec spec;
  spec.shape = s.shape, spec.dtype = s.dtype, spec.overwrite = overwrite;
  spec.voltage_kV = s.options.voltage_kV;
  spec.calibration = s.calibration;
  spec.metadata = {{"description", "simulated by quantem-gpu " + software_revision()}};
  return write_arina(target.file, spec, frames, session.job());
}

}  // namespace

Result<Answer> simulate(const SimulateArguments& arguments, Session& session) {
  QUANTEM_TRY_ASSIGN(options, simulate_options(arguments));
  QUANTEM_TRY_ASSIGN(target, target_of(arguments.out));
  if (target.arina && options.dose == 0)
    return Error{Code::invalid_argument,
                 "simulate: --dose 0 makes float32 intensities, which an Arina master does not hold; write NAME.npy"};
  for (const fs::path& file : {target.file, target.phase, target.blurred, target.about})
    QUANTEM_TRY(check_absent(file, arguments.overwrite));
  QUANTEM_TRY_ASSIGN(simulation, quantem::simulate(options, session.job()));
  QUANTEM_TRY_ASSIGN(saved, write_counts(simulation, target, arguments.overwrite, session));
  const std::vector<std::uint64_t> scan = {simulation.shape.scan.rows, simulation.shape.scan.cols};
  QUANTEM_TRY(write_whole(target.phase, npy_of(simulation.phase_rad, scan), arguments.overwrite));
  QUANTEM_TRY(write_whole(target.blurred, npy_of(simulation.blurred_rad, scan), arguments.overwrite));
  const Json about = about_json(simulation, target);
  QUANTEM_TRY(write_whole(target.about, about.dump(2) + "\n", arguments.overwrite));

  Answer answer;
  answer.result = about;
  answer.result["files"] = Json::array();
  for (const fs::path& file : saved.files) answer.result["files"].push_back(file.string());
  for (const fs::path& file : {target.phase, target.blurred, target.about})
    answer.result["files"].push_back(file.string());
  answer.result["logical_bytes"] = saved.logical_bytes;
  answer.result["stored_bytes"] = saved.stored_bytes;
  answer.text =
      fmt::format("{}: {} scan positions, {} detector pixels, {}, {} dense, {} stored\n", target.file.string(),
                  to_string(simulation.shape.scan), to_string(simulation.shape.det), dtype_name(simulation.dtype),
                  format_bytes(saved.logical_bytes), format_bytes(saved.stored_bytes));
  answer.text += fmt::format("  true phase: {}\n  blurred by the probe: {}\n  how it was made: {}\n",
                             target.phase.string(), target.blurred.string(), target.about.string());
  return answer;
}

}  // namespace quantem::cli
