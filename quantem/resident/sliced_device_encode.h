#pragma once
// Encoding bit-sliced-v1 on a GPU, slab by slab, from bit planes of pixels ("rows") that a decoder has left in device memory. Makes the
// same streams, plane by plane and list by list, as the reference encoder.
//
// A slab is a few blocks of 512 positions. For each, on its lane's CUDA stream:
//   transpose   32 frames x 32 pixels of bits at a time      rows -> slices: every plane of every pixel stream, with its set bits counted
//   tiles       8x8 and 32x32 sums, 32x32 first moments      slices -> slices of the tile streams
//   decide      width and listed bits of every stream        counts -> u16 a stream
//   offsets     where the planes and lists of every 32 streams begin; totals of the block to the host
//   place       directory, planes and listed bits to their place    slices -> volume
// The host allocates between offsets and place, exactly what the slab needs, so a dataset denser than expected is never an overrun.
// Two lanes overlap: while one lane's totals travel, the other computes.

#include <cstdint>
#include <memory>

#include "quantem/core/bit_mask.h"
#include "quantem/resident/audit.h"
#include "quantem/resident/sliced_device.h"

namespace quantem {

inline constexpr std::uint32_t kSegmentWords = 64;  // words of a row that share one mask of live planes

// Bit i of word w of a row is one bit of pixel 32 w + i. Planes that are not live in a segment are not written and not read.
struct PlaneRows {
  std::uint32_t* words;    // [block][plane][512 positions][row_words]
  std::uint32_t* live;     // [block][segment][512 positions]: bit p: plane p holds a one here
  std::uint32_t* present;  // [block][16]: bit j of word k: position 32 k + j has a frame
  std::uint32_t n_planes, row_words, n_segments;
};
constexpr std::uint32_t row_words_of(std::uint32_t n_pixels) {
  return (n_pixels + 511) / 512 * 16;
}

struct DeviceAudit {  // over valid pixels of present frames; exact
  std::uint64_t n_nonzero = 0, n_above_255 = 0, n_above_65535 = 0, n_saturated = 0;
  std::uint32_t count_min = 0, count_max = 0, max_pixel = 0;
  std::uint64_t max_position = 0;

  // Everything that is counted here; the number of values, flagged samples and orders are the caller's.
  void write_to(AuditPart& part) const {
    part.n_nonzero = n_nonzero;
    part.n_above_255 = n_above_255;
    part.n_above_65535 = n_above_65535;
    part.n_saturated = n_saturated;
    part.min = count_min;
    part.max = count_max;
    part.max_position = max_position;
    part.max_pixel = max_pixel;
  }
};

class SlicedDeviceBuilder {
 public:
  struct Options {
    SlicedLayout layout;
    std::uint64_t n_positions = 0;
    std::uint32_t item_bits = 16;   // 8, 16 or 32
    std::uint32_t slab_blocks = 4;  // blocks of 512 positions in a slab
    std::uint32_t n_lanes = 2;
    BitMask valid_pixels;
    double saturation = 0;  // values >= it are counted as saturated; infinity: none
    void* work = nullptr;   // work_bytes() of device memory that stay until the builder is gone; null: its own
  };
  static Result<std::unique_ptr<SlicedDeviceBuilder>> make(CudaContext& context, const Options& options);
  ~SlicedDeviceBuilder();

  // Device bytes of the work area.
  static std::uint64_t work_bytes(const Options& options);

  [[nodiscard]] CudaStream* stream(std::uint32_t lane) const;
  [[nodiscard]] PlaneRows rows(
      std::uint32_t lane) const;  // where the decoder writes; `live` and `present` must be complete

  // Dense frames in device memory, (n_frames, n_pixels) of 8, 16 or 32 bits -> rows, bad pixels cleared, present set.
  Result<Done> rows_from_values(std::uint32_t lane, const void* values, std::uint32_t n_frames);
  // u32 only: samples of all ones (no value) are cleared and listed. Their number is known after place().
  Result<Done> clear_flagged(std::uint32_t lane, std::uint64_t first_block, std::uint32_t n_blocks);
  // Queues everything up to the directory of blocks [first_block, first_block + n_blocks).
  Result<Done> encode(std::uint32_t lane, std::uint64_t first_block, std::uint32_t n_blocks);
  // Waits for that slab's totals, allocates, and queues its planes and lists.
  Result<Done> place(std::uint32_t lane);
  // Waits for everything. `audit` and `flagged` (ascending) are complete then.
  Result<std::shared_ptr<const SlicedDevice>> finish(DeviceAudit& audit, std::vector<FlaggedSample>& flagged);

 private:
  struct State;
  explicit SlicedDeviceBuilder(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace quantem
