#pragma once
// Which bytes of which files make the slabs of a load that decodes on a device: frames in scan order, chunks joined into few large reads.

#include <cstdint>
#include <vector>

#include "quantem/io/bslz4_cuda.h"
#include "quantem/io/container.h"
#include "quantem/io/load_values.h"

namespace quantem {

struct Piece {  // one read: bytes of a file to a place in a slab
  std::uint32_t file;
  std::uint64_t offset, bytes, to;
};
struct SlabPlan {
  std::uint64_t first_position = 0;
  std::uint32_t n_frames = 0, n_blocks = 0;
  std::uint64_t bytes = 0;  // of the slab, gaps included
  std::vector<Piece> pieces;
  std::vector<ChunkPlace> chunks;      // of each frame
  std::vector<std::uint32_t> present;  // a bit a frame
};

// All positions of the plan in slabs of `slab_blocks` blocks (the last may be shorter). Empty when a chunk needs the CPU: a filter was left
// out, another codec, more bytes than any encoder makes of a frame, a slab of 2 GiB.
std::vector<SlabPlan> plan_slabs(const LoadPlan& plan, const Container& container, const FrameSource& source,
                                 std::uint32_t slab_blocks);

}  // namespace quantem
