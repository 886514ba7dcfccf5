// `quantem-gpu convert`: an acquisition in another container. The source is opened read-only and kept; both sizes are said.

#include <fmt/format.h>

#include <cstring>

#include "quantem/cli/output_set.h"
#include "quantem/cli/parse.h"
#include "quantem/cli/resolve.h"
#include "quantem/cli/verbs.h"
#include "quantem/detector/mean_pattern.h"
#include "quantem/io/load.h"
#include "quantem/io/save.h"

namespace quantem::cli {
namespace {

namespace fs = std::filesystem;

enum class Format { npy, arina };

Result<Format> format_of(const ConvertArguments& arguments) {
  const std::string name = fs::path(arguments.out).filename().string();
  if (arguments.format == "npy" || (arguments.format.empty() && name.ends_with(".npy"))) return Format::npy;
  if (arguments.format == "arina" || (arguments.format.empty() && name.ends_with("_master.h5"))) return Format::arina;
  if (arguments.format.empty())
    return Error{
        Code::invalid_argument,
        fmt::format("convert: OUT must end in .npy or _master.h5, or --format says which, found '{}'", arguments.out)};
  return Error{Code::invalid_argument, fmt::format("--format: expected npy or arina, found '{}'", arguments.format)};
}

bool resamples(const LoadOptions& load) {
  return load.detector_region || load.det_bin != Extent{1, 1} || load.scan_bin != Extent{1, 1};
}

// A master keeps its pixel mask beside untouched values, so nothing is lost; .npy has no place for one. The marker of uint32
// stays what the detector wrote, where no option needs it to be a number.
LoadOptions lossless(LoadOptions load, Format format, const Container& container, bool flagged_named) {
  if (!flagged_named && !load.dtype && load.hot_pixels == HotPixels::none && !resamples(load))
    load.flagged = Flagged::keep;
  if (format == Format::arina && container.has_pixel_mask && !resamples(load) && load.bad_pixels.empty())
    load.apply_mask = false;
  return load;
}

std::vector<std::uint32_t> pixel_mask_of(const BitMask& valid) {
  std::vector<std::uint32_t> mask(valid.count(), 0);
  for (std::uint64_t p = 0; p < valid.count(); ++p) mask[p] = valid[p] ? 0 : 1;
  return mask;
}

Result<SaveReport> write(const Volume& volume, const Container& container, Format format, bool mask_applied,
                         const ConvertArguments& arguments, Session& session) {
  const std::uint64_t cols = volume.shape().scan.cols;
  const FrameProvider frames = [&](std::uint64_t position, std::span<std::byte> out) -> Result<Done> {
    QUANTEM_TRY_ASSIGN(values, frame(volume, {static_cast<std::uint32_t>(position / cols),
                                              static_cast<std::uint32_t>(position % cols)}));
    if (values.buffer.n_bytes() < out.size()) return Error{Code::internal, "convert: a frame has too few bytes"};
    std::memcpy(out.data(), values.buffer.data(), out.size());
    return Done{};
  };
  if (format == Format::npy)
    return write_npy(arguments.out, volume.shape(), volume.dtype(), frames, arguments.overwrite, session.job());
  ArinaSpec spec;
  spec.shape = volume.shape(), spec.dtype = volume.dtype(), spec.overwrite = arguments.overwrite;
  if (container.has_pixel_mask)
    spec.pixel_mask = pixel_mask_of(mask_applied ? volume.valid_pixels() : container.valid_pixels);
  if (!volume.valid_positions().all()) spec.valid_positions = volume.valid_positions();
  spec.voltage_kV = volume.calibration().voltage_kV.value;
  spec.saturation_value = container.saturation_value;
  spec.calibration = volume.calibration();
  return write_arina(arguments.out, spec, frames, session.job());
}

// What the new file cannot say is said now.
Result<Done> check_losses(const Volume& volume, Format format, Session& session) {
  if (format == Format::arina) return Done{};
  const std::uint64_t n_missing = volume.valid_positions().count() - volume.valid_positions().n_set();
  if (n_missing != 0)
    return Error{Code::missing_data, fmt::format("convert: {} positions are missing and .npy cannot mark them; write "
                                                 "NAME_master.h5, or choose a --scan-region",
                                                 n_missing)};
  const std::uint64_t n_bad = volume.valid_pixels().count() - volume.valid_pixels().n_set();
  if (n_bad != 0) session.warn(fmt::format("{} bad pixels are 0 in .npy, which holds no mask", n_bad));
  return Done{};
}

}  // namespace

Result<Answer> convert(const ConvertArguments& arguments, Session& session) {
  QUANTEM_TRY_ASSIGN(format, format_of(arguments));
  QUANTEM_TRY(check_absent(arguments.out, arguments.overwrite));
  std::error_code ignored;
  if (fs::equivalent(arguments.in, arguments.out, ignored))
    return Error{Code::invalid_argument, "convert: IN and OUT are the same file"};
  QUANTEM_TRY_ASSIGN(load_how, load_options(arguments.load));
  DeviceArguments where = arguments.device;
  if (where.backend.empty()) where.backend = "cpu";  // files are a matter of the host
  QUANTEM_TRY_ASSIGN(device, session.open(where));
  QUANTEM_TRY_ASSIGN(container, open_ready(arguments.in, arguments.source));
  for (const std::string& warning : container.warnings) session.warn(warning);
  load_how = lossless(load_how, format, container, !arguments.load.flagged.empty());
  QUANTEM_TRY_ASSIGN(volume, load(device, container, load_how, session.job()));
  QUANTEM_TRY(check_losses(volume, format, session));
  QUANTEM_TRY_ASSIGN(saved, write(volume, container, format, load_how.apply_mask, arguments, session));

  std::uint64_t source_bytes = 0;
  for (const SourceFile& file : container.identity) source_bytes += file.bytes;
  Answer answer;
  answer.result = {{"from", arguments.in},
                   {"to", arguments.out},
                   {"shape", shape_json(volume.shape())},
                   {"dtype", dtype_name(volume.dtype())},
                   {"n_frames", saved.n_frames},
                   {"source_bytes", source_bytes},
                   {"logical_bytes", saved.logical_bytes},
                   {"stored_bytes", saved.stored_bytes}};
  answer.result["files"] = Json::array();
  for (const fs::path& file : saved.files) answer.result["files"].push_back(file.string());
  answer.result["provenance"] = provenance_json(volume.provenance());
  answer.text = fmt::format("{} ({}) -> {} ({}); {} frames, {} dense; the source is kept\n", arguments.in,
                            format_bytes(source_bytes), arguments.out, format_bytes(saved.stored_bytes), saved.n_frames,
                            format_bytes(saved.logical_bytes));
  return answer;
}

}  // namespace quantem::cli
