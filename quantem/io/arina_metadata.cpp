// What a master says besides its frames. Everything here may be absent: absent is unknown, never an error, never a default.

#include <cmath>

#include "quantem/io/arina.h"
#include "quantem/io/dataset_bytes_locked.h"
#include "quantem/io/hdf5_part.h"
#include "quantem/io/metadata.h"

namespace quantem {
namespace {
using hdf5::File;
using hdf5::Object;
using nlohmann::json;

const std::string kDetector = "/entry/instrument/detector/";

struct Number {
  double value;
  std::string unit;
};
std::optional<Number> number_at(const std::shared_ptr<const File>& file, const std::string& path) {
  auto object = hdf5::find_object(file, path);
  if (!object) return std::nullopt;
  const auto value = hdf5::as_number(hdf5::read_value(*object));
  if (!value || !std::isfinite(*value)) return std::nullopt;
  return Number{*value, hdf5::as_text(hdf5::read_attribute(*object, "units")).value_or("")};
}

// Scalars, strings and short lists below a group; links that leave the file are not followed.
void collect(const Object& group, int depth, int& left, json& into) {
  if (depth > 8) return;
  for (const hdf5::Link& link : hdf5::list_links(group, 2000)) {
    if (link.kind != hdf5::LinkKind::hard || --left < 0) continue;
    auto opened = hdf5::open_member(group, link.name);
    if (!opened) continue;
    const Object& member = *opened;
    if (member.is_group()) {
      collect(member, depth + 1, left, into);
    } else if (member.is_dataset()) {
      const auto shape = hdf5::dataset_shape(member);
      std::uint64_t n = 1;
      if (shape)
        for (const std::uint64_t s : *shape) n = s > 64 || n * s > 64 ? 65 : n * s;
      if (!shape || n > 64) continue;
      if (auto value = hdf5::read_value(member)) {
        into[member.path] = std::move(*value);
        if (auto unit = hdf5::read_attribute(member, "units")) into[member.path + "@units"] = std::move(*unit);
      }
    }
  }
}

// Voltage from the photon energy, dwell from the frame time, distance, beam centre.
void calibrate(Container& c, const std::shared_ptr<const File>& file) {
  Calibration& k = c.calibration;
  for (const std::string& path :
       {kDetector + "detectorSpecific/photon_energy", std::string("/entry/instrument/beam/incident_energy")}) {
    const auto energy = number_at(file, path);
    if (!energy || energy->value <= 0 || k.voltage_kV) continue;
    const double volts = energy->unit == "keV" ? energy->value * 1000 : energy->value;
    if (energy->unit.empty() || energy->unit == "eV" || energy->unit == "keV")
      k.voltage_kV = {volts / 1000, "kV", Origin::file, path.substr(path.rfind('/') + 1)};
  }
  if (const auto t = number_at(file, kDetector + "frame_time"); t && t->value > 0)
    if (const auto scale = unit_scale(t->unit.empty() ? "s" : t->unit, "us"))
      k.dwell_us = {t->value * *scale, "us", Origin::file, "frame_time"};
  for (const char* name : {"detector_distance", "distance"})
    if (const auto d = number_at(file, kDetector + name); d && d->value > 0 && !k.camera_length_mm)
      if (const auto scale = unit_scale(d->unit.empty() ? "m" : d->unit, "mm"))
        k.camera_length_mm = {d->value * *scale, "mm", Origin::file, name};
  const auto x = number_at(file, kDetector + "beam_center_x"), y = number_at(file, kDetector + "beam_center_y");
  if (x && y && x->value > 0 && y->value > 0)
    k.center_px = {Point{y->value, x->value}, "px", Origin::file, "beam_center_y, beam_center_x"};
}

// The pixel mask of a master: legacy place, or that of the chosen (first) channel.
Result<Object> find_mask(const std::shared_ptr<const File>& file) {
  for (const std::string& path : {kDetector + "detectorSpecific/pixel_mask", kDetector + "pixel_mask"})
    if (auto mask = hdf5::find_object(file, path)) return mask;
  auto detector = hdf5::find_object(file, kDetector);
  if (detector)
    for (const hdf5::Link& link : hdf5::list_links(*detector))
      if (link.name.ends_with("_channel"))
        if (auto mask = hdf5::find_object(file, kDetector + link.name + "/pixel_mask")) return mask;
  return Error(Code::missing_data, "no pixel_mask");
}

std::uint64_t mask_bits(const std::byte* p, std::uint32_t bytes, bool big_endian) {
  std::uint64_t v = 0;
  for (std::uint32_t i = 0; i < bytes; ++i)
    v |= std::to_integer<std::uint64_t>(p[big_endian ? bytes - 1 - i : i]) << (8 * i);
  return v;
}

}  // namespace

Result<Done> apply_pixel_mask(Container& c, const Object& mask) {
  QUANTEM_TRY_ASSIGN(data, read_dataset_bytes_locked(mask, 8 * kMaxFramePixels));
  if (data.shape != std::vector<std::uint64_t>{c.shape.det.rows, c.shape.det.cols})
    return Error(Code::corrupt_data, mask.where() + " is " + hdf5::shape_text(data.shape) + ", the detector is " +
                                         to_string(c.shape.det) + ": a mask must have the detector's shape");
  if (data.item_bytes == 0 || data.item_bytes > 8 || !(data.type.starts_with("uint") || data.type.starts_with("int")))
    return Error(Code::corrupt_data, mask.where() + " holds " + data.type + "; a mask is unsigned integers");
  std::uint64_t with_bit[64] = {}, bad = 0;
  for (std::uint64_t p = 0; p < c.shape.frame_pixels(); ++p) {
    const std::uint64_t v = mask_bits(&data.bytes[p * data.item_bytes], data.item_bytes, data.big_endian);
    if (v == 0) continue;
    c.valid_pixels.set(p, false);
    ++bad;
    for (int bit = 0; bit < 64; ++bit) with_bit[bit] += v >> bit & 1;
  }
  json bits = json::object();
  for (int bit = 0; bit < 64; ++bit)
    if (with_bit[bit] > 0) bits[std::to_string(bit)] = with_bit[bit];
  c.has_pixel_mask = true;
  add_metadata(c, "pixel_mask", {{"bad_pixels", bad}, {"pixels_with_bit", bits}});
  return Done{};
}

void read_master_metadata(Container& c, const std::shared_ptr<const File>& file) {
  json found = json::object();
  int left = 2000;
  for (const char* path : {"/entry/instrument", "/entry/sample"})
    if (auto group = hdf5::find_object(file, path); group && group->file == file) collect(*group, 0, left, found);
  for (const char* path : {"/entry/definition", "/entry/start_time", "/entry/end_time", "/entry/title"})
    if (auto value = hdf5::read_value(file, path)) found[path] = std::move(*value);
  add_metadata(c, "master", std::move(found));
  calibrate(c, file);
  if (const auto top = hdf5::as_count(hdf5::read_value(file, kDetector + "saturation_value")); top && *top > 0)
    c.saturation_value = *top;
  c.valid_pixels = BitMask(c.shape.frame_pixels(), true);
  auto mask = find_mask(file);
  if (!mask) {
    if (mask.error().code != Code::missing_data && !c.not_ready) c.not_ready = mask.take_error();
    return;
  }
  if (c.shape.det.count() == 0) return;
  if (auto applied = apply_pixel_mask(c, *mask); !applied && !c.not_ready) c.not_ready = applied.take_error();
}

}  // namespace quantem
