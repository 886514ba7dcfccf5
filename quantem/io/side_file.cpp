#include "quantem/io/side_file.h"

#include <cmath>

#include "quantem/io/emd.h"
#include "quantem/io/hdf5_file.h"
#include "quantem/io/metadata.h"

namespace quantem {
namespace fs = std::filesystem;
namespace {
using nlohmann::json;

// "x" of "x_master.h5", or nothing.
std::optional<std::string> stem_of(const fs::path& path) {
  const std::string stem = path.stem().string(), tail = "_master";
  if (!stem.ends_with(tail) || stem.size() == tail.size()) return std::nullopt;
  return stem.substr(0, stem.size() - tail.size());
}

std::optional<double> positive(const json& attributes, const char* name) {
  const auto found = attributes.find(name);
  const auto value = found == attributes.end() ? std::nullopt : hdf5::as_number(*found);
  return value && std::isfinite(*value) && *value > 0 ? value : std::nullopt;
}

// `/STEM Metadata` of x.h5: Pixel Size is taken as nm, Rotation as degrees, Camera Length as m; zero lengths and times are unknown.
void take_stem_metadata(Container& c, const json& a, SideFile& side) {
  Calibration& k = c.calibration;
  const auto side_of = [&](const char* name) {
    const auto found = a.find(name);
    return found == a.end() ? std::nullopt : hdf5::as_count(*found);
  };
  const auto rows = side_of("NumPixelsY"), cols = side_of("NumPixelsX");
  if (rows && cols && *rows > 0 && *cols > 0 && *rows <= 0xffffffffu && *cols <= 0xffffffffu)
    side.scan = Extent{static_cast<std::uint32_t>(*rows), static_cast<std::uint32_t>(*cols)};
  if (const auto nm = positive(a, "Pixel Size")) {
    const auto flag = a.find("IsPixelSizeCalibrated");
    const bool uncalibrated = flag != a.end() && hdf5::as_number(*flag) == 0.0;
    k.scan_sampling_A = {Pair{*nm * 10, *nm * 10}, "A", Origin::side_file, uncalibrated ? "uncalibrated" : ""};
  }
  if (const auto found = a.find("Rotation"); found != a.end())
    if (const auto degrees = hdf5::as_number(*found); degrees && std::isfinite(*degrees))
      k.rotation_deg = {*degrees, "deg", Origin::side_file, "scan rotation"};
  if (const auto m = positive(a, "Camera Length"); m && !k.camera_length_mm)
    k.camera_length_mm = {*m * 1000, "mm", Origin::side_file, ""};
  if (const auto v = positive(a, "High Tension"); v && !k.voltage_kV)
    k.voltage_kV = {*v / 1000, "kV", Origin::side_file, ""};
}

// NXem vocabulary (x_em_metadata.h5); x is column, y is row.
void take_em_metadata(Container& c, const std::shared_ptr<const hdf5::File>& file) {
  const auto value = [&](const std::string& path, const char* unit) -> std::optional<double> {
    auto object = hdf5::find_object(file, "/electron_microscope/" + path);
    if (!object) object = hdf5::find_object(file, "/entry/electron_microscope/" + path);
    if (!object) return std::nullopt;
    const auto v = hdf5::as_number(hdf5::read_value(*object));
    const auto scale = unit_scale(hdf5::as_text(hdf5::read_attribute(*object, "units")).value_or(""), unit);
    return v && scale && std::isfinite(*v) && *v > 0 ? std::optional(*v * *scale) : std::nullopt;
  };
  const auto set = [](Known<double>& known, std::optional<double> v, const char* unit) {
    if (v && !known) known = {v, unit, Origin::side_file, "em_metadata"};
  };
  Calibration& k = c.calibration;
  set(k.voltage_kV, value("electron_source/accelerating_voltage", "kV"), "kV");
  set(k.semiangle_mrad, value("illumination_system/semi_convergence_angle", "mrad"), "mrad");
  set(k.dwell_us, value("scan_controller/regular_scan/dwell_time", "us"), "us");
  set(k.camera_length_mm, value("imaging_system/camera_length", "mm"), "mm");
  const auto pair = [&](Known<Pair>& known, const std::string& path, const char* unit, const char* name) {
    const auto row = value(path + "_y", unit), col = value(path + "_x", unit);
    if (row && col && !known) known = {Pair{*row, *col}, name, Origin::side_file, "em_metadata"};
  };
  pair(k.scan_sampling_A, "scan_controller/regular_scan/pixel_size", "A", "A");
  pair(k.det_sampling_mrad, "imaging_system/reciprocal_pixel_size", "mrad", "mrad");
}

}  // namespace

bool is_side_file(const std::shared_ptr<const hdf5::File>& file) {
  for (const char* group : {"/STEM Metadata", "/electron_microscope", "/entry/electron_microscope"})
    if (hdf5::find_object(file, group)) return true;
  return false;
}

SideFile read_side_files(Container& c) {
  SideFile side;
  std::error_code ignored;
  fs::path master = fs::canonical(c.path, ignored);  // a symlink to the master leads to its folder
  if (ignored) master = c.path;
  const auto stem = stem_of(master);
  if (!stem) return side;
  const fs::path here = master.parent_path();
  const auto open = [&](const std::string& name) -> std::shared_ptr<const hdf5::File> {
    const fs::path path = here / name;
    if (!fs::is_regular_file(path, ignored)) return nullptr;
    auto file = hdf5::open_file(path);
    if (!file) c.warnings.push_back("side file left out: " + file.error().message);
    return file ? *file : nullptr;
  };
  if (const auto file = open(*stem + ".h5")) {
    if (auto group = hdf5::find_object(file, "/STEM Metadata"); group && group->file == file) {
      json attributes = hdf5::read_attributes(*group);
      take_stem_metadata(c, attributes, side);
      if (side.scan) side.name = file->name();
      add_metadata(c, "side_file", std::move(attributes));
    }
  }
  if (const auto file = open(*stem + "_em_metadata.h5")) take_em_metadata(c, file);
  if (const auto file = open(*stem + ".emd"); file && is_velox(file)) {
    if (side.scan) c.shape.scan = *side.scan;  // the field of view is that of the whole scan
    read_velox_metadata(c, file);
  }
  return side;
}

}  // namespace quantem
