#include "quantem/io/load_fast_source.h"

#include <algorithm>

namespace quantem {
namespace {

constexpr std::uint64_t kMaxStoredBytes = std::uint64_t{128} << 20, kMaxValuesBytes = std::uint64_t{64} << 20;
constexpr std::uint64_t kMaxBlockBytes = std::uint64_t{1} << 16;  // of a bitshuffle block; the usual is 8 KiB
constexpr std::uint64_t kMaxGapBytes = std::uint64_t{1} << 16;    // read over, rather than read twice

struct Stretch {  // of a file, wanted for frame `index` of the block
  std::uint32_t file = 0, index = 0;
  std::uint64_t offset = 0, bytes = 0;
};

// Of a part whose chunks are whole frames. A channel axis is the first or the second of two leading axes.
std::uint64_t chunk_of(const Part& part, std::uint64_t frame_in_part) {
  if (part.fixed_axis == 0) return part.fixed_index * part.shape[1] + frame_in_part;
  if (part.fixed_axis == 1) return frame_in_part * part.shape[1] + part.fixed_index;
  return frame_in_part;
}

class Collector {
 public:
  Collector(const LoadPlan& plan, const ContainerSource& source, BlockFrames& out, FrameReader::Scratch& scratch)
      : plan_(plan), source_(source), out_(out), scratch_(scratch) {
    out.frame_bytes = plan.source.frame_pixels() * item_bytes(plan.source_dtype);
    out.n_lost = 0;
  }

  bool run(std::uint64_t block) {
    place_frames(block);
    std::sort(wanted_.begin(), wanted_.end(), [](const Stretch& a, const Stretch& b) {
      return std::pair(a.file, a.offset) < std::pair(b.file, b.offset);
    });
    if (!read_stretches() || !find_geometry()) return false;
    return read_values();
  }

 private:
  void place_frames(std::uint64_t block) {
    const std::uint64_t first = block * kBlockPositions;
    const std::uint64_t n = std::min<std::uint64_t>(kBlockPositions, plan_.shape.n_positions() - first);
    out_.frames.assign(n, FastFrame{});
    out_.in_order = true;
    for (std::uint32_t i = 0; i < n; ++i) {
      FastFrame& f = out_.frames[i];
      f.crop_position = first + i;
      f.frame = out_.order[i] = source_.frame_of(plan_.source_position(first + i));
      if (i && out_.order[i] <= out_.order[i - 1]) out_.in_order = false;
      f.kind = FastFrame::Kind::values;  // until it is known better
      const Part* part = source_.container().part_of(f.frame);
      if (!part || !has_planes(*part, plan_)) continue;
      const std::uint64_t chunk = chunk_of(*part, f.frame - part->first_frame);
      if (chunk >= part->chunks.size()) continue;
      const ByteRange& range = part->chunks[chunk];
      // Longer than anything that an encoder makes of a frame: the general path says what is wrong with it.
      if (!range.present() || range.filter_mask || range.bytes > 2 * out_.frame_bytes + 4096) continue;
      wanted_.push_back({part->file, i, range.offset, range.bytes});
    }
  }

  bool read_stretches() {
    std::uint64_t total = 0;
    for (std::size_t i = 0; i < wanted_.size();) {
      const std::size_t stop = end_of_run(i);
      total += span_of(i, stop);
      i = stop;
    }
    if (total > kMaxStoredBytes) return false;
    if (out_.stored.n_bytes() < total) out_.stored = Buffer(total + total / 8);
    if (total && !out_.stored.data()) return false;
    std::uint64_t at = 0;
    for (std::size_t i = 0; i < wanted_.size();) {
      const std::size_t stop = end_of_run(i);
      const std::uint64_t offset = wanted_[i].offset, n = span_of(i, stop);
      const auto good =
          source_.reader().read_bytes(wanted_[i].file, offset, {out_.stored.data() + at, static_cast<std::size_t>(n)});
      for (; i < stop; ++i) {
        FastFrame& f = out_.frames[wanted_[i].index];
        if (!good) continue;  // stays with the general path, which names the frame
        f.kind = FastFrame::Kind::planes;
        f.at = at + wanted_[i].offset - offset;
        f.bytes = wanted_[i].bytes;
      }
      at += n;
    }
    return true;
  }

  // Stretches [i, stop) are read at once.
  [[nodiscard]] std::size_t end_of_run(std::size_t i) const {
    std::uint64_t end = wanted_[i].offset + wanted_[i].bytes;
    std::size_t stop = i + 1;
    for (; stop < wanted_.size() && wanted_[stop].file == wanted_[i].file && wanted_[stop].offset <= end + kMaxGapBytes;
         ++stop)
      end = std::max(end, wanted_[stop].offset + wanted_[stop].bytes);
    return stop;
  }
  [[nodiscard]] std::uint64_t span_of(std::size_t i, std::size_t stop) const {
    std::uint64_t end = 0;
    for (std::size_t k = i; k < stop; ++k) end = std::max(end, wanted_[k].offset + wanted_[k].bytes);
    return end - wanted_[i].offset;
  }

  // The first frame's; frames with another go the general way.
  bool find_geometry() {
    const std::size_t item = item_bytes(plan_.source_dtype);
    bool found = false;
    for (FastFrame& f : out_.frames) {
      if (f.kind != FastFrame::Kind::planes) continue;
      const Part* part = source_.container().part_of(f.frame);
      PlaneGeometry g;
      if (!plane_geometry(out_.stored_of(f), part->filters[0], item, out_.frame_bytes, g).ok() ||
          g.item_bytes != item || (found && !(g == out_.geometry))) {
        f.kind = FastFrame::Kind::values;
        continue;
      }
      if (!found) out_.geometry = g;
      found = true;
    }
    if (!found) {
      const std::uint64_t n = plan_.source.frame_pixels(), usual = 8192 / item;
      out_.geometry = {BlockCodec::none, item, usual, n / usual, n % usual / 8 * 8, n % 8};
    }
    return out_.geometry.bytes_of(0) <= kMaxBlockBytes;
  }

  bool read_values() {
    std::uint64_t n = 0;
    for (const FastFrame& f : out_.frames) n += f.kind == FastFrame::Kind::values;
    if (n == 0) return true;
    std::vector<std::byte> frame(static_cast<std::size_t>(out_.frame_bytes));
    out_.values.clear();
    out_.values.reserve(
        static_cast<std::size_t>(std::min(n * out_.frame_bytes, std::max(kMaxValuesBytes, plan_.block_bytes))));
    for (FastFrame& f : out_.frames) {
      if (f.kind != FastFrame::Kind::values) continue;
      if (auto fault = source_.read_frame(f.frame, frame, scratch_)) {
        out_.lose(f, *std::move(fault));
        continue;
      }
      if (out_.values.size() + out_.frame_bytes > std::max(kMaxValuesBytes, plan_.block_bytes)) return false;
      f.at = out_.values.size();
      out_.values.insert(out_.values.end(), frame.begin(), frame.end());
    }
    return true;
  }

  const LoadPlan& plan_;
  const ContainerSource& source_;
  BlockFrames& out_;
  FrameReader::Scratch& scratch_;
  std::vector<Stretch> wanted_;
};

}  // namespace

bool has_planes(const Part& part, const LoadPlan& plan) {
  if (!part.absent_reason.empty() || part.chunk.empty() || part.big_endian || part.dtype != plan.source_dtype)
    return false;
  if (part.filters.size() != 1 || part.filters[0].id != 32008 || part.shape.size() < 2) return false;
  const std::size_t rank = part.shape.size();
  if (part.fixed_axis != ~std::uint64_t{0} && (rank != 4 || part.fixed_axis > 1)) return false;
  if (part.shape[rank - 2] != plan.source.det.rows || part.shape[rank - 1] != plan.source.det.cols) return false;
  std::uint64_t frames_in_chunk = 1;
  for (std::size_t i = 0; i + 2 < rank; ++i) frames_in_chunk *= part.chunk[i];
  return frames_in_chunk == 1 && part.chunk[rank - 2] == plan.source.det.rows &&
         part.chunk[rank - 1] == plan.source.det.cols;
}

bool collect_frames(const LoadPlan& plan, const ContainerSource& source, std::uint64_t block, BlockFrames& out,
                    FrameReader::Scratch& scratch) {
  return Collector(plan, source, out, scratch).run(block);
}

}  // namespace quantem
