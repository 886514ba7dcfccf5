#pragma once
// image[sr, sc] = sum over (dr, dc) of mask[dr, dc] * counts[sr, sc, dr, dc], over valid pixels
//   counts  u8 u16 u32 i16 i32 f32  (scan_rows, scan_cols, det_rows, det_cols)  detector counts
//   mask    1 bit                   (det_rows, det_cols)
//   image   u64 / i64 (exact forms) or f32 = one rounding of the exact sum; (scan_rows, scan_cols); counts
// Exact: every backend and representation returns the same integers. Float sources sum in double in pixel order and round once.
// Missing positions: NaN in f32 images, the dtype's maximum in integer images, both with `valid` cleared.
// An empty mask is legal: the sums are 0 and provenance warns `empty_mask`.
// Errors: invalid_argument when the mask's shape is not the detector's; wrong_dtype for the exact form of float counts.
// Source: Ophus, Microsc. Microanal. 25, 563 (2019).

#include <span>
#include <vector>

#include "quantem/core/array.h"
#include "quantem/core/job.h"
#include "quantem/detector/geometry.h"
#include "quantem/resident/volume.h"

namespace quantem {

Result<Image<float>> masked_sum(const Volume& volume, const Mask& mask, const Job& job = {});
Result<Image<std::uint64_t>> masked_sum_exact(const Volume& volume, const Mask& mask, const Job& job = {});
Result<Image<std::int64_t>> masked_sum_signed(const Volume& volume, const Mask& mask, const Job& job = {});  // i16, i32
// n masks in one pass over the counts; equal to n calls, bit for bit.
Result<std::vector<Image<float>>> masked_sums(const Volume& volume, std::span<const Mask> masks, const Job& job = {});
// f32(step * double(sum of q * I)); see Weights. invalid_argument when 2^15 * count_max * n_pixels reaches 2^63.
Result<Image<float>> weighted_sum(const Volume& volume, const Weights& weights, const Job& job = {});

// The exact integers of a centre of mass: total = sum of M*I, row = sum of dr*M*I, col = sum of dc*M*I, at each scan position,
// dr and dc absolute detector pixels. Unsigned counts only. mask null: all valid pixels, equal to an all-true mask.
// invalid_argument where a moment could pass 2^64 (from count_max and the selected pixels).
struct MomentSums {
  Extent scan;
  std::vector<std::uint64_t> total, row, col;  // 0 at missing positions
  std::string path;
};
Result<MomentSums> moment_sums(const Volume& volume, const Mask* mask = nullptr, const Job& job = {});
// The same for i16 and i32 counts, and for weights in units of Weights::step (which cancels in row / total), in 64 bits signed.
struct SignedMomentSums {
  Extent scan;
  std::vector<std::int64_t> total, row, col;  // 0 at missing positions
  std::string path;
};
Result<SignedMomentSums> moment_sums_signed(const Volume& volume, const Mask* mask = nullptr, const Job& job = {});
Result<SignedMomentSums> moment_sums_weighted(const Volume& volume, const Weights& weights, const Job& job = {});
// The same for f32 counts: in double in pixel order; NaN in all three where a selected sample is not finite.
struct RealMomentSums {
  Extent scan;
  std::vector<double> total, row, col;  // 0 at missing positions
  std::string path;
};
Result<RealMomentSums> moment_sums_real(const Volume& volume, const Mask* mask = nullptr, const Job& job = {});

}  // namespace quantem
