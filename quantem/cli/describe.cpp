#include "quantem/cli/describe.h"

#include <fmt/format.h>

#include "quantem/cli/parse.h"
#include "quantem/display/figure.h"

namespace quantem::cli {
namespace {

Json value_json(double value) {
  return value;
}
Json value_json(Pair value) {
  return to_json_array(value);
}
Json value_json(Point value) {
  return to_json_array(value);
}

std::string value_text(double value) {
  return format_number(value);
}
std::string value_text(Pair value) {
  if (value.row == value.col) return format_number(value.row);
  return format_number(value.row) + " x " + format_number(value.col);
}
std::string value_text(Point value) {
  return "(" + format_number(value.row) + ", " + format_number(value.col) + ")";
}

template <class T>
Json known_json(const Known<T>& known) {
  Json json;
  json["value"] = known.value ? value_json(*known.value) : Json();
  json["unit"] = known.unit.empty() ? Json() : Json(known.unit);
  json["origin"] = known.value ? Json(origin_name(known.origin)) : Json();
  json["note"] = known.note.empty() ? Json() : Json(known.note);
  return json;
}

std::string_view origin_words(Origin origin) {
  return origin == Origin::side_file ? "side file" : origin_name(origin);
}

// Calls f(key, words, known) for every value of a calibration.
template <class F>
void visit(const Calibration& c, F&& f) {
  f("voltage_kV", "voltage", c.voltage_kV);
  f("semiangle_mrad", "semi-angle", c.semiangle_mrad);
  f("scan_sampling_A", "scan step", c.scan_sampling_A);
  f("det_sampling_mrad", "detector pixel", c.det_sampling_mrad);
  f("center_px", "centre", c.center_px);
  f("radius_px", "disc radius", c.radius_px);
  f("rotation_deg", "rotation", c.rotation_deg);
  f("camera_length_mm", "camera length", c.camera_length_mm);
  f("dwell_us", "dwell", c.dwell_us);
}

}  // namespace

Json to_json_array(Extent e) {
  return Json::array({e.rows, e.cols});
}
Json to_json_array(Point p) {
  return Json::array({p.row, p.col});
}
Json to_json_array(Pair p) {
  return Json::array({p.row, p.col});
}
Json shape_json(const Shape4& s) {
  return {{"scan", to_json_array(s.scan)}, {"detector", to_json_array(s.det)}};
}

Json calibration_json(const Calibration& calibration) {
  Json json;
  visit(calibration, [&](const char* key, const char*, const auto& known) { json[key] = known_json(known); });
  return json;
}

std::string calibration_text(const Calibration& calibration) {
  std::string text;
  visit(calibration, [&](const char*, const char* words, const auto& known) {
    if (!known.value) return;
    text += fmt::format("{}{} {}{}{} ({}{})", text.empty() ? "" : ", ", words, value_text(*known.value),
                        known.unit.empty() || known.unit == "deg" ? "" : " ", pretty_unit(known.unit),
                        origin_words(known.origin),
                        known.note.empty() || known.origin == Origin::caller ? "" : ": " + known.note);
  });
  return text.empty() ? "not calibrated: axes are in pixels" : text;
}

Json audit_json(const Volume& volume) {
  const Audit& a = volume.audit();
  const std::uint64_t cols = volume.shape().scan.cols, det_cols = volume.shape().det.cols;
  Json json = {{"count_min", a.count_min}, {"count_max", a.count_max}};
  json["max_position"] = {a.max_position / cols, a.max_position % cols};
  json["max_pixel"] = {a.max_pixel / det_cols, a.max_pixel % det_cols};
  json["n_values"] = a.n_values;
  json["n_nonzero"] = a.n_nonzero;
  json["n_above_255"] = a.n_above_255;
  json["n_above_65535"] = a.n_above_65535;
  json["n_saturated"] = a.n_saturated;
  json["n_flagged"] = a.n_flagged;
  json["n_nonfinite"] = a.n_nonfinite;
  json["digest"] = a.digest;
  return json;
}

Json provenance_json(const Provenance& provenance) {
  return Json::parse(to_json(provenance), nullptr, false);
}

}  // namespace quantem::cli
