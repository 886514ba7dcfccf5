#include "quantem/cli/deflection.h"

#include <fmt/format.h>

#include "quantem/cli/parse.h"

namespace quantem::cli {
namespace {

Result<Descan> descan_of(const std::string& text) {
  if (text.find(',') == std::string::npos) {
    auto parsed = parse_descan(text);
    if (!parsed) return with_context("--descan", parsed.error());
    return parsed;
  }
  QUANTEM_TRY_ASSIGN(point, parse_point(text, "--descan"));
  Descan how;
  how.kind = Descan::Kind::fixed, how.fixed = point;
  return how;
}

Result<std::optional<bool>> transpose_of(const std::string& text) {
  if (text == "auto") return std::optional<bool>();
  if (text == "yes" || text == "true" || text == "1") return std::optional(true);
  if (text == "no" || text == "false" || text == "0") return std::optional(false);
  return Error{Code::invalid_argument, "--transpose: expected yes, no or auto, found '" + text + "'"};
}

bool knows_radians(const Calibration& c) {
  return c.voltage_kV.value && c.det_sampling_mrad.value && c.scan_sampling_A.value;
}

Result<Done> set_filters(const DpcArguments& arguments, DpcOptions& options) {
  const std::pair<const std::string*, std::pair<std::optional<double>*, const char*>> cutoffs[] = {
      {&arguments.highpass, {&options.highpass, "--highpass"}}, {&arguments.lowpass, {&options.lowpass, "--lowpass"}}};
  for (const auto& [text, target] : cutoffs)
    if (!text->empty()) {
      QUANTEM_TRY_ASSIGN(value, parse_positive(*text, target.second));
      *target.first = value;
    }
  if (!arguments.epsilon.empty()) {
    QUANTEM_TRY_ASSIGN(value, parse_number(arguments.epsilon, "--epsilon"));
    options.epsilon = value;
  }
  if (!arguments.order.empty()) {
    QUANTEM_TRY_ASSIGN(value, parse_unsigned(arguments.order, "--order"));
    if (value < 1 || value > 64)
      return Error{Code::invalid_argument, fmt::format("--order: expected 1 to 64, found {}", value)};
    options.order = static_cast<std::uint32_t>(value);
  }
  return Done{};
}

}  // namespace

Result<DpcOptions> dpc_options(const DpcArguments& arguments, const Calibration& calibration) {
  DpcOptions options;
  QUANTEM_TRY_ASSIGN(how, descan_of(arguments.descan));
  options.descan = how;
  if (arguments.rotation_deg != "auto") {
    QUANTEM_TRY_ASSIGN(degrees, parse_number(arguments.rotation_deg, "--rotation-deg"));
    options.rotation_deg = degrees;
  }
  QUANTEM_TRY_ASSIGN(transpose, transpose_of(arguments.transpose));
  options.transpose = transpose;
  auto method = parse_rotation_method(arguments.method);
  if (!method) return with_context("--method", method.error());
  options.method = *method;
  if (arguments.polarity == "defocus")
    return Error{Code::unsupported,
                 "--polarity: defocus compares a known C10 with one fitted to the data, and no verb fits "
                 "one yet; use skewness (atoms are bright) or none"};
  if (!arguments.polarity.empty()) {
    auto polarity = parse_polarity(arguments.polarity == "none" ? "undetermined" : arguments.polarity);
    if (!polarity) return with_context("--polarity", polarity.error());
    options.polarity = *polarity;
  }
  options.units = knows_radians(calibration) ? IdpcUnits::rad : IdpcUnits::relative;
  if (!arguments.units.empty()) {
    auto units = parse_idpc_units(arguments.units);
    if (!units) return with_context("--units", units.error());
    options.units = *units;
  }
  if (!arguments.boundary.empty()) {
    auto boundary = parse_boundary(arguments.boundary);
    if (!boundary) return with_context("--boundary", boundary.error());
    options.boundary = *boundary;
  }
  if (!arguments.sign.empty()) {
    QUANTEM_TRY_ASSIGN(sign, parse_number(arguments.sign, "--sign"));
    if (sign != 1 && sign != -1)
      return Error{Code::invalid_argument, "--sign: expected 1 or -1, found '" + arguments.sign + "'"};
    options.sign = sign;
  }
  QUANTEM_TRY(set_filters(arguments, options));
  return options;
}

void add_com_maps(const ComField& com, const Calibration& calibration, Collection& collection) {
  const ComMaps maps = to_maps(com);
  Look look;
  look.step = scan_step(calibration), look.colormap = "RdBu_r", look.subtitle = "detector axes, absolute";
  collection.add("com_row", "CoM row", maps.row, look);
  collection.add("com_col", "CoM col", maps.col, look);
}

Result<DpcResult> dpc_where_counts_are(const Volume& volume, const ComField& com, const Calibration& calibration,
                                       const DpcOptions& options) {
  if (volume.device().backend() == Backend::cuda) return run_dpc(volume.with_calibration(calibration), options);
  return run_dpc(com, calibration, options);
}

Result<DeflectionAnswer> add_deflection(DpcResult result, const Calibration& calibration, const DpcOptions& options,
                                        bool with_dpc, bool with_idpc, bool details, Collection& collection) {
  const Boundary boundary = options.boundary.value_or(default_boundary(options.units));
  DeflectionAnswer answer;
  answer.json = {{"rotation_deg", result.rotation.rotation_deg},
                 {"transpose", result.rotation.transpose},
                 {"origin", result.rotation_given ? "caller" : "measured"},
                 {"method", result.rotation_given ? Json() : Json(method_name(result.rotation.method))},
                 {"curl_fraction", result.rotation.curl_fraction},
                 {"polarity", polarity_name(result.rotation.polarity)},
                 {"skewness", result.rotation.skewness},
                 {"ambiguous", result.rotation.ambiguous},
                 {"units", units_name(options.units)},
                 {"boundary", boundary_name(boundary)},
                 {"descan", descan_name(result.descan)},
                 {"filled", result.filled}};
  answer.lines.push_back(fmt::format(
      "rotation {:.2f} deg{} ({}{}), polarity {}", result.rotation.rotation_deg,
      result.rotation.transpose ? ", axes exchanged" : "",
      result.rotation_given ? "given" : "measured: ", result.rotation_given ? "" : method_name(result.rotation.method),
      result.rotation_given ? "as given" : polarity_name(result.rotation.polarity)));

  Look look;
  look.step = scan_step(calibration);
  look.subtitle = fmt::format("{}turned by {:.2f}°", result.rotation.transpose ? "axes exchanged, " : "",
                              result.rotation.rotation_deg);
  if (with_dpc) {
    Look magnitude = look;
    magnitude.colormap = "inferno";
    collection.add("dpc_magnitude", "DPC magnitude", result.magnitude, magnitude);
    Look direction = look;
    direction.colormap = "twilight";
    direction.limits = {-180, 180};
    direction.subtitle = "0 points down (+row), 90 right (+col)";
    collection.add("dpc_direction", "DPC direction", result.direction_deg, direction);
    Look vectors = look;
    vectors.subtitle = "hue: direction, brightness: magnitude";
    collection.add_vectors("DPC", result.com_row_aligned, result.com_col_aligned, vectors);
  }
  if (with_idpc) {
    const bool sign_known = result.rotation_given || result.rotation.polarity != Polarity::undetermined;
    look.subtitle = fmt::format("{}, {} boundary{}", options.units == IdpcUnits::rad ? "phase" : "signal, not a phase",
                                boundary_name(boundary), sign_known ? "" : ", sign unknown");
    collection.add("idpc", "iDPC", result.phase, look);
    answer.phase = result.phase;
  }
  if (details) {
    Look field = look;
    field.symmetric = true, field.colormap = "RdBu_r", field.subtitle = "scan axes, descanned";
    collection.add("com_row_aligned", "CoM row, aligned", result.com_row_aligned, field);
    collection.add("com_col_aligned", "CoM col, aligned", result.com_col_aligned, field);
    collection.add("divergence", "Divergence", result.divergence, field);
    collection.add("curl", "Curl", result.curl, field);
  }
  return answer;
}

}  // namespace quantem::cli
