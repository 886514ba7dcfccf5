#pragma once
// What a load decided before it reads the first frame: regions, bins, dtypes, pixels to leave out, memory.

#include <cstdint>
#include <vector>

#include "quantem/io/load.h"
#include "quantem/resident/intake.h"

namespace quantem {

struct LoadPlan {
  LoadOptions options;
  Shape4 source;                   // the container's
  Region scan_region, det_region;  // in source coordinates
  Shape4 crop;                     // after the crop, before the bin
  Shape4 shape;                    // of the volume
  Dtype source_dtype = Dtype::u16, dtype = Dtype::u16;
  Representation representation = Representation::encoded;
  IntakeRules rules;  // of a cropped frame
  bool mask_applied = false, mask_kept = false;
  Missing missing = Missing::error;
  std::uint64_t n_blocks = 0;               // of 512 positions of the volume
  std::vector<std::uint32_t> bin_of_pixel;  // of each pixel of the crop; empty without a detector bin
  std::vector<std::uint32_t> valid_count;   // valid pixels of the crop in each bin; empty without any bin
  std::uint64_t samples_per_bin = 1;        // the most source samples that one stored sample sums
  LoadEstimate estimate{};
  std::uint64_t block_bytes = 0;  // scratch of one block in work
  int blocks_in_work = 1;

  [[nodiscard]] bool scan_binned() const { return options.scan_bin.count() > 1; }
  [[nodiscard]] bool binned() const { return scan_binned() || options.det_bin.count() > 1; }
  [[nodiscard]] bool cropped() const { return !(crop == source); }
  // Whether a block's frames are stored as they come: the condition of faster ways to fill it.
  [[nodiscard]] bool plain() const {
    return !binned() && dtype == source_dtype && options.hot_pixels == HotPixels::none && crop.det == source.det;
  }
  [[nodiscard]] SlicedLayout layout() const { return SlicedLayout(shape.det, options.tiles_4); }
  // Flat position of the source for a flat position of the crop.
  [[nodiscard]] std::uint64_t source_position(std::uint64_t crop_position) const {
    const std::uint64_t r = crop_position / crop.scan.cols + scan_region.row_start,
                        c = crop_position % crop.scan.cols + scan_region.col_start;
    return r * source.scan.cols + c;
  }
  [[nodiscard]] Position place(std::uint64_t crop_position) const {
    const std::uint64_t n = source_position(crop_position);
    return {static_cast<std::uint32_t>(n / source.scan.cols), static_cast<std::uint32_t>(n % source.scan.cols)};
  }
  [[nodiscard]] Position pixel_place(std::uint32_t crop_pixel) const {
    return {crop_pixel / crop.det.cols + det_region.row_start, crop_pixel % crop.det.cols + det_region.col_start};
  }
};

// Checks the options and computes everything above; touches no frame and allocates little.
Result<LoadPlan> plan_load(const Device& device, const Container& container, const LoadOptions& options);

// The refusal when plan.estimate does not fit: need, free and computed ways out. Nothing when it does.
Result<Done> check_memory(const Device& device, const Container& container, const LoadPlan& plan);

// Calibration of the source as that of the crop and bin: places move, lengths and samplings scale; origin derived.
Calibration transformed(const Calibration& source, const Region& det_region, Extent scan_bin, Extent det_bin);

}  // namespace quantem
