#pragma once
// Sums over the streams of one block, 512 scan positions at a time: planes of equal weight are added bit-sliced by carry-save
// adders in SIMD registers, listed bits are added to the integers directly, one bit transpose turns slices into integers.
// Exact modulo 2^64. Compiled for every SIMD target and chosen at run time; all targets give the same integers.

#include <cstdint>
#include <span>
#include <vector>

#include "quantem/detector/plan.h"
#include "quantem/resident/sliced.h"

namespace quantem::detector_detail {

// Neighbouring streams [first, stop): their planes and their lists are contiguous in every block.
struct SliceRun {
  std::uint32_t first, stop;
};
// value = sum over groups of 2^shift * (sum of plus - sum of minus)
struct SliceGroup {
  std::uint32_t shift = 0;
  std::vector<SliceRun> plus, minus;
};
using SliceForm = std::vector<SliceGroup>;

void append_stream(std::vector<SliceRun>& runs, std::uint32_t stream);
SliceGroup group_of(const MaskPlan& plan, std::uint32_t shift = 0);

// values[i] = the form at position i of the block; 512 values, written in full.
void sum_form(const SlicedBlock& block, const SliceForm& form, std::uint64_t* values);

// Pixel streams by detector row and by detector column, for moments.
struct MomentPixels {
  struct Line {
    std::uint32_t coordinate;
    std::vector<SliceRun> runs;
  };
  std::vector<Line> rows, cols;
};
// Adds the pixels' sums, and row and column moments, times +1 or -1, to the three arrays of 512.
void add_moments(const SlicedBlock& block, const MomentPixels& pixels, bool minus, std::uint64_t* total,
                 std::uint64_t* row, std::uint64_t* col);

// sums[s - first] += sum of stream s over the block's positions that are set in `positions` (8 words), or over all (null).
void add_stream_sums(const SlicedBlock& block, std::uint32_t first, std::uint32_t stop, const std::uint64_t* positions,
                     std::uint64_t* sums);

}  // namespace quantem::detector_detail
