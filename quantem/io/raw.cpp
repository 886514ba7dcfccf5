#include "quantem/io/raw.h"

#include <string>

#include "quantem/io/flat_file.h"

namespace quantem {

Result<Container> inspect_raw(const std::filesystem::path& path, const OpenOptions& options) {
  if (!options.raw)
    return Error{Code::invalid_argument,
                 path.filename().string() + ": raw binary needs its layout: dtype and detector shape"};
  const RawLayout& raw = *options.raw;
  const std::string name = path.filename().string();
  if (!is_count_dtype(raw.dtype))
    return Error{Code::unsupported, name + ": raw frames of " + std::string(dtype_name(raw.dtype)) + " are not read"};
  if (raw.det.count() == 0 || raw.det.count() > kMaxFramePixels)
    return Error{Code::invalid_argument, name + ": raw detector shape " + to_string(raw.det) + " must have 1 to " +
                                             std::to_string(kMaxFramePixels) + " pixels"};
  QUANTEM_TRY_ASSIGN(container, flat_container(path, options, "raw"));
  const std::uint64_t bytes = container.identity[0].bytes, frame_bytes = raw.det.count() * item_bytes(raw.dtype);
  const auto stride = checked_add(frame_bytes, raw.gap_bytes);

  FlatLayout layout;
  layout.dtype = raw.dtype;
  layout.big_endian = raw.big_endian && item_bytes(raw.dtype) > 1;
  layout.det = raw.det;
  layout.offset_bytes = raw.offset_bytes;
  layout.gap_bytes = raw.gap_bytes;
  const std::uint64_t data = bytes > raw.offset_bytes ? bytes - raw.offset_bytes : 0;
  if (stride) layout.n_frames = data / *stride;
  container.dtype = raw.dtype;
  container.shape.det = raw.det;
  const std::uint64_t rest = stride ? data % *stride : data;
  // A scan of more positions than frames says that the file is cut, not that the layout is wrong.
  const bool cut = rest != 0 && options.scan_shape && options.scan_shape->count() > layout.n_frames;
  if (cut && options.missing == Missing::mark && layout.n_frames > 0) {
    container.warnings.push_back(name + " is cut off: " + std::to_string(layout.n_frames) +
                                 " whole frames of a scan of " + to_string(*options.scan_shape) + ", and " +
                                 std::to_string(rest) + " bytes of another; copy it again");
  } else if (!stride || layout.n_frames == 0 || rest != 0) {
    container.not_ready = Error{
        Code::invalid_argument,
        name + ": " + std::to_string(bytes) + " bytes are no whole number of frames: offset " +
            std::to_string(raw.offset_bytes) + ", then frames of " + std::to_string(frame_bytes) + " bytes " +
            to_string(raw.det) + " " + std::string(dtype_name(raw.dtype)) + " and gaps of " +
            std::to_string(raw.gap_bytes) + " leave " + std::to_string(rest) + " bytes; correct the layout" +
            (cut ? ", or copy the file again if its copy was cut (missing=\"mark\" then loads what is whole)" : "")};
    return container;
  }
  finish_flat_container(container, layout, std::nullopt);
  return container;
}

}  // namespace quantem
