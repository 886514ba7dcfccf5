#include "quantem/core/provenance.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "quantem/core/revision.inc"  // made by cmake/revision.cmake

namespace quantem {
namespace {

using Json = nlohmann::ordered_json;

Json to_value(const ParameterValue& value) {
  return std::visit([](const auto& v) { return Json(v); }, value);
}

Json to_object(const Parameters& parameters) {
  Json out = Json::object();
  for (const auto& [name, value] : parameters) out[name] = to_value(value);
  return out;
}

Json to_list(const Region& r) {
  return {r.row_start, r.row_stop, r.col_start, r.col_stop};
}
Json to_list(Extent e) {
  return {e.rows, e.cols};
}

}  // namespace

void Provenance::add_evidence(const std::string& word) {
  if (std::find(evidence.begin(), evidence.end(), word) == evidence.end()) evidence.push_back(word);
}

void Provenance::warn(const std::string& text) {
  if (std::find(warnings.begin(), warnings.end(), text) == warnings.end()) warnings.push_back(text);
}

std::string to_json(const Provenance& p, int indent) {
  Json out;
  out["schema"] = "quantem.gpu.provenance/v1";
  out["operation"] = p.operation;
  out["path"] = p.path;
  out["parameters"] = to_object(p.parameters);
  Json sources = Json::array();
  for (const SourceFile& f : p.source_identity)
    sources.push_back({{"name", f.name},
                       {"bytes", f.bytes},
                       {"mtime_ns", f.mtime_ns},
                       {"sha256", f.sha256.empty() ? Json() : Json(f.sha256)}});
  out["source_identity"] = std::move(sources);
  out["source_shape"] = {p.source_shape.scan.rows, p.source_shape.scan.cols, p.source_shape.det.rows,
                         p.source_shape.det.cols};
  out["source_dtype"] = p.source_dtype;
  out["scan_region"] = to_list(p.scan_region);
  out["detector_region"] = to_list(p.detector_region);
  out["scan_bin"] = to_list(p.scan_bin);
  out["detector_bin"] = to_list(p.detector_bin);
  out["scan_order"] = p.scan_order;
  out["output_shape"] = p.output_shape;
  out["output_dtype"] = p.output_dtype;
  out["accumulator_dtype"] = p.accumulator_dtype;
  out["bad_pixels"] = {{"count", p.bad_pixels.count}, {"sha256", p.bad_pixels.sha256}, {"policy", p.bad_pixels.policy}};
  out["missing_positions"] = p.missing_positions;
  out["flagged"] = p.flagged_samples;
  out["ignored_frames"] = p.ignored_frames;
  out["mask"] = p.mask.sha256.empty() ? Json() : Json{{"sha256", p.mask.sha256}, {"n_pixels", p.mask.n_pixels}};
  if (p.probe)
    out["probe"] = {{"center", {p.probe->center.row, p.probe->center.col}},
                    {"radius", p.probe->radius},
                    {"origin", {{"center", p.probe->center_origin}, {"radius", p.probe->radius_origin}}}};
  else
    out["probe"] = nullptr;
  out["backend"] = p.backend;
  out["device"] = p.device;
  out["source_revision"] = software_revision();
  out["representation"] = p.representation;
  out["codec_profile"] = p.codec_profile.empty() ? Json() : Json(p.codec_profile);
  out["evidence"] = p.evidence.empty() ? std::vector<std::string>{"native"} : p.evidence;
  out["warnings"] = p.warnings;
  Json steps = Json::array();
  for (const ProcessingStep& s : p.steps)
    steps.push_back({{"operation", s.operation},
                     {"changes_measurements", s.changes_measurements},
                     {"parameters", to_object(s.parameters)}});
  out["steps"] = std::move(steps);
  // Names of files are bytes: what is not UTF-8 is replaced rather than refused.
  return out.dump(indent, ' ', false, Json::error_handler_t::replace);
}

std::string software_revision() {
  return QUANTEM_REVISION;
}

}  // namespace quantem
