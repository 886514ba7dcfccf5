#include "quantem/cli/detectors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "quantem/cli/npy.h"
#include "quantem/cli/parse.h"

namespace quantem::cli {
namespace {

struct Named {
  const char *name, *title;
};
constexpr Named kTitles[] = {{"bf", "BF"}, {"abf", "ABF"},     {"adf", "ADF"},         {"haadf", "HAADF"},
                             {"df", "DF"}, {"total", "Total"}, {"annular", "Annular"}, {"masked", "Mask"}};

// "r <= 15.73 px, 19.7 mrad"; "15.73 to 31.45 px, 19.7 to 39.3 mrad"; "from 15.73 px, 19.7 mrad"
std::string limits_text(double inner, double outer, const Calibration& calibration) {
  const auto& step = calibration.det_sampling_mrad.value;
  const bool with_mrad = step && step->row == step->col;
  const double mrad = with_mrad ? step->row : 0;
  if (std::isinf(outer))
    return fmt::format("from {:.2f} px", inner) + (with_mrad ? fmt::format(", {:.1f} mrad", inner * mrad) : "");
  if (inner == 0)
    return fmt::format("r <= {:.2f} px", outer) + (with_mrad ? fmt::format(", {:.1f} mrad", outer * mrad) : "");
  return fmt::format("{:.2f} to {:.2f} px", inner, outer) +
         (with_mrad ? fmt::format(", {:.1f} to {:.1f} mrad", inner * mrad, outer * mrad) : "");
}

// The circle lies on the detector; else its detector is cut at the edge.
bool fits(Point center, double radius_px, Extent det) {
  return center.row - radius_px >= -0.5 && center.col - radius_px >= -0.5 && center.row + radius_px <= det.rows - 0.5 &&
         center.col + radius_px <= det.cols - 0.5;
}

Result<RadiusUnit> unit_of(const ProbeArguments& arguments) {
  auto unit = parse_radius_unit(arguments.unit);
  if (!unit) return with_context("--unit", unit.error());
  return unit;
}

Result<double> radius_of(const std::string& text, const char* option, const ProductsArguments& arguments,
                         const ProbeFacts& facts, const Calibration& calibration) {
  QUANTEM_TRY_ASSIGN(unit, unit_of(arguments.probe));
  QUANTEM_TRY_ASSIGN(value, parse_number(text, option));
  if (value < 0)
    return Error{Code::invalid_argument, fmt::format("{}: expected a number from 0, found '{}'", option, text)};
  auto px = to_pixels(value, unit, calibration, facts.radius_px);
  if (!px) return with_context(option, px.error());
  return px;
}

// The limits of a ring: its band's, with those that the caller gave in their place.
Result<BandEdges> ring_edges(const std::string& name, const ProductsArguments& arguments, const ProbeFacts& facts,
                             const Calibration& calibration) {
  const auto selected = [&](const std::string& n) {
    return std::find(arguments.selected.begin(), arguments.selected.end(), n) != arguments.selected.end();
  };
  const bool own_limits = name == "annular" || (name != "bf" && selected(name));
  const bool inner_given = own_limits && !arguments.inner.empty(), outer_given = own_limits && !arguments.outer.empty();
  BandEdges edges{0, INFINITY};
  if (name != "annular" && !(inner_given && outer_given)) {
    QUANTEM_TRY_ASSIGN(which, parse_band(name));
    if (!facts.radius_px) return *facts.reason;
    edges = band_edges(which, *facts.radius_px);
  }
  if (inner_given) {
    QUANTEM_TRY_ASSIGN(px, radius_of(arguments.inner, "--inner", arguments, facts, calibration));
    edges.inner_px = px;
  }
  if (outer_given) {
    QUANTEM_TRY_ASSIGN(px, radius_of(arguments.outer, "--outer", arguments, facts, calibration));
    edges.outer_px = px;
  }
  return edges;
}

}  // namespace

bool is_detector(const std::string& name) {
  return std::any_of(std::begin(kTitles), std::end(kTitles), [&](const Named& n) { return n.name == name; });
}

Result<ProbeFacts> probe_facts(const ProbeArguments& arguments, const Pattern<double>& mean,
                               const BitMask& valid_pixels, const Calibration& calibration) {
  ProbeFacts facts;
  if (!arguments.center.empty()) {
    QUANTEM_TRY_ASSIGN(center, parse_point(arguments.center, "--center"));
    facts.center = center;
  }
  if (!arguments.radius.empty()) {
    QUANTEM_TRY_ASSIGN(unit, unit_of(arguments));
    QUANTEM_TRY_ASSIGN(value, parse_positive(arguments.radius, "--radius"));
    auto px = to_pixels(value, unit, calibration, std::nullopt);
    if (!px) return with_context("--radius", px.error());
    facts.radius_px = *px;
  }
  const auto found = find_probe(mean, valid_pixels, {facts.center, facts.radius_px});
  if (found) {
    facts.probe = *found;
    facts.center = found->center;
    facts.radius_px = found->radius;
  } else if (found.error().code == Code::undetermined) {
    facts.reason = found.error();
  } else {
    return found.error();
  }
  return facts;
}

Result<VirtualDetector> make_detector(const std::string& name, const ProductsArguments& arguments,
                                      const ProbeFacts& facts, Extent det, const Calibration& calibration) {
  VirtualDetector detector;
  detector.name = name;
  for (const Named& n : kTitles)
    if (n.name == name) detector.title = n.title;
  if (name == "total") {
    detector.mask = all_pixels(det);
    detector.subtitle = "all counts";
    return detector;
  }
  if (name == "masked") {
    QUANTEM_TRY_ASSIGN(selection, selection_of_file(arguments.mask, det));
    const std::string name_only = std::filesystem::path(arguments.mask).filename().string();
    if (auto* weights = std::get_if<Weights>(&selection)) {
      detector.weights = std::move(*weights);
      detector.title = "Weighted";
      detector.subtitle = "weights of " + name_only;
    } else {
      detector.mask = std::get<Mask>(std::move(selection));
      detector.subtitle = fmt::format("{} pixels of {}", detector.mask.n_selected(), name_only);
    }
    return detector;
  }
  if (!facts.center) return *facts.reason;
  QUANTEM_TRY_ASSIGN(edges, ring_edges(name, arguments, facts, calibration));
  QUANTEM_TRY_ASSIGN(mask, annulus(*facts.center, edges.inner_px, edges.outer_px, det));
  detector.mask = std::move(mask);
  detector.subtitle = limits_text(edges.inner_px, edges.outer_px, calibration);
  if (std::isfinite(edges.outer_px) && !fits(*facts.center, edges.outer_px, det)) detector.subtitle += ", cut";
  return detector;
}

Result<std::variant<Mask, Weights>> selection_of_file(const std::string& file, Extent det) {
  using Selection = std::variant<Mask, Weights>;
  QUANTEM_TRY_ASSIGN(array, read_npy(file));
  if (array.shape != std::vector<std::uint64_t>{det.rows, det.cols})
    return Error{Code::invalid_argument, fmt::format("--mask {}: expected shape {}, found {}", file, to_string(det),
                                                     npy_shape_text(array.shape))};
  const bool is_float = array.descr.size() > 1 && array.descr[1] == 'f';
  const bool binary = !is_float && std::all_of(array.values.begin(), array.values.end(),
                                               [](double value) { return value == 0 || value == 1; });
  if (!binary) {
    auto weights = weights_from(array.values, det);
    if (!weights) return with_context("--mask " + file, weights.error());
    return Selection(*std::move(weights));
  }
  std::vector<std::uint8_t> bits(array.values.begin(), array.values.end());
  auto mask = mask_from(bits, det);
  if (!mask) return with_context("--mask " + file, mask.error());
  return Selection(*std::move(mask));
}

}  // namespace quantem::cli
