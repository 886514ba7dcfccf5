#include "quantem/io/hdf5_virtual.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "quantem/io/part_layout.h"

namespace quantem::hdf5 {
namespace {

// Frames [start, start + count) of a part; nothing when a chunk would have to be cut. Costs what it returns, not what the part has.
std::optional<Part> frames_of(Part& part, std::uint64_t start, std::uint64_t count) {
  const std::uint64_t all = frames_in(part);
  if (start == 0 && count == all) return part;
  if (part.shape.size() != 3 || start > all || count > all - start) return std::nullopt;
  std::uint64_t first = 0, end = 1;  // of its chunks
  if (!part.chunk.empty()) {
    const std::uint64_t per = ((part.shape[1] - 1) / part.chunk[1] + 1) * ((part.shape[2] - 1) / part.chunk[2] + 1);
    if (start % part.chunk[0] != 0 || (count % part.chunk[0] != 0 && start + count != all)) return std::nullopt;
    first = start / part.chunk[0] * per;
    end = std::min<std::uint64_t>(first + (count + part.chunk[0] - 1) / part.chunk[0] * per, part.chunks.size());
  }
  std::vector<ByteRange> chunks = std::exchange(part.chunks, {});
  Part kept = part;
  part.chunks = std::move(chunks);
  kept.chunks.assign(part.chunks.begin() + static_cast<std::ptrdiff_t>(first),
                     part.chunks.begin() + static_cast<std::ptrdiff_t>(end));
  if (kept.chunk.empty()) skip_bytes(kept.chunks[0], start * kept.frame_stride_bytes);
  kept.shape[0] = count;
  kept.n_frames = count;
  return kept;
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
               int depth, std::uint64_t& entries)
      : container_(container), dataset_(dataset), index_(index), request_(request), depth_(depth), entries_(entries) {}
  Result<std::vector<Part>> read();

 private:
  // A source as it was read, or why it is absent. A few are kept: pieces of one dataset are many, or take turns with another's.
  struct Source {
    std::string file, dataset;
    std::optional<std::uint64_t> channel;
    std::vector<std::uint64_t> shape;
    std::vector<Part> parts;
    std::string absent;
  };
  Result<Source> read_source(const VirtualPiece& piece, std::optional<std::uint64_t> channel);
  Result<Source*> find_source(const VirtualPiece& piece, std::optional<std::uint64_t> channel);
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
  std::uint64_t& entries_;
  static constexpr std::size_t kKept = 8;
  std::deque<Source> recent_;  // the newest first
  std::vector<Part> parts_;
};

Result<VirtualParts::Source> VirtualParts::read_source(const VirtualPiece& piece,
                                                       std::optional<std::uint64_t> channel) {
  Source read{piece.file, piece.dataset, channel, {}, {}, {}};
  const auto unless_absent = [&](Error error) -> Result<Source> {
    if (error.code != Code::missing_data) return error;
    read.absent = std::move(error.message);
    return std::move(read);
  };
  std::shared_ptr<const File> file = dataset_.file;
  if (piece.file != ".") {
    const std::filesystem::path named(piece.file);
    const auto wanted = named.is_absolute() ? named : file->real_path.parent_path() / named;
    std::error_code ignored;
    if (!std::filesystem::exists(wanted, ignored))
      return unless_absent(Error(Code::missing_data, wanted.filename().string() + " not found in " +
                                                         wanted.parent_path().string() + " (source of " +
                                                         dataset_.where() + ")"));
    if (!std::filesystem::equivalent(wanted, file->real_path, ignored)) {
      auto opened = open_file(wanted, file->missing);
      if (!opened) return unless_absent(opened.take_error());
      file = *opened;
    }
  }
  auto source = find_object(file, piece.dataset);
  if (!source) return unless_absent(source.take_error());
  QUANTEM_TRY_ASSIGN(shape, dataset_shape(*source));
  read.shape = shape;
  auto made = make_parts_at(container_, *source, {shape.size() == 4 ? channel : std::nullopt, 0}, depth_ + 1, entries_);
  if (!made) return unless_absent(made.take_error());
  read.parts = *std::move(made);
  return read;
}

Result<VirtualParts::Source*> VirtualParts::find_source(const VirtualPiece& piece,
                                                        std::optional<std::uint64_t> channel) {
  for (Source& source : recent_)
    if (source.file == piece.file && source.dataset == piece.dataset && source.channel == channel) return &source;
  QUANTEM_TRY_ASSIGN(source, read_source(piece, channel));
  if (recent_.size() == kKept) recent_.pop_back();
  recent_.push_front(std::move(source));
  return &recent_.front();
}

Result<std::vector<Part>> VirtualParts::source_parts(const VirtualPiece& piece, std::optional<std::uint64_t> channel,
                                                     const Run& want, std::string& absent) {
  QUANTEM_TRY_ASSIGN(source, find_source(piece, channel));
  absent = source->absent;
  if (!absent.empty()) return std::vector<Part>{};
  const std::vector<std::uint64_t>& shape = source->shape;
  if (shape.size() != piece.in_source.start.size() || shape.size() < 2 || !covers_frames(piece.in_source, shape) ||
      !covers_frames(piece.in_virtual, index_.shape) ||
      shape[shape.size() - 2] != index_.shape[index_.shape.size() - 2] || shape.back() != index_.shape.back())
    return refusal(piece, "has shape " + shape_text(shape) + ", the virtual dataset " + shape_text(index_.shape) +
                              ": only whole frames of equal shape are read");
  const auto run = run_of(piece.in_source, shape, channel && shape.size() == 4);
  if (!run || run->count != want.count) return refusal(piece, "does not map consecutive frames to consecutive frames");
  std::uint64_t held = 0;
  for (const Part& part : source->parts) held += part.n_frames;
  if (run->first == 0 && run->count == held) {
    for (const Part& part : source->parts) entries_ += 1 + part.chunks.size();
    return source->parts;
  }
  auto kept = source->parts.size() == 1 ? frames_of(source->parts[0], run->first, run->count) : std::nullopt;
  if (!kept) return refusal(piece, "is mapped from the middle of a chunk; copy the dataset with h5repack");
  std::vector<Part> parts;
  parts.push_back(*std::move(kept));
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
                                             std::to_string(*request_.channel));
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
      all.push_back(absent(
          at, to - at,
          dataset_.where() + ": frames " + std::to_string(at) + " to " + std::to_string(to - 1) + " have no source"));
  };
  for (Part& part : parts_) {
    if (part.first_frame < at)
      return Error(Code::unsupported,
                   dataset_.where() + ": two sources are mapped to frame " + std::to_string(part.first_frame));
    fill(part.first_frame);
    at = part.first_frame + part.n_frames;
    all.push_back(std::move(part));
  }
  fill(frames);
  for (Part& part : all) part.first_frame += request_.first_frame;
  return all;
}

}  // namespace

Result<std::vector<Part>> virtual_parts(Container& container, const Object& dataset, const DatasetIndex& index,
                                        const PartRequest& request, int depth, std::uint64_t& entries) {
  return VirtualParts(container, dataset, index, request, depth, entries).read();
}

}  // namespace quantem::hdf5
