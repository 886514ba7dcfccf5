#pragma once
// Which streams of a bit-sliced volume to add and subtract for a mask: nested signed sums over 32x32 tiles, 8x8 tiles, 4x4
// tiles where the volume has them, and pixels, whatever costs least. A disc is its interior tiles plus its boundary pixels, so the cost follows the perimeter.
// Backend-neutral: every backend runs the same plans over its own storage. Sums of planes are exact, so a plan decides how
// fast an answer comes and never what it is.

#include <cstdint>
#include <span>
#include <vector>

#include "quantem/core/bit_mask.h"
#include "quantem/resident/sliced.h"

namespace quantem {

// What touching a stream costs, in any unit: a term for the stream, for each stored plane, for each listed bit.
struct CostModel {
  float stream = 1, plane = 1, listed = 0.4f;
};

// Expected cost of each stream of the layout.
struct StreamCosts {
  std::vector<float> of_stream;  // layout.n_streams
};
// From the mean width and mean number of listed bits of each stream, over the volume's blocks or a sample of them.
StreamCosts stream_costs(std::span<const float> mean_width, std::span<const float> mean_listed, const CostModel& model);
// The same from blocks in host memory: up to `n_samples` blocks at equal distances.
StreamCosts stream_costs(const SlicedStorage& storage, const CostModel& model, std::uint32_t n_samples = 8);

// A stream enters with +1 or -1.
struct PlanTerm {
  std::uint32_t stream;
  std::int32_t sign;
  bool operator==(const PlanTerm&) const = default;
};
struct MaskPlan {
  std::vector<PlanTerm> terms;  // by stream, ascending; a stream at most once
  double cost = 0;
};

// Plans for one detector layout, one set of valid pixels and one set of costs. Bad pixels hold 0 and enter no tile sum, so
// what a plan does with them is free.
class Planner {
 public:
  Planner(const SlicedLayout& layout, StreamCosts costs, const BitMask& valid_pixels);

  // sum over the mask's valid pixels. `plus` (and `minus`) have one bit a flat pixel.
  [[nodiscard]] MaskPlan plan(const BitMask& plus) const { return plan_signed(plus, nullptr); }
  // sum over `plus` minus sum over `minus`; the two share no pixel.
  [[nodiscard]] MaskPlan plan(const BitMask& plus, const BitMask& minus) const { return plan_signed(plus, &minus); }
  // sum over `to` minus sum over `from`: what to add to an image when its mask moves.
  [[nodiscard]] MaskPlan plan_change(const BitMask& from, const BitMask& to) const;

  [[nodiscard]] const SlicedLayout& layout() const { return layout_; }

 private:
  struct Tile8 {
    std::uint32_t first_stream, row, col, tile32;
    std::uint8_t rows, cols;
    std::uint64_t valid;  // bit i: the tile's pixel i, row-major, is valid
    float cost;           // of all its valid pixels
  };
  [[nodiscard]] MaskPlan plan_signed(const BitMask& plus, const BitMask* minus) const;
  [[nodiscard]] std::uint64_t tile_bits(const BitMask& mask, const Tile8& tile) const;
  [[nodiscard]] float cost_of(const Tile8& tile, std::uint64_t pixels) const;
  // One of the up to four 4x4 tiles of an 8x8 tile.
  struct Tile4 {
    std::uint32_t stream;
    std::uint64_t bits;  // its pixels, numbered as the 8x8 tile's
  };
  [[nodiscard]] std::uint32_t tiles4_of(std::uint32_t tile8, Tile4 (&tiles)[4]) const;

  SlicedLayout layout_;
  StreamCosts costs_;
  std::vector<Tile8> tiles_;                           // tile8 order
  std::vector<std::vector<std::uint32_t>> of_tile32_;  // its 8x8 tiles
};

}  // namespace quantem
