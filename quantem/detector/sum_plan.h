#pragma once
// A weighted sum of streams, value = sum of weight * stream, ordered for the GPU kernel of sums_cuda.cu.
//
// Planes. Terms are dealt into rounds of 16 streams; one warp takes a round, each half of it eight streams. All streams of a round
// have the same weight and are about equally wide, so that the warp does one thing. Rounds come by falling weight, and the kernel
// needs no multiplication: it keeps T = sum of the streams so far and, whenever the weight falls from w to v, adds (w - v) * T to the
// result. A plain masked sum has weights +1 and -1 only, and T is the result.
// Lists. The lists of neighbouring streams are one list, so terms of neighbouring streams with equal weight are one run. Some warps do
// nothing but lists; how many is estimated from what the plan's streams hold on average.

#include <cstdint>
#include <span>
#include <vector>

#include "quantem/detector/plan.h"

namespace quantem::detector_detail {

inline constexpr std::uint32_t kSumWarps = 8, kRoundStreams = 16, kNoStream = ~std::uint32_t{0};

struct SumTerm {
  std::uint32_t stream;
  std::int64_t weight;  // not 0
};
// Streams [first, last], last included.
struct SumRun {
  std::uint32_t first, last;
  std::int64_t weight;
};
struct SumPlan {
  std::vector<std::uint32_t> streams;  // kRoundStreams a round, padded with kNoStream
  std::vector<std::uint64_t> codes;    // a round: |weight| | kMinus
  std::vector<SumRun> runs;            // by stream; every term's stream is in one
  std::uint32_t list_warps = 0;        // of kSumWarps that do lists only; 0: every warp, after its planes
  bool weighted = false;               // some |weight| is not 1
  double n_planes = 0, n_listed = 0;   // expected a block
  std::uint64_t n_terms = 0;
  [[nodiscard]] std::uint32_t n_rounds() const { return static_cast<std::uint32_t>(codes.size()); }
  static constexpr std::uint64_t kMinus = std::uint64_t{1} << 63;
};

// A stream may come in several terms; its list is then read once, with the sum of the weights.
SumPlan make_sum_plan(std::vector<SumTerm> terms, std::span<const float> mean_planes,
                      std::span<const float> mean_listed);

std::vector<SumTerm> terms_of(const MaskPlan& plan);

// Integer weights of pixels as signed masks, one for each bit of |w|, each planned over tiles and pixels.
std::vector<SumTerm> terms_of_weights(const Planner& planner, std::span<const std::int64_t> weights);

// First moments over `selected` along rows (or columns). 32x32 tiles that are mostly selected are taken whole, from their sum and
// stored moment, and the rest of their pixels taken away; other pixels come one by one.
std::vector<SumTerm> terms_of_moment(const SlicedLayout& layout, const BitMask& selected, const BitMask& valid,
                                     bool along_rows);

}  // namespace quantem::detector_detail
