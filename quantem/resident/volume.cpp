#include "quantem/resident/volume.h"

#include <nlohmann/json.hpp>

#include "quantem/resident/dense_device.h"

namespace quantem {
namespace {

using Json = nlohmann::ordered_json;

template <class Counts>
bool is_dense(const Counts& counts) {
  return std::holds_alternative<DenseStorage>(counts) ||
         std::holds_alternative<std::shared_ptr<const DenseDevice>>(counts);
}

// What a constructor fills in, so that no volume says anything else about itself than what it is.
VolumeInfo completed(VolumeInfo info, const Device& device, bool dense) {
  if (info.valid_pixels.count() == 0) info.valid_pixels = BitMask(info.shape.frame_pixels(), true);
  if (info.valid_positions.count() == 0) info.valid_positions = BitMask(info.shape.n_positions(), true);
  Provenance& p = info.provenance;
  p.representation = representation_name(dense ? Representation::dense : Representation::encoded);
  p.codec_profile = codec_profile_name(dense ? CodecProfile::none : CodecProfile::bit_sliced_v1);
  p.backend = backend_name(device.backend());
  p.device = device.label();
  return info;
}

Json regions(const Region& r) {
  return {r.row_start, r.row_stop, r.col_start, r.col_stop};
}

}  // namespace

std::string_view representation_name(Representation r) {
  return r == Representation::dense ? "dense" : "encoded";
}
std::string_view codec_profile_name(CodecProfile p) {
  return p == CodecProfile::none ? "" : "bit-sliced-v1";
}

Volume::Volume(VolumeInfo info, Device device, Counts counts)
    : state_(std::make_shared<const State>(
          State{completed(std::move(info), device, is_dense(counts)), device, std::move(counts)})) {}
Volume::Volume(VolumeInfo info, Device device, DenseStorage dense)
    : Volume(std::move(info), std::move(device), Counts(std::move(dense))) {}
Volume::Volume(VolumeInfo info, Device device, SlicedStorage sliced)
    : Volume(std::move(info), std::move(device), Counts(std::move(sliced))) {}
Volume::Volume(VolumeInfo info, Device device, std::shared_ptr<const SlicedDevice> sliced)
    : Volume(std::move(info), std::move(device), Counts(std::move(sliced))) {}
Volume::Volume(VolumeInfo info, Device device, std::shared_ptr<const DenseDevice> dense)
    : Volume(std::move(info), std::move(device), Counts(std::move(dense))) {}

Representation Volume::representation() const {
  return is_dense(state_->counts) ? Representation::dense : Representation::encoded;
}
CodecProfile Volume::profile() const {
  return is_dense(state_->counts) ? CodecProfile::none : CodecProfile::bit_sliced_v1;
}

std::uint64_t Volume::resident_bytes() const {
  if (const SlicedDevice* counts = sliced_device()) return counts->resident_bytes();
  if (const DenseDevice* counts = dense_device()) return counts->resident_bytes();
  return sliced() ? sliced()->resident_bytes() : dense()->counts.n_bytes();
}

std::vector<std::uint32_t> Volume::tile_levels() const {
  if (const SlicedDevice* counts = sliced_device()) return counts->layout.tile_levels();
  return sliced() ? sliced()->layout.tile_levels() : std::vector<std::uint32_t>{};
}

Volume Volume::with_calibration(const Calibration& calibration) const {
  Volume copy = *this;
  copy.calibration_ = std::make_shared<const Calibration>(calibration);
  return copy;
}

ProcessingStep storage_step(bool tiles_4) {
  return {"lossless_storage",
          false,
          {{"codec_profile", std::string("bit-sliced-v1")}, {"tile_levels", std::string(tiles_4 ? "4 8 32" : "8 32")}}};
}

Result<Done> check_tiles_4(std::string_view operation, bool tiles_4, bool encoded) {
  if (!tiles_4 || encoded) return Done{};
  return Error{Code::invalid_argument, std::string(operation) +
                                           ": tiles_4 keeps sums beside encoded counts, these are kept dense; leave "
                                           "tiles_4 out, or use representation=\"encoded\" (uint8, uint16, uint32)"};
}

Result<Done> Volume::check_open() const {
  if (!state_) return Error{Code::closed, "volume is closed"};
  return Done{};
}

std::string Volume::receipt_json() const {
  if (!state_) return "{}";
  const VolumeInfo& i = info();
  const Provenance& p = i.provenance;
  Json identity = Json::array();
  for (const SourceFile& f : p.source_identity)
    identity.push_back({{"name", f.name},
                        {"bytes", f.bytes},
                        {"mtime_ns", f.mtime_ns},
                        {"sha256", f.sha256.empty() ? Json() : Json(f.sha256)}});
  const bool encoded = representation() == Representation::encoded;
  Json out;
  out["schema"] = "quantem.gpu.4dstem-resident-receipt/v3";
  out["representation"] = representation_name(representation());
  out["storage_schema"] = encoded ? "quantem-gpu/bit-sliced-v1" : "quantem-gpu/dense-v1";
  out["codec_profile"] = encoded ? Json(codec_profile_name(profile())) : Json();
  if (encoded) out["tile_levels"] = tile_levels();
  out["source_dtype"] = dtype_name(i.source_dtype);
  out["working_dtype"] = dtype_name(i.dtype);
  out["scan_shape"] = {i.shape.scan.rows, i.shape.scan.cols};
  out["detector_shape"] = {i.shape.det.rows, i.shape.det.cols};
  out["scan_region"] = regions(p.scan_region);
  out["detector_region"] = regions(p.detector_region);
  out["scan_bin"] = {p.scan_bin.rows, p.scan_bin.cols};
  out["detector_bin"] = {p.detector_bin.rows, p.detector_bin.cols};
  out["source_identity"] = std::move(identity);
  out["valid_pixels_sha256"] = i.valid_pixels.sha256();
  out["logical_sha256"] = nullptr;
  out["payload_sha256"] = nullptr;
  out["logical_bytes"] = logical_bytes();
  out["resident_bytes"] = resident_bytes();
  out["count_max"] =
      is_integer_count(i.source_dtype) ? Json(static_cast<std::int64_t>(i.audit.count_max)) : Json(i.audit.count_max);
  out["backend"] = p.backend;
  out["device"] = p.device;
  out["source_revision"] = software_revision();
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace quantem
