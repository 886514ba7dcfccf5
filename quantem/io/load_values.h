#pragma once
// The counts of one block of 512 positions of the volume: read frame by frame, cropped, left-out samples zeroed, audited, hot
// pixels replaced, binned. Right for every container; `BlockEncoder` is the seam for faster ways.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "quantem/core/job.h"
#include "quantem/io/frame_reader.h"
#include "quantem/io/load_plan.h"
#include "quantem/resident/sliced_block_writer.h"

namespace quantem {

// Frames of the source by flat source position. Called from many threads.
class FrameSource {
 public:
  virtual ~FrameSource() = default;
  // Rank of the position's frame in acquisition order.
  [[nodiscard]] virtual std::uint64_t frame_of(std::uint64_t source_position) const = 0;
  // The whole frame in the source dtype, host byte order; a fault leaves `out` unspecified.
  virtual std::optional<FrameFault> read_frame(std::uint64_t frame, std::span<std::byte> out,
                                               FrameReader::Scratch& scratch) const = 0;
};

struct LostFrame {
  std::uint64_t crop_position = 0;
  FrameFault fault;
};

// What one block showed besides its counts.
struct BlockReport {
  AuditPart audit;
  FlaggedBlock flagged;                     // closed
  std::vector<std::uint64_t> missing;       // positions of the volume, ascending
  std::vector<LostFrame> lost;              // the first few, for messages
  std::uint64_t n_lost = 0, n_corrupt = 0;  // frames
};
inline constexpr std::size_t kLostKept = 4;

// Hot pixels of the crop and, for each, the neighbours whose median replaces it.
struct HotPixel {
  std::uint32_t pixel = 0;
  std::vector<std::uint32_t> neighbours;
};

// Reads blocks of the general path. One object serves all threads; scratch comes from its pool.
class BlockReader {
 public:
  BlockReader(const LoadPlan& plan, const FrameSource& source) : plan_(plan), source_(source) {}
  struct Scratch {
    std::vector<std::byte> frame, crop, sums;
    FrameReader::Scratch reader;
  };
  // Block b into `out`, positions x shape.det in plan.dtype; missing positions hold 0. The first frame without values, in scan
  // order, is the error under Missing::error; the first marker is under Flagged::error.
  Result<Done> read(std::uint64_t block, std::span<std::byte> out, BlockReport& report, Scratch& scratch,
                    ProgressMeter& meter) const;
  // Adds the valid samples of a block's frames to `sums` (pixels of the crop, in double) and the number of frames to `n_frames`.
  Result<Done> add_pattern(std::uint64_t block, std::span<double> sums, std::uint64_t& n_frames, Scratch& scratch,
                           ProgressMeter& meter) const;
  void set_hot_pixels(std::vector<HotPixel> hot) { hot_ = std::move(hot); }

 private:
  template <class S>
  friend class BlockTask;
  const LoadPlan& plan_;
  const FrameSource& source_;
  std::vector<HotPixel> hot_;
};

// The error of a load that met a frame without values under Missing::error.
Error lost_frame_error(const LoadPlan& plan, std::uint64_t crop_position, const FrameFault& fault);
Error marker_error(const LoadPlan& plan, std::uint64_t crop_position, std::uint32_t crop_pixel);

// The seam: positions [512 b, 512 b + 512) of the volume as an encoded block, with what they showed. Called from many threads.
class BlockEncoder {
 public:
  virtual ~BlockEncoder() = default;
  virtual Result<EncodedBlock> encode_block_from_source(std::uint64_t block, BlockReport& report,
                                                        ProgressMeter& meter) = 0;
};
// BlockReader, then bit planes of its frames, then PlaneEncoder: works for every plan with u8 u16 u32 counts (load_general.cpp).
std::unique_ptr<BlockEncoder> general_block_encoder(const LoadPlan& plan, const BlockReader& reader);

}  // namespace quantem
