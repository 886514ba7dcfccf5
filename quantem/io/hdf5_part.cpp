#include "quantem/io/hdf5_part.h"

#include <algorithm>

#include "quantem/io/hdf5_virtual.h"
#include "quantem/io/identity.h"
#include "quantem/io/part_layout.h"

namespace quantem::hdf5 {
namespace {

std::uint64_t frame_bytes(const Part& part) {
  const std::size_t rank = part.shape.size();
  return part.shape[rank - 2] * part.shape[rank - 1] * item_bytes(part.dtype);
}

// Leading axes in chunks of one (or none) are one long axis of frames; a fixed axis in chunks of one is picked out.
void flatten(Part& part, std::optional<std::uint64_t> channel) {
  const std::size_t rank = part.shape.size();
  const std::uint64_t rows = part.shape[rank - 2], cols = part.shape[rank - 1];
  if (rank < 3) return;
  if (part.chunk.empty()) {
    if (channel) {
      part.frame_stride_bytes = part.shape[1] * frame_bytes(part);
      skip_bytes(part.chunks[0], *channel * frame_bytes(part));
    }
    part.shape = {channel ? part.shape[0] : part.shape[0] * (rank == 4 ? part.shape[1] : 1), rows, cols};
    return;
  }
  if (rank == 4 && channel) {
    if (part.chunk[1] != 1) {
      part.fixed_axis = 1;
      part.fixed_index = *channel;
      return;
    }
    const std::uint64_t per = ((rows - 1) / part.chunk[2] + 1) * ((cols - 1) / part.chunk[3] + 1),
                        channels = part.shape[1];
    std::vector<ByteRange> kept;
    for (std::uint64_t first = *channel * per; first + per <= part.chunks.size(); first += channels * per)
      kept.insert(kept.end(), part.chunks.begin() + static_cast<std::ptrdiff_t>(first),
                  part.chunks.begin() + static_cast<std::ptrdiff_t>(first + per));
    part.chunks = std::move(kept);
    part.shape = {part.shape[0], rows, cols};
    part.chunk = {part.chunk[0], part.chunk[2], part.chunk[3]};
  } else if (rank == 4 && part.chunk[0] == 1 && part.chunk[1] == 1) {
    part.shape = {part.shape[0] * part.shape[1], rows, cols};
    part.chunk = {1, part.chunk[2], part.chunk[3]};
  }
}

Result<Done> check_shape(const std::vector<std::uint64_t>& shape, const std::string& where) {
  const std::size_t rank = shape.size();
  if (rank < 2 || rank > 4)
    return Error(Code::unsupported, where + ": shape " + shape_text(shape) +
                                        "; two, three or four axes are read (scan rows, scan "
                                        "columns, detector rows, detector columns)");
  const std::uint64_t rows = shape[rank - 2], cols = shape[rank - 1];
  const auto pixels = checked_multiply(rows, cols);
  if (rows == 0 || cols == 0 || !pixels || *pixels > kMaxFramePixels)
    return Error(Code::unsupported, where + ": a frame of " + std::to_string(rows) + " x " + std::to_string(cols) +
                                        " pixels; 1 to " + std::to_string(kMaxFramePixels) + " pixels are read");
  std::uint64_t frames = 1;
  for (std::size_t d = 0; d + 2 < rank; ++d) frames = checked_multiply(frames, shape[d]).value_or(~std::uint64_t{0});
  if (frames > kMostFrames)
    return Error(Code::unsupported, where + ": shape " + shape_text(shape) + "; at most 2^40 frames are read");
  return Done{};
}

Result<Part> simple_part(Container& container, const Object& dataset, DatasetIndex index,
                         std::optional<std::uint64_t> channel) {
  Part part;
  QUANTEM_TRY_ASSIGN(file, add_file(container, dataset.file->path));
  QUANTEM_TRY_ASSIGN(dtype, count_dtype(index.type, dataset.where()));
  part.file = file;
  part.dataset = dataset.path;
  part.dtype = dtype;
  part.big_endian = index.type.big_endian;
  part.shape = index.shape;
  part.chunk = index.chunk;
  part.filters = index.filters;
  part.partial_edge_chunks_unfiltered = index.partial_edge_chunks_unfiltered;
  part.chunks = std::move(index.chunks);  // 24 bytes a frame
  if (channel && (part.shape.size() != 4 || *channel >= part.shape[1]))
    return Error(Code::invalid_argument, dataset.where() + ": shape " + shape_text(index.shape) + " has no channel " +
                                             std::to_string(*channel));
  if (part.chunk.empty()) part.frame_stride_bytes = frame_bytes(part);
  flatten(part, channel);
  part.n_frames = frames_in(part);
  std::string lost = dataset.file->cut_off;
  const auto add = [&](const std::string& what) { lost += (lost.empty() ? "" : "; ") + what; };
  if (index.n_out_of_file > 0)
    add(index.out_of_file +
        (index.n_out_of_file > 1 ? "; so do " + std::to_string(index.n_out_of_file - 1) + " more" : ""));
  if (index.index_cut_off) add(dataset.where() + ": the list of its chunks ends with the file");
  if (!lost.empty()) container.warnings.push_back(lost);
  return part;
}

}  // namespace

Result<std::vector<Part>> make_parts_at(Container& container, const Object& dataset, const PartRequest& request,
                                        int depth, std::uint64_t& entries) {
  QUANTEM_TRY_ASSIGN(index, index_dataset(dataset));
  entries += 1 + index.chunks.size() + index.pieces.size();
  if (depth > 0 && entries > kMostIndexEntries)
    return Error(Code::unsupported, dataset.where() +
                                        ": the sources of a virtual dataset have so many chunks, or are " +
                                        "listed in turn so often, that reading their indices would take very long; " +
                                        "copy it with h5repack");
  QUANTEM_TRY(check_shape(index.shape, dataset.where()));
  if (index.layout == Layout::virtual_) return virtual_parts(container, dataset, index, request, depth, entries);
  QUANTEM_TRY_ASSIGN(part, simple_part(container, dataset, std::move(index), request.channel));
  part.first_frame = request.first_frame;
  std::vector<Part> parts;
  parts.push_back(std::move(part));
  return parts;
}

std::string shape_text(const std::vector<std::uint64_t>& shape) {
  std::string text = "(";
  for (std::size_t d = 0; d < shape.size(); ++d) text += (d ? ", " : "") + std::to_string(shape[d]);
  return text + ")";
}

Extent detector_of(const Part& part) {
  const std::size_t n = part.shape.size();
  if (n < 2) return {};
  return {static_cast<std::uint32_t>(part.shape[n - 2]), static_cast<std::uint32_t>(part.shape[n - 1])};
}

Result<std::uint32_t> add_file(Container& container, const std::filesystem::path& path) {
  for (std::size_t i = 0; i < container.files.size(); ++i)
    if (container.files[i] == path) return static_cast<std::uint32_t>(i);
  QUANTEM_TRY_ASSIGN(identity, identify(path));
  container.files.push_back(path);
  container.identity.push_back(identity);
  return static_cast<std::uint32_t>(container.files.size() - 1);
}

Result<std::vector<Part>> make_parts(Container& container, const Object& dataset, const PartRequest& request) {
  std::uint64_t entries = 0;
  return make_parts_at(container, dataset, request, 0, entries);
}

void agree(Container& c) {
  const Part* first = nullptr;
  const auto refuse = [&](Code code, std::string message) {
    if (!c.not_ready) c.not_ready = Error(code, std::move(message));
  };
  for (const Part& part : c.parts) {
    if (!part.absent_reason.empty()) continue;
    const std::string where = c.files[part.file].filename().string() + ": " + part.dataset;
    if (auto good = check_supported(part.filters); !good && !c.not_ready)
      c.not_ready = with_context(where, good.error());
    if (!first) {
      first = &part;
      c.dtype = part.dtype;
      c.shape.det = detector_of(part);
      continue;
    }
    if (detector_of(part) != c.shape.det)
      refuse(Code::corrupt_data, where + " has frames of " + to_string(detector_of(part)) + ", " +
                                     c.files[first->file].filename().string() + " of " + to_string(c.shape.det));
    const bool alike = is_unsigned_count(part.dtype) == is_unsigned_count(c.dtype) &&
                       (part.dtype == Dtype::f32) == (c.dtype == Dtype::f32);
    if (!alike)
      refuse(Code::unsupported, where + " holds " + std::string(dtype_name(part.dtype)) + ", other parts " +
                                    std::string(dtype_name(c.dtype)) + ": convert the parts to one dtype");
    else if (item_bytes(part.dtype) > item_bytes(c.dtype))
      c.dtype = part.dtype;
  }
}

}  // namespace quantem::hdf5
