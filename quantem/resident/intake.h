#pragma once
// What every source of frames goes through before its counts are stored, in this order: bad pixels, markers, audit. Used by
// from_array and by load, so that the two agree.

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "quantem/core/bit_mask.h"
#include "quantem/resident/audit.h"
#include "quantem/resident/volume.h"

namespace quantem {

inline constexpr std::uint32_t kMarker = 0xFFFFFFFFu;  // of u32 sources: "no value"

struct IntakeRules {
  IntakeRules() = default;
  IntakeRules(BitMask valid_pixels_, Flagged flagged_, double saturation_);

  BitMask valid_pixels;            // of the frame as it comes in; a bad pixel becomes 0 and takes part in nothing
  std::vector<std::uint32_t> bad;  // its cleared bits, ascending
  Flagged flagged = Flagged::zero;
  double saturation = std::numeric_limits<double>::infinity();
};

// Samples without a value, of one block of 512 stored positions. A pixel that is flagged in every frame of the block (a gap of the
// detector) is kept once, not per position.
class FlaggedBlock {
 public:
  void begin_frame(std::uint64_t stored_position);  // before the frame's samples
  void add(std::uint32_t pixel, std::uint32_t n_pixels);
  void close();  // after the block's last frame

  [[nodiscard]] std::uint64_t n_frames() const { return n_frames_; }
  // After close(): samples ascending, and the pixels flagged in every frame, ascending.
  [[nodiscard]] const std::vector<FlaggedSample>& samples() const { return samples_; }
  [[nodiscard]] const std::vector<std::uint32_t>& every_frame() const { return every_frame_; }

 private:
  std::vector<FlaggedSample> samples_;
  std::vector<std::uint32_t> every_frame_;
  std::uint64_t n_frames_ = 0;
  // While frames come in: their positions, and of each pixel in how many frames from the first on it was flagged without a break.
  std::vector<std::uint64_t> positions_;
  std::vector<std::uint32_t> run_;
};

// Where a frame belongs: `order` ranks frames in acquisition order, `position` is what the audit reports, `stored` is the position
// of the volume (the scan bin) that flagged samples are filed under.
struct FramePlace {
  std::uint64_t order = 0, position = 0, stored = 0;
};

// One frame, in place: bad pixels and markers become 0, the rest is audited. Under Flagged::error the first marker comes back as
// its pixel and the frame is not taken.
template <class T>
std::optional<std::uint32_t> take_frame(const IntakeRules& rules, std::span<T> frame, const FramePlace& place,
                                        AuditPart& audit, FlaggedBlock& flagged);

// All blocks together: pixels that are flagged in every frame become bad (cleared in `valid_pixels`); the samples left, ascending.
// Block b holds stored positions [512 b, 512 b + 512); samples at positions that are not valid are dropped.
std::vector<FlaggedSample> resolve_flagged(std::span<const FlaggedBlock> blocks, const BitMask& valid_positions,
                                           BitMask& valid_pixels);

}  // namespace quantem
