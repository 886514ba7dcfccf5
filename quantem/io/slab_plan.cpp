#include "quantem/io/slab_plan.h"

#include <algorithm>
#include <atomic>

#include "quantem/runtime/thread_pool.h"

namespace quantem {
namespace {

constexpr std::uint64_t kPieceBytes = std::uint64_t{2} << 20;  // of one read
constexpr std::uint64_t kJoinGap = 64 << 10;                   // chunks closer than this are read together

bool is_bitshuffle_lz4(const Part& part, const Container& container) {
  return part.one_frame_per_chunk() && !part.big_endian && part.dtype == container.dtype && part.filters.size() == 1 &&
         part.filters[0].id == 32008 && part.filters[0].client.size() > 4 && part.filters[0].client[4] == 2;
}
std::uint64_t source_frame_bytes(const LoadPlan& plan) {
  return plan.source.frame_pixels() * item_bytes(plan.source_dtype);
}

// Chunks of the slab's positions, joined into few large reads. False when a chunk needs the CPU (a filter was left out, another codec).
bool plan_slab(const LoadPlan& plan, const Container& container, const FrameSource& source, SlabPlan& slab) {
  struct Chunk {
    std::uint32_t file, frame;
    std::uint64_t offset, bytes;
  };
  const std::uint64_t most_bytes = 2 * source_frame_bytes(plan) + 4096;  // as in load_fast_source.cpp
  std::vector<Chunk> chunks;
  slab.chunks.assign(slab.n_frames, {0, 0});
  slab.present.assign(std::size_t{slab.n_blocks} * (kBlockPositions / 32), 0);
  for (std::uint32_t i = 0; i < slab.n_frames; ++i) {
    const std::uint64_t frame = source.frame_of(plan.source_position(slab.first_position + i));
    const Part* part = container.part_of(frame);
    if (!part || !part->absent_reason.empty()) continue;
    if (!is_bitshuffle_lz4(*part, container)) return false;
    const ByteRange& range = part->chunks[frame - part->first_frame];
    if (!range.present()) continue;
    if (range.filter_mask != 0 || range.bytes > most_bytes) return false;
    chunks.push_back({part->file, i, range.offset, range.bytes});
  }
  std::sort(chunks.begin(), chunks.end(),
            [](const Chunk& a, const Chunk& b) { return a.file != b.file ? a.file < b.file : a.offset < b.offset; });
  std::uint64_t at = 0;  // where the next byte goes
  for (const Chunk& c : chunks) {
    Piece* last = slab.pieces.empty() ? nullptr : &slab.pieces.back();
    const bool joins = last && last->file == c.file && c.offset >= last->offset &&
                       c.offset <= last->offset + last->bytes + kJoinGap && last->bytes < kPieceBytes;
    if (!joins) {
      at = (at + 15) / 16 * 16;
      slab.pieces.push_back({c.file, c.offset, 0, at});
      last = &slab.pieces.back();
    }
    slab.chunks[c.frame] = {static_cast<std::uint32_t>(last->to + (c.offset - last->offset)),
                            static_cast<std::uint32_t>(c.bytes)};
    slab.present[c.frame / 32] |= 1u << c.frame % 32;
    last->bytes = std::max(last->bytes, c.offset + c.bytes - last->offset);
    at = std::max(at, last->to + last->bytes);
  }
  slab.bytes = at;
  return at < 0x7fffffffu;
}

}  // namespace

std::vector<SlabPlan> plan_slabs(const LoadPlan& plan, const Container& container, const FrameSource& source,
                                 std::uint32_t slab_blocks) {
  std::vector<SlabPlan> slabs((plan.n_blocks + slab_blocks - 1) / slab_blocks);
  std::atomic<bool> good = true;
  parallel_for(slabs.size(), [&](std::uint64_t i) {
    if (!good) return;
    SlabPlan& slab = slabs[i];
    const std::uint64_t first_block = i * slab_blocks;
    slab.first_position = first_block * kBlockPositions;
    slab.n_blocks = static_cast<std::uint32_t>(std::min<std::uint64_t>(slab_blocks, plan.n_blocks - first_block));
    slab.n_frames = static_cast<std::uint32_t>(std::min<std::uint64_t>(std::uint64_t{slab.n_blocks} * kBlockPositions,
                                                                       plan.shape.n_positions() - slab.first_position));
    if (!plan_slab(plan, container, source, slab)) good = false;
  });
  if (!good) slabs.clear();
  return slabs;
}

}  // namespace quantem
