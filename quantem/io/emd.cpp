#include "quantem/io/emd.h"

#include <cmath>
#include <numbers>

#include "quantem/core/units.h"
#include "quantem/io/dataset_bytes_locked.h"
#include "quantem/io/hdf5_index.h"
#include "quantem/io/metadata.h"

namespace quantem {
namespace {
using hdf5::File;
using nlohmann::json;

std::string parent_of(const std::string& path) {
  const std::size_t cut = path.rfind('/');
  return cut == std::string::npos || cut == 0 ? "/" : path.substr(0, cut);
}

bool is_emd_array(const std::shared_ptr<const File>& file, const std::string& group) {
  auto object = hdf5::find_object(file, group);
  if (!object) return false;
  const auto type = hdf5::read_attribute(*object, "emd_group_type");
  return hdf5::as_count(type) == std::uint64_t{1} || hdf5::as_text(type) == "array";
}

struct Step {
  double value;
  std::string unit;
};

// Step of an axis vector: second value minus first.
std::optional<Step> axis_step(const std::shared_ptr<const File>& file, const std::string& path) {
  auto axis = hdf5::find_object(file, path);
  if (!axis) return std::nullopt;
  const auto values = hdf5::read_value(*axis);
  if (!values || !values->is_array() || values->size() < 2 || !(*values)[0].is_number() || !(*values)[1].is_number())
    return std::nullopt;
  const double step = std::abs((*values)[1].get<double>() - (*values)[0].get<double>());
  if (!std::isfinite(step) || step <= 0) return std::nullopt;
  return Step{step, hdf5::as_text(hdf5::read_attribute(*axis, "units")).value_or("")};
}

void set_steps(Container& c, const std::optional<Step>& row, const std::optional<Step>& col, bool detector) {
  if (!row || !col) return;
  Calibration& k = c.calibration;
  if (!detector) {
    const auto a = unit_scale(row->unit, "A"), b = unit_scale(col->unit, "A");
    if (a && b && !k.scan_sampling_A)
      k.scan_sampling_A = {Pair{row->value * *a, col->value * *b}, "A", Origin::file, ""};
    return;
  }
  if (k.det_sampling_mrad) return;
  if (const auto a = unit_scale(row->unit, "mrad"), b = unit_scale(col->unit, "mrad"); a && b) {
    k.det_sampling_mrad = {Pair{row->value * *a, col->value * *b}, "mrad", Origin::file, ""};
    return;
  }
  if (!k.voltage_kV) return;  // angle = wavelength * spatial frequency
  const auto a = convert(row->value, plain_unit(row->unit), "mrad", *k.voltage_kV.value);
  const auto b = convert(col->value, plain_unit(col->unit), "mrad", *k.voltage_kV.value);
  if (a && b) k.det_sampling_mrad = {Pair{*a, *b}, "mrad", Origin::derived, "from reciprocal lengths and the voltage"};
}

std::optional<double> scalar(const json& all, const char* name) {
  const auto found = all.find(name);
  const auto value = found == all.end() ? std::nullopt : hdf5::as_number(*found);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

// <root>/metadatabundle/calibration as py4DSTEM writes it.
void take_py4dstem(Container& c, const json& all) {
  Calibration& k = c.calibration;
  const auto text = [&](const char* name) {
    const auto found = all.find(name);
    return found == all.end() ? std::string() : hdf5::as_text(*found).value_or("");
  };
  if (const auto r = scalar(all, "R_pixel_size"); r && *r > 0) {
    const Step step{*r, text("R_pixel_units")};
    set_steps(c, step, step, false);
  }
  if (const auto q = scalar(all, "Q_pixel_size"); q && *q > 0) {
    const Step step{*q, text("Q_pixel_units")};
    set_steps(c, step, step, true);
  }
  if (const auto rotation = scalar(all, "QR_rotation"))
    k.rotation_deg = {*rotation * 180 / std::numbers::pi, "deg", Origin::file,
                      scalar(all, "QR_flip").value_or(0) != 0 ? "QR_rotation, with QR_flip" : "QR_rotation"};
  const auto row = scalar(all, "qx0_mean"), col = scalar(all, "qy0_mean");
  if (row && col) k.center_px = {Point{*row, *col}, "px", Origin::file, "qx0_mean, qy0_mean"};
}

}  // namespace

std::vector<std::string> emd_datacubes(const std::shared_ptr<const File>& file) {
  std::vector<std::string> cubes;
  const auto paths = list_datasets_locked(file, 10000);
  if (!paths) return cubes;
  for (const std::string& path : *paths) {
    const std::string name = path.substr(path.rfind('/') + 1);
    if ((name != "data" && name != "datacube") || !is_emd_array(file, parent_of(path))) continue;
    auto object = hdf5::find_object(file, path);
    if (!object) continue;
    const auto shape = hdf5::dataset_shape(*object);
    if (shape && shape->size() == 4) cubes.push_back(path);
  }
  return cubes;
}

bool is_velox(const std::shared_ptr<const File>& file) {
  const auto version = hdf5::as_text(hdf5::read_value(file, "/Version"));
  if (version && version->find("Velox") != std::string::npos) return true;
  auto images = hdf5::find_object(file, "/Data/Image");
  if (!images) return false;
  for (const hdf5::Link& link : hdf5::list_links(*images, 8))
    if (hdf5::find_object(file, "/Data/Image/" + link.name + "/Metadata") &&
        hdf5::find_object(file, "/Data/Image/" + link.name + "/Data"))
      return true;
  return false;
}

void read_emd_calibration(Container& c, const std::shared_ptr<const File>& file, const std::string& dataset) {
  const std::string group = parent_of(dataset);
  if (!is_emd_array(file, group)) return;
  c.format = "emd";
  json found = json::object();
  auto bundle = hdf5::find_object(file, parent_of(group) + "/metadatabundle/calibration");
  if (bundle)
    for (const hdf5::Link& link : hdf5::list_links(*bundle, 200))
      if (auto value = hdf5::read_value(file, bundle->path + "/" + link.name)) found[link.name] = std::move(*value);
  take_py4dstem(c, found);
  const int first = hdf5::find_object(file, group + "/dim0") ? 0 : 1;  // EMD 1.0 counts from 0, EMD 0.x from 1
  std::optional<Step> steps[4];
  json axes = json::array();
  for (int d = 0; d < 4; ++d) {
    const std::string path = group + "/dim" + std::to_string(first + d);
    steps[d] = axis_step(file, path);
    json axis = json::object();
    if (auto object = hdf5::find_object(file, path)) axis = hdf5::read_attributes(*object);
    if (steps[d]) axis["step"] = steps[d]->value;
    axes.push_back(std::move(axis));
  }
  set_steps(c, steps[0], steps[1], false);
  set_steps(c, steps[2], steps[3], true);
  add_metadata(c, "emd", {{"calibration", std::move(found)}, {"axes", std::move(axes)}});
}

void read_velox_metadata(Container& c, const std::shared_ptr<const File>& file) {
  auto images = hdf5::find_object(file, "/Data/Image");
  if (!images) return;
  for (const hdf5::Link& link : hdf5::list_links(*images, 64)) {
    auto object = hdf5::find_object(file, "/Data/Image/" + link.name + "/Metadata");
    if (!object) continue;
    const auto bytes = read_dataset_bytes_locked(*object, std::uint64_t{1} << 26);
    if (!bytes || bytes->item_bytes != 1 || bytes->shape.empty() || bytes->bytes.empty()) continue;
    const std::uint64_t stride = bytes->shape.size() > 1 ? bytes->shape[1] : 1;  // column 0 is the first frame
    std::string text;
    for (std::uint64_t i = 0; i < bytes->shape[0] && stride > 0; ++i) {
      const char ch = static_cast<char>(bytes->bytes[i * stride]);
      if (ch == '\0') break;
      text += ch;
    }
    // Nested deeper than anything Velox writes: left out, because json is written by recursion.
    const auto shallow = [](int depth, json::parse_event_t, const json&) { return depth < 64; };
    const json all = json::parse(text, shallow, false);
    if (!all.is_object()) continue;
    const auto value = [&](const char* pointer) -> std::optional<double> {  // numbers are strings, or {"type", "value"}
      const json::json_pointer at(pointer);
      if (!all.contains(at)) return std::nullopt;
      json v = all.at(at);
      if (v.is_object() && v.contains("value")) v = v["value"];
      const double number = v.is_string()   ? std::strtod(v.get_ref<const std::string&>().c_str(), nullptr)
                            : v.is_number() ? v.get<double>()
                                            : 0;
      return std::isfinite(number) && number > 0 ? std::optional(number) : std::nullopt;
    };
    Calibration& k = c.calibration;
    const auto set = [](Known<double>& known, std::optional<double> v, double scale, const char* unit) {
      if (v && !known) known = {*v * scale, unit, Origin::side_file, "Velox"};
    };
    set(k.voltage_kV, value("/Optics/AccelerationVoltage"), 1e-3, "kV");
    set(k.camera_length_mm, value("/Optics/CameraLength"), 1e3, "mm");
    for (const char* name : {"/Optics/BeamConvergence", "/Optics/ConvergenceSemiAngle", "/Optics/SemiConvergenceAngle"})
      set(k.semiangle_mrad, value(name), 1e3, "mrad");
    json kept = json::object();
    if (all.contains("Optics")) kept["Optics"] = all["Optics"];
    if (all.contains("CustomProperties")) kept["CustomProperties"] = all["CustomProperties"];
    add_metadata(c, "velox", std::move(kept));
    if (const auto x = value("/Optics/FullScanFieldOfView/x"); x && !k.scan_sampling_A && c.shape.scan.cols > 0) {
      const double step = *x * 1e10 / c.shape.scan.cols;
      k.scan_sampling_A = {Pair{step, step}, "A", Origin::side_file, "Velox field of view / scan columns"};
    }
    return;
  }
}

}  // namespace quantem
