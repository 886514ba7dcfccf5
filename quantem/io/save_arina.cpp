#include <algorithm>
#include <atomic>
#include <mutex>
#include <numeric>

#include "quantem/io/atomic_file.h"
#include "quantem/io/hdf5_file.h"
#include "quantem/io/hdf5_write.h"
#include "quantem/io/save.h"
#include "quantem/runtime/thread_pool.h"

namespace quantem {
namespace {

namespace fs = std::filesystem;

using Lock = hdf5::Lock;

constexpr const char* kFrames = "/entry/data/data";
constexpr std::uint64_t kBatchBytes = std::uint64_t{64} << 20;

std::string digits6(std::uint64_t n) {
  const std::string text = std::to_string(n);
  return std::string(text.size() < 6 ? 6 - text.size() : 0, '0') + text;
}

hid_t hdf5_type(Dtype d) {
  return d == Dtype::u8 ? H5T_STD_U8LE : d == Dtype::u16 ? H5T_STD_U16LE : H5T_STD_U32LE;
}

std::string stem_of(const fs::path& master) {
  const std::string name = master.filename().string(), tail = "_master.h5";
  return name.size() > tail.size() && name.ends_with(tail) ? name.substr(0, name.size() - tail.size()) : "";
}

Result<Done> check(const fs::path& master, const ArinaSpec& spec) {
  const auto refuse = [](const std::string& what) { return Error{Code::invalid_argument, "write_arina: " + what}; };
  if (stem_of(master).empty()) return refuse("'" + master.filename().string() + "' must be named NAME_master.h5");
  if (!is_unsigned_count(spec.dtype))
    return refuse("dtype is " + std::string(dtype_name(spec.dtype)) + "; uint8, uint16 and uint32 are written");
  if (spec.shape.n_positions() == 0 || spec.shape.frame_pixels() == 0 || spec.shape.frame_pixels() > kMaxFramePixels)
    return refuse("shape " + to_string(spec.shape) + " cannot be written");
  if (!spec.pixel_mask.empty() && spec.pixel_mask.size() != spec.shape.frame_pixels())
    return refuse("pixel mask has " + std::to_string(spec.pixel_mask.size()) + " pixels, detector has " +
                  std::to_string(spec.shape.frame_pixels()));
  if (spec.valid_positions.count() != 0 && spec.valid_positions.count() != spec.shape.n_positions())
    return refuse("valid positions are " + std::to_string(spec.valid_positions.count()) + ", the scan has " +
                  std::to_string(spec.shape.n_positions()));
  if (spec.frames_per_file == 0) return refuse("frames_per_file is 0");
  return Done{};
}

void note_scan_shape(hdf5::Writer& w, const std::string& object, const Shape4& shape) {
  const std::uint64_t scan[] = {shape.scan.rows, shape.scan.cols};
  w.integer_attribute(object, "scan_shape", H5T_STD_U64LE, scan);
}

// One data file: frames encoded on all threads a batch at a time, written in order.
class DataFileWriter {
 public:
  DataFileWriter(const ArinaSpec& spec, const FrameProvider& frames, ProgressMeter& meter)
      : spec_(spec),
        frames_(frames),
        meter_(meter),
        item_bytes_(item_bytes(spec.dtype)),
        frame_bytes_(static_cast<std::size_t>(spec.shape.frame_pixels()) * item_bytes_),
        chunks_(static_cast<std::size_t>(std::clamp<std::uint64_t>(kBatchBytes / frame_bytes_, 1, 512))) {}

  Result<Done> write(const fs::path& path, std::uint64_t first, std::uint64_t n, SaveReport& report) {
    std::optional<hdf5::Writer> file;
    {
      const Lock lock;
      file.emplace(path);
      const Shape4& s = spec_.shape;
      file->group("/entry", "NXentry");
      file->group("/entry/data", "NXdata");
      file->begin_frames(kFrames, hdf5_type(spec_.dtype), item_bytes_, n, s.det.rows, s.det.cols);
      const std::uint64_t low[] = {first + 1}, high[] = {first + n};
      file->integer_attribute(kFrames, "image_nr_low", H5T_STD_U64LE, low, true);
      file->integer_attribute(kFrames, "image_nr_high", H5T_STD_U64LE, high, true);
      note_scan_shape(*file, kFrames, s);
    }
    Result<Done> written = Done{};
    for (std::uint64_t done = 0; done < n && written; done += chunks_.size())
      written = write_batch(*file, first, done, std::min<std::uint64_t>(chunks_.size(), n - done), report);
    const Lock lock;
    auto closed = file->close();
    file.reset();
    if (!written) return written;
    return closed;
  }

 private:
  bool is_there(std::uint64_t position) const {
    return spec_.valid_positions.count() == 0 || spec_.valid_positions[position];
  }

  Result<Done> write_batch(hdf5::Writer& file, std::uint64_t first, std::uint64_t done, std::uint64_t n,
                           SaveReport& report) {
    std::atomic<bool> failed{false};
    std::mutex mutex;
    std::optional<Error> first_error;
    parallel_for(n, [&](std::uint64_t i) {
      const std::uint64_t position = first + done + i;
      if (!is_there(position) || failed.load(std::memory_order_relaxed) || meter_.cancelled()) return;
      thread_local std::vector<std::byte> frame;
      frame.resize(frame_bytes_);
      if (auto filled = frames_(position, frame); !filled) {
        const std::lock_guard hold(mutex);
        if (!first_error) first_error = filled.take_error();
        failed = true;
      } else {
        encode_bslz4_chunk(frame, item_bytes_, chunks_[static_cast<std::size_t>(i)]);
      }
    });
    if (first_error) return *std::move(first_error);
    if (meter_.cancelled()) return meter_.cancelled_error("write_arina");
    const Lock lock;
    for (std::uint64_t i = 0; i < n; ++i) {
      if (!is_there(first + done + i)) continue;
      file.write_frame(done + i, chunks_[static_cast<std::size_t>(i)]);
      ++report.n_frames;
      report.logical_bytes += frame_bytes_;
    }
    meter_.add(n);
    return Done{};
  }

  const ArinaSpec& spec_;
  const FrameProvider& frames_;
  ProgressMeter& meter_;
  std::size_t item_bytes_, frame_bytes_;
  std::vector<std::vector<std::byte>> chunks_;  // of one batch
};

void write_detector(hdf5::Writer& w, const ArinaSpec& spec, std::optional<double> voltage_kV) {
  const std::string detector = "/entry/instrument/detector/", specific = detector + "detectorSpecific/";
  const Extent det = spec.shape.det;
  w.group("/entry/instrument", "NXinstrument");
  w.group("/entry/instrument/detector", "NXdetector");
  w.group("/entry/instrument/detector/detectorSpecific", "NXcollection");
  w.text(detector + "description", "written by quantem-gpu in the layout of a Dectris ARINA");
  w.integer(detector + "bit_depth_image", H5T_STD_U16LE, static_cast<std::int64_t>(8 * item_bytes(spec.dtype)));
  w.integer(detector + "pixel_mask_applied", H5T_STD_I8LE, 0);
  if (spec.saturation_value)
    w.integer(detector + "saturation_value", H5T_STD_I64LE, static_cast<std::int64_t>(*spec.saturation_value));
  if (spec.calibration) {
    const Calibration& k = *spec.calibration;
    if (k.dwell_us) w.number(detector + "frame_time", *k.dwell_us.value * 1e-6, "s");
    if (k.camera_length_mm) w.number(detector + "detector_distance", *k.camera_length_mm.value * 1e-3, "m");
    if (k.center_px) {
      w.number(detector + "beam_center_x", k.center_px.value->col, "pixel");
      w.number(detector + "beam_center_y", k.center_px.value->row, "pixel");
    }
  }
  const std::int32_t data_size[] = {static_cast<std::int32_t>(det.rows), static_cast<std::int32_t>(det.cols)};
  const hsize_t two[] = {2}, image[] = {det.rows, det.cols};
  w.array(detector + "module/data_size", H5T_STD_I32LE, H5T_NATIVE_INT32, two, data_size);
  w.integer(specific + "nimages", H5T_STD_U64LE, 1);
  w.integer(specific + "ntrigger", H5T_STD_U64LE, static_cast<std::int64_t>(spec.shape.n_positions()));
  w.integer(specific + "x_pixels_in_detector", H5T_STD_U64LE, det.cols);
  w.integer(specific + "y_pixels_in_detector", H5T_STD_U64LE, det.rows);
  w.text(specific + "compression", "bslz4");
  if (voltage_kV) w.number(specific + "photon_energy", *voltage_kV * 1000, "eV");
  std::vector<std::uint32_t> mask = spec.pixel_mask;
  mask.resize(static_cast<std::size_t>(spec.shape.frame_pixels()), 0);
  w.array(specific + "pixel_mask", H5T_STD_U32LE, H5T_NATIVE_UINT32, image, mask.data());
}

Result<Done> write_master(const fs::path& path, const ArinaSpec& spec, const std::vector<std::string>& data_names) {
  std::optional<double> voltage_kV = spec.voltage_kV;
  if (!voltage_kV && spec.calibration && spec.calibration->voltage_kV) voltage_kV = spec.calibration->voltage_kV.value;
  const Lock lock;
  hdf5::Writer w(path);
  w.group("/entry", "NXentry");
  w.group("/entry/data", "NXdata");
  w.text("/entry/definition", "NXmx");
  w.text_attribute("/entry/definition", "version", "1.4");
  w.text_attribute("/entry/data", "signal", "data_000001");
  note_scan_shape(w, "/entry/data", spec.shape);
  for (const auto& [key, value] : spec.metadata) w.text_attribute("/entry", key, value);
  write_detector(w, spec, voltage_kV);
  for (std::size_t i = 0; i < data_names.size(); ++i)
    w.external_link("/entry/data/data_" + digits6(i + 1), data_names[i], kFrames);
  return w.close();
}

// What a master has no place for: NXem vocabulary, x is column, y is row.
bool needs_em_metadata(const ArinaSpec& spec) {
  if (!spec.calibration) return false;
  const Calibration& k = *spec.calibration;
  return k.semiangle_mrad || k.scan_sampling_A || k.det_sampling_mrad;
}
Result<Done> write_em_metadata(const fs::path& path, const Calibration& k) {
  const std::string root = "/electron_microscope/";
  const Lock lock;
  hdf5::Writer w(path);
  w.group("/electron_microscope", "NXem");
  const auto one = [&](const Known<double>& known, const std::string& place, const char* units) {
    if (known) w.number(root + place, *known.value, units);
  };
  const auto two = [&](const Known<Pair>& known, const std::string& place, const char* units) {
    if (!known) return;
    w.number(root + place + "_y", known.value->row, units);
    w.number(root + place + "_x", known.value->col, units);
  };
  one(k.voltage_kV, "electron_source/accelerating_voltage", "kV");
  one(k.semiangle_mrad, "illumination_system/semi_convergence_angle", "mrad");
  two(k.scan_sampling_A, "scan_controller/regular_scan/pixel_size", "angstrom");
  two(k.det_sampling_mrad, "imaging_system/reciprocal_pixel_size", "mrad");
  return w.close();
}

}  // namespace

Result<SaveReport> write_arina(const fs::path& master, const ArinaSpec& spec, const FrameProvider& frames,
                               const Job& job) {
  QUANTEM_TRY(check(master, spec));
  const std::string stem = stem_of(master);
  const std::uint64_t n = spec.shape.n_positions(), per_file = std::min(spec.frames_per_file, n),
                      n_files = (n + per_file - 1) / per_file;
  if (n_files > 999999)
    return Error{Code::invalid_argument,
                 "write_arina: " + std::to_string(n_files) + " data files; raise frames_per_file"};
  std::vector<std::string> data_names;
  for (std::uint64_t i = 1; i <= n_files; ++i) data_names.push_back(stem + "_data_" + digits6(i) + ".h5");

  // Every target is looked at before work starts.
  const auto beside = [&](const std::string& name) { return fs::path(master).replace_filename(name); };
  const fs::path em_metadata = beside(stem + "_em_metadata.h5");
  QUANTEM_TRY(check_target(master, spec.overwrite));
  for (const std::string& name : data_names) QUANTEM_TRY(check_target(beside(name), spec.overwrite));
  if (needs_em_metadata(spec)) QUANTEM_TRY(check_target(em_metadata, spec.overwrite));

  ProgressMeter meter(job, "write", n, "frames");
  SaveReport report;
  std::vector<AtomicFile> files;
  DataFileWriter writer(spec, frames, meter);
  for (std::uint64_t i = 0; i < n_files; ++i) {
    QUANTEM_TRY_ASSIGN(file, AtomicFile::create(beside(data_names[static_cast<std::size_t>(i)]), spec.overwrite));
    QUANTEM_TRY(writer.write(file.temporary(), i * per_file, std::min(per_file, n - i * per_file), report));
    files.push_back(std::move(file));
  }
  if (needs_em_metadata(spec)) {
    QUANTEM_TRY_ASSIGN(file, AtomicFile::create(em_metadata, spec.overwrite));
    QUANTEM_TRY(write_em_metadata(file.temporary(), *spec.calibration));
    files.push_back(std::move(file));
  }
  QUANTEM_TRY_ASSIGN(file, AtomicFile::create(master, spec.overwrite));
  QUANTEM_TRY(write_master(file.temporary(), spec, data_names));
  files.push_back(std::move(file));

  for (AtomicFile& f : files) {
    std::error_code ignored;
    const std::uint64_t bytes = fs::file_size(f.temporary(), ignored);
    if (auto published = f.publish(); !published) {
      if (!spec.overwrite)
        for (const fs::path& done : report.files) fs::remove(done, ignored);
      return published.take_error();
    }
    report.stored_bytes += bytes;
    report.files.push_back(f.target());
  }
  meter.finish();
  return report;
}

}  // namespace quantem
