#include "quantem/io/flat_file.h"

#include <utility>

#include "quantem/io/identity.h"

namespace quantem {

Result<Container> flat_container(const std::filesystem::path& path, const OpenOptions& options, std::string format) {
  QUANTEM_TRY_ASSIGN(source, identify(path));
  Container c;
  c.path = path;
  c.format = std::move(format);
  c.files = {path};
  c.identity = {std::move(source)};
  c.options = options;
  return c;
}

void finish_flat_container(Container& c, const FlatLayout& layout, std::optional<Extent> scan) {
  const std::uint64_t frame_bytes = layout.det.count() * item_bytes(layout.dtype);
  Part part;
  part.dtype = layout.dtype;
  part.big_endian = layout.big_endian;
  part.n_frames = layout.n_frames;
  part.shape = {layout.n_frames, layout.det.rows, layout.det.cols};
  part.frame_stride_bytes = frame_bytes + layout.gap_bytes;
  ByteRange range;
  if (layout.n_frames > 0)
    range = {layout.offset_bytes, (layout.n_frames - 1) * part.frame_stride_bytes + frame_bytes, 0};
  part.chunks = {range};
  c.dtype = layout.dtype;
  c.shape.det = layout.det;
  c.n_stored = layout.n_frames;
  if (c.n_expected == 0) c.n_expected = c.n_stored;
  c.parts = {std::move(part)};
  c.valid_pixels = BitMask(layout.det.count(), true);
  if (scan) c.shape.scan = *scan;
}

}  // namespace quantem
