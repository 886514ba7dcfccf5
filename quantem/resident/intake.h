#pragma once
// What every source of frames goes through before its counts are stored, in this order: bad pixels, markers, audit.
// Used by from_array and by load, so that the two agree.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "quantem/core/bit_mask.h"
#include "quantem/resident/audit.h"
#include "quantem/resident/volume.h"

namespace quantem {

inline constexpr std::uint32_t kMarker = 0xFFFFFFFFu;  // of u32 sources: "no value"

struct IntakeRules {
  Dtype dtype = Dtype::u16;
  BitMask valid_pixels;  // of the frame as it comes in; a bad pixel becomes 0 and takes part in nothing
  Flagged flagged = Flagged::zero;
  double saturation = std::numeric_limits<double>::infinity();
};

// Samples without a value, of one block of positions. Pixels flagged at every position of a block are kept once, not
// per position: a detector's gap costs 4 bytes a block.
struct FlaggedBlock {
  std::vector<FlaggedSample> samples;         // ascending
  std::vector<std::uint32_t> every_position;  // pixels, ascending
  std::uint64_t n_frames = 0;                 // that had values
  std::vector<std::uint32_t> per_pixel;       // only while the block is taken in: how often each pixel was flagged
  void close();                               // after the block's last frame: sorts samples into the two lists
};

// One frame, in place. `order` ranks frames in acquisition order; `position` is reported. The first marker under
// Flagged::error comes back as its pixel.
template <class T>
std::optional<std::uint32_t> take_frame(const IntakeRules& rules, std::span<T> frame, std::uint64_t order,
                                        std::uint64_t position, std::uint64_t stored_position, AuditPart& audit,
                                        FlaggedBlock& flagged);

// All blocks together: pixels that are flagged in every frame (they become bad: cleared in `valid_pixels`), and the
// samples left. Block b holds stored positions [512 b, 512 b + 512).
std::vector<FlaggedSample> resolve_flagged(std::span<const FlaggedBlock> blocks, const BitMask& valid_positions,
                                           std::uint64_t n_frames, BitMask& valid_pixels);

}  // namespace quantem
