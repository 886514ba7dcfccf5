#pragma once
// Patterns over scan positions, per detector pixel p:
//   sum[p]  = sum of counts over valid positions                u64, exact (f64 for float sources: double in position order)
//   mean[p] = double(sum[p]) / double(n[p])                     f64; n[p] = positions where p has a value
//   max[p]  = largest count over valid positions                working dtype
// Bad pixels are 0 with `valid` cleared. Missing positions and flagged samples take part in nothing.

#include "quantem/core/array.h"
#include "quantem/core/job.h"
#include "quantem/detector/scan_set.h"
#include "quantem/resident/volume.h"

namespace quantem {

Result<Pattern<std::uint64_t>> sum_pattern(const Volume& volume,
                                           const Job& job = {});  // wrong_dtype for signed and float counts
Result<Pattern<double>> mean_pattern(const Volume& volume, const Job& job = {});
Result<HostArray> max_pattern(const Volume& volume, const Job& job = {});
// The same over a set of scan positions. Missing members are skipped and counted; none valid is invalid_argument.
Result<Pattern<std::uint64_t>> region_sum(const Volume& volume, const ScanSet& positions, const Job& job = {});
Result<Pattern<double>> region_mean(const Volume& volume, const ScanSet& positions, const Job& job = {});
Result<HostArray> region_max(const Volume& volume, const ScanSet& positions, const Job& job = {});

// The stored counts of one position, (det_rows, det_cols), working dtype, exact. missing_data where there is no frame.
Result<HostArray> frame(const Volume& volume, Position position);

// Per position: total (u64), largest count and where (first in flat order), non-zero and saturated pixels.
struct FrameStatistics {
  Extent scan;
  std::vector<std::uint64_t> total;  // unsigned counts
  std::vector<double> max;
  std::vector<std::uint32_t> argmax;  // flat pixel
  std::vector<std::uint32_t> n_nonzero, n_saturated;
  BitMask valid;
  double total_min = 0, total_max = 0, total_mean = 0;
  std::uint64_t n_zero_frames = 0, n_missing = 0;
  std::string path;  // the code that ran
};
Result<FrameStatistics> frame_statistics(const Volume& volume, const Job& job = {});

}  // namespace quantem
