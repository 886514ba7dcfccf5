#include "quantem/io/hdf5_part.h"

#include <algorithm>

#include "quantem/io/identity.h"
#include "quantem/io/part_layout.h"

namespace quantem::hdf5 {
namespace {

std::string number(std::uint64_t n) {
  return std::to_string(n);
}

std::uint64_t frame_bytes(const Part& part) {
  const std::size_t rank = part.shape.size();
  return part.shape[rank - 2] * part.shape[rank - 1] * item_bytes(part.dtype);
}

// Leaves out the first n bytes of contiguous data; what a cut file lacks of them leaves an empty range at its end.
void skip(ByteRange& data, std::uint64_t n) {
  n = std::min(n, data.bytes);
  if (data.present()) data.offset += n;
  data.bytes -= n;
}

// Leading axes in chunks of one (or none) are one long axis of frames; a fixed axis in chunks of one is picked out.
void flatten(Part& part, std::optional<std::uint64_t> channel) {
  const std::size_t rank = part.shape.size();
  const std::uint64_t rows = part.shape[rank - 2], cols = part.shape[rank - 1];
  if (rank < 3) return;
  if (part.chunk.empty()) {
    if (channel) {
      part.frame_stride_bytes = part.shape[1] * frame_bytes(part);
      skip(part.chunks[0], *channel * frame_bytes(part));
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

// Keeps frames [start, start + count) of a part; false when a chunk would have to be cut.
bool keep_frames(Part& part, std::uint64_t start, std::uint64_t count) {
  const std::uint64_t all = frames_in(part);
  if (start == 0 && count == all) return true;
  if (part.shape.size() != 3 || start > all || count > all - start) return false;
  if (part.chunk.empty()) {
    skip(part.chunks[0], start * part.frame_stride_bytes);
  } else {
    const std::uint64_t per = ((part.shape[1] - 1) / part.chunk[1] + 1) * ((part.shape[2] - 1) / part.chunk[2] + 1);
    if (start % part.chunk[0] != 0 || (count % part.chunk[0] != 0 && start + count != all)) return false;
    const std::uint64_t first = start / part.chunk[0] * per, n = (count + part.chunk[0] - 1) / part.chunk[0] * per;
    part.chunks.erase(
        part.chunks.begin() + static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(first + n, part.chunks.size())),
        part.chunks.end());
    part.chunks.erase(part.chunks.begin(), part.chunks.begin() + static_cast<std::ptrdiff_t>(first));
  }
  part.shape[0] = count;
  part.n_frames = count;
  return true;
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
    return Error(Code::unsupported, where + ": a frame of " + number(rows) + " x " + number(cols) + " pixels; 1 to " +
                                        number(kMaxFramePixels) + " pixels are read");
  std::uint64_t frames = 1;
  for (std::size_t d = 0; d + 2 < rank; ++d) frames = checked_multiply(frames, shape[d]).value_or(~std::uint64_t{0});
  if (frames > kMostFrames)
    return Error(Code::unsupported, where + ": shape " + shape_text(shape) + "; at most 2^40 frames are read");
  return Done{};
}

Result<Part> simple_part(Container& container, const Object& dataset, const DatasetIndex& index,
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
  part.chunks = index.chunks;
  if (channel && (part.shape.size() != 4 || *channel >= part.shape[1]))
    return Error(Code::invalid_argument,
                 dataset.where() + ": shape " + shape_text(index.shape) + " has no channel " + number(*channel));
  if (part.chunk.empty()) part.frame_stride_bytes = frame_bytes(part);
  flatten(part, channel);
  part.n_frames = frames_in(part);
  std::string lost = dataset.file->cut_off;
  const auto add = [&](const std::string& what) { lost += (lost.empty() ? "" : "; ") + what; };
  if (index.n_out_of_file > 0)
    add(index.out_of_file + (index.n_out_of_file > 1 ? "; so do " + number(index.n_out_of_file - 1) + " more" : ""));
  if (index.index_cut_off) add(dataset.where() + ": the list of its chunks ends with the file");
  if (!lost.empty()) container.warnings.push_back(lost);
  return part;
}

// The frames of a box as a run [first, first + count) of the flat frame axis, or nothing when they are not consecutive.
struct Run {
  std::uint64_t first, count;
};
std::optional<Run> run_of(const Box& box, const std::vector<std::uint64_t>& shape, bool has_channel) {
  std::vector<std::size_t> axes;
  for (std::size_t d = 0; d + 2 < shape.size(); ++d)
    if (!(has_channel && d == 1)) axes.push_back(d);
  Run run{0, 1};
  bool wide = false;  // an axis before this one has more than one element
  for (const std::size_t d : axes) {
    if (box.extent[d] > shape[d] || box.start[d] > shape[d] - box.extent[d]) return std::nullopt;
    if (wide && box.extent[d] != shape[d]) return std::nullopt;
    wide = wide || box.extent[d] > 1;
    run = {run.first * shape[d] + box.start[d], run.count * box.extent[d]};
  }
  return run;
}
bool covers_frames(const Box& box, const std::vector<std::uint64_t>& shape) {
  const std::size_t n = shape.size();
  return box.start[n - 2] == 0 && box.start[n - 1] == 0 && box.extent[n - 2] == shape[n - 2] &&
         box.extent[n - 1] == shape[n - 1];
}

class VirtualParts {
 public:
  VirtualParts(Container& container, const Object& dataset, const DatasetIndex& index, const PartRequest& request,
               int depth)
      : container_(container), dataset_(dataset), index_(index), request_(request), depth_(depth) {}
  Result<std::vector<Part>> read();

 private:
  Result<Done> add(const VirtualPiece& piece);
  Result<std::vector<Part>> source_parts(const VirtualPiece& piece, std::optional<std::uint64_t> channel,
                                         const Run& want, std::string& absent);
  Error refusal(const VirtualPiece& piece, const std::string& what) const {
    return Error(Code::unsupported, dataset_.where() + ": source " + piece.file + ": " + piece.dataset + " " + what);
  }
  Part absent(std::uint64_t first, std::uint64_t count, std::string why) const {
    Part part;
    part.dataset = dataset_.path;
    part.first_frame = first;
    part.n_frames = count;
    part.absent_reason = std::move(why);
    return part;
  }
  Container& container_;
  const Object& dataset_;
  const DatasetIndex& index_;
  const PartRequest& request_;
  int depth_;
  std::vector<Part> parts_;
};

Result<std::vector<Part>> make_parts_at(Container& container, const Object& dataset, const PartRequest& request,
                                        int depth) {
  QUANTEM_TRY_ASSIGN(index, index_dataset(dataset));
  QUANTEM_TRY(check_shape(index.shape, dataset.where()));
  if (index.layout == Layout::virtual_) return VirtualParts(container, dataset, index, request, depth).read();
  QUANTEM_TRY_ASSIGN(part, simple_part(container, dataset, index, request.channel));
  part.first_frame = request.first_frame;
  std::vector<Part> parts;
  parts.push_back(std::move(part));
  return parts;
}

Result<std::vector<Part>> VirtualParts::source_parts(const VirtualPiece& piece, std::optional<std::uint64_t> channel,
                                                     const Run& want, std::string& absent) {
  std::shared_ptr<const File> file = dataset_.file;
  if (piece.file != ".") {
    const std::filesystem::path named(piece.file);
    const auto wanted = named.is_absolute() ? named : file->real_path.parent_path() / named;
    std::error_code ignored;
    if (!std::filesystem::exists(wanted, ignored)) {
      absent = wanted.filename().string() + " not found in " + wanted.parent_path().string() + " (source of " +
               dataset_.where() + ")";
      return std::vector<Part>{};
    }
    if (!std::filesystem::equivalent(wanted, file->real_path, ignored)) {
      auto opened = open_file(wanted, file->missing);
      if (!opened && opened.error().code == Code::missing_data) {
        absent = opened.error().message;
        return std::vector<Part>{};
      }
      if (!opened) return opened.take_error();
      file = *opened;
    }
  }
  auto source = find_object(file, piece.dataset);
  if (!source && source.error().code == Code::missing_data) {
    absent = source.error().message;
    return std::vector<Part>{};
  }
  if (!source) return source.take_error();
  QUANTEM_TRY_ASSIGN(shape, dataset_shape(*source));
  const bool has_channel = channel && shape.size() == 4;
  if (shape.size() != piece.in_source.start.size() || shape.size() < 2 || !covers_frames(piece.in_source, shape) ||
      !covers_frames(piece.in_virtual, index_.shape) ||
      shape[shape.size() - 2] != index_.shape[index_.shape.size() - 2] || shape.back() != index_.shape.back())
    return refusal(piece, "has shape " + shape_text(shape) + ", the virtual dataset " + shape_text(index_.shape) +
                              ": only whole frames of equal shape are read");
  const auto run = run_of(piece.in_source, shape, has_channel);
  if (!run || run->count != want.count) return refusal(piece, "does not map consecutive frames to consecutive frames");
  auto made = make_parts_at(container_, *source, {has_channel ? channel : std::nullopt, 0}, depth_ + 1);
  if (!made && made.error().code == Code::missing_data) {
    absent = made.error().message;
    return std::vector<Part>{};
  }
  if (!made) return made.take_error();
  std::vector<Part> parts = *std::move(made);
  std::uint64_t held = 0;
  for (const Part& part : parts) held += part.n_frames;
  if (run->first == 0 && run->count == held) return parts;
  if (parts.size() != 1 || !keep_frames(parts[0], run->first, run->count))
    return refusal(piece, "is mapped from the middle of a chunk; copy the dataset with h5repack");
  return parts;
}

Result<Done> VirtualParts::add(const VirtualPiece& piece) {
  const std::size_t rank = index_.shape.size();
  if (piece.in_virtual.start.size() != rank) return refusal(piece, "is mapped with another number of axes");
  std::optional<std::uint64_t> channel;
  if (request_.channel) {
    const std::uint64_t c = *request_.channel, at = piece.in_virtual.start[1];
    if (c < at || c - at >= piece.in_virtual.extent[1]) return Done{};
    channel = c - at + (piece.in_source.start.size() == 4 ? piece.in_source.start[1] : 0);
    const bool alike = piece.in_source.start.size() == 4 ? piece.in_source.extent[1] == piece.in_virtual.extent[1]
                                                         : piece.in_virtual.extent[1] == 1;
    if (!alike) return refusal(piece, "has another number of channels than its place in the virtual dataset");
  }
  const auto run = run_of(piece.in_virtual, index_.shape, request_.channel.has_value());
  if (!run) return refusal(piece, "is not mapped to consecutive frames");
  std::string why;
  QUANTEM_TRY_ASSIGN(parts, source_parts(piece, channel, *run, why));
  if (!why.empty()) parts.push_back(absent(0, run->count, why));
  for (Part& part : parts) {
    part.first_frame += run->first;
    parts_.push_back(std::move(part));
  }
  return Done{};
}

Result<std::vector<Part>> VirtualParts::read() {
  if (depth_ > 4)
    return Error(Code::unsupported, dataset_.where() + ": virtual datasets of virtual datasets, more than four deep");
  if (request_.channel && (index_.shape.size() != 4 || *request_.channel >= index_.shape[1]))
    return Error(Code::invalid_argument, dataset_.where() + ": shape " + shape_text(index_.shape) + " has no channel " +
                                             number(*request_.channel));
  for (const VirtualPiece& piece : index_.pieces) QUANTEM_TRY(add(piece));
  std::stable_sort(parts_.begin(), parts_.end(),
                   [](const Part& a, const Part& b) { return a.first_frame < b.first_frame; });
  std::uint64_t frames = 1;
  for (std::size_t d = 0; d + 2 < index_.shape.size(); ++d)
    if (!(request_.channel && d == 1)) frames *= index_.shape[d];
  std::vector<Part> all;
  std::uint64_t at = 0;
  const auto fill = [&](std::uint64_t to) {
    if (to > at)
      all.push_back(absent(at, to - at,
                           dataset_.where() + ": frames " + number(at) + " to " + number(to - 1) + " have no source"));
  };
  for (Part& part : parts_) {
    if (part.first_frame < at)
      return Error(Code::unsupported,
                   dataset_.where() + ": two sources are mapped to frame " + number(part.first_frame));
    fill(part.first_frame);
    at = part.first_frame + part.n_frames;
    all.push_back(std::move(part));
  }
  fill(frames);
  for (Part& part : all) part.first_frame += request_.first_frame;
  return all;
}

}  // namespace

std::string shape_text(const std::vector<std::uint64_t>& shape) {
  std::string text = "(";
  for (std::size_t d = 0; d < shape.size(); ++d) text += (d ? ", " : "") + number(shape[d]);
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
  return make_parts_at(container, dataset, request, 0);
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
