#pragma once
// The fast encoder of bit-sliced-v1: bit planes of frames (as bitshuffle leaves them) -> one block of 512 positions, without a dense
// frame in between. The same bytes as encode_block (sliced_encode.h), for every detector shape and for u8, u16 and u32.
//
// Frames come as *ranges* of flat pixels, ascending and without gaps: the blocks of a bitshuffle chunk. Each range comes as up to 16
// groups of 32 frames, so that a group's planes stay in the cache of a core. A group is transposed in 32x32 bits at once; a range
// leaves as planes of pixels; a band of 8 detector rows leaves as streams, with its tile sums and moments added while still sliced.
//
//   PlaneEncoder encoder(layout, 2, valid_pixels, options);
//   encoder.start(n_positions, valid_positions);
//   for each block of the chunks   { encoder.begin_range(first_pixel, n_pixels);
//     for each 32 frames             encoder.add_frames(group, planes, stride, live_bytes);
//     encoder.end_range(); }
//   encoder.finish();
//
// Memory: 64 bytes * (8 * item_bytes) * (pixels of a range + pixels of 8 detector rows), and the BlockWriter's.

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "quantem/core/array.h"
#include "quantem/core/bit_mask.h"
#include "quantem/core/result.h"
#include "quantem/resident/sliced.h"
#include "quantem/resident/sliced_block_writer.h"

namespace quantem {

// One bit per position of a block.
using PositionBits = std::array<std::uint64_t, kBlockPositions / 64>;

// What a block's valid values are, taken on their planes. Exact.
struct BlockAudit {
  std::uint64_t n_nonzero = 0, n_above_255 = 0, n_above_65535 = 0, n_saturated = 0, n_flagged = 0;
  std::uint64_t count_max = 0;  // 0 when there is no value
  std::uint32_t max_position = 0,
                max_pixel = 0;  // of count_max: the first in acquisition order, then the first flat pixel
  std::uint64_t count_min = ~std::uint64_t{0};  // all ones when there is no value
};

// A sample that held the marker: position in the block, flat detector pixel.
struct BlockSample {
  std::uint32_t position, pixel;
  auto operator<=>(const BlockSample&) const = default;
};

struct PlaneEncoderOptions {
  std::uint64_t saturated_from = ~std::uint64_t{0};  // values >= this are counted in n_saturated
  bool zero_markers = false;  // 4-byte items: 0xFFFFFFFF is stored as 0 and listed, and is no value
};

class PlaneEncoder {
 public:
  static constexpr std::uint32_t kGroupFrames = 32, kReadAhead = 64;  // bytes that may be read past a frame's planes

  // valid_pixels: empty, or one bit per flat pixel; bad pixels are stored as 0 and are no values. layout must outlive the encoder.
  PlaneEncoder(const SlicedLayout& layout, std::uint32_t item_bytes, const BitMask& valid_pixels,
               const PlaneEncoderOptions& options = {});
  ~PlaneEncoder();
  PlaneEncoder(PlaneEncoder&&) noexcept;

  // Positions without a bit in `valid` must be given as zero frames.
  // `order` ranks the block's 512 positions in acquisition order (for the place of the maximum); null: as they stand.
  void start(const PositionBits& valid, const std::uint64_t* order = nullptr);
  // Flat pixels [first, first + count): `first` where the last range ended, a multiple of 8; `count` a multiple of 8, which may pass
  // the last pixel by up to 7 (bits past it are ignored).
  void begin_range(std::uint32_t first, std::uint32_t count);
  // Frames [32 group, 32 group + 32) of the block: plane b of frame 32 group + i is count / 8 bytes at
  // planes + i * stride + b * count / 8; bytes from live_bytes of every frame on are zero and are not read, except that kReadAhead
  // bytes past the last live plane must be readable. Groups that are not given are zero.
  void add_frames(std::uint32_t group, const std::byte* planes, std::size_t stride, std::size_t live_bytes);
  void end_range();
  // The errors of BlockWriter::finish.
  Result<EncodedBlock> finish();

  [[nodiscard]] const BlockAudit& audit() const;
  [[nodiscard]] const std::vector<BlockSample>& flagged() const;  // ascending

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace quantem
