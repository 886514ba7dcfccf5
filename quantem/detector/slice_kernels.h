#pragma once
// Sums over the streams of blocks, 512 scan positions at a time: planes of equal weight are added bit-sliced by carry-save
// adders in SIMD registers, listed bits are added to the integers directly, one bit transpose turns slices into integers.
// Exact modulo 2^64. Compiled for every SIMD target and chosen at run time; all targets give the same integers.

#include <cstdint>
#include <span>
#include <vector>

#include "quantem/detector/plan.h"
#include "quantem/resident/sliced.h"

namespace quantem::detector_detail {

// weight * value of a stream
struct WeightedStream {
  std::uint32_t stream;
  std::int64_t weight;
};
// A linear combination of streams, as the kernels want it: weights as signed powers of two, lists of neighbouring streams with
// one weight as one list.
struct SliceForm {
  struct Term {
    std::uint32_t stream, shift;  // 2^shift
  };
  struct ListRun {
    std::uint32_t first, stop;  // streams [first, stop): their lists are contiguous in every block
    std::uint64_t weight;       // modulo 2^64
  };
  std::vector<Term> plus, minus;
  std::vector<ListRun> lists;
};
SliceForm form_of(std::span<const WeightedStream> streams);  // by stream, ascending
SliceForm form_of(const MaskPlan& plan);

// images[m][i] = forms[m] at position i of the blocks, which follow each other; the last may be cut by the images' ends.
void sum_forms(std::span<const SlicedBlock> blocks, std::span<const SliceForm> forms,
               std::span<const std::span<std::uint64_t>> images);

// Pixel streams by detector row and by detector column, for moments.
struct MomentPixels {
  struct Run {
    std::uint32_t first, stop;  // streams [first, stop)
    std::uint32_t start;        // along a row: the column of the first; each next stream is one column further
  };
  struct Line {
    std::uint32_t coordinate;
    std::vector<Run> runs;
  };
  std::vector<Line> rows, cols;
};
// Adds the pixels' sums, and row and column moments, times +1 or -1, to three arrays of 512.
void add_moments(const SlicedBlock& block, const MomentPixels& pixels, bool minus, std::uint64_t* total,
                 std::uint64_t* row, std::uint64_t* col);

// sums[s - first] += sum of stream s over the block's positions that are set in `positions` (8 words), or over all (null).
// n_streams: of the layout.
void add_stream_sums(const SlicedBlock& block, std::uint32_t n_streams, std::uint32_t first, std::uint32_t stop,
                     const std::uint64_t* positions, std::uint64_t* sums);

}  // namespace quantem::detector_detail
