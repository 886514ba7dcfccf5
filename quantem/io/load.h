#pragma once
// Container -> Volume: order of work crop, decode, bad pixels, markers, audit, hot pixels, bin, store; no step sees a value that an
// earlier one excluded. Encoded volumes are built block by block in one pass: memory above the volume stays bounded.

#include <cstdint>
#include <optional>
#include <vector>

#include "quantem/core/job.h"
#include "quantem/io/container.h"
#include "quantem/resident/volume.h"

namespace quantem {

enum class HotPixels : std::uint8_t { none, median };

struct LoadOptions {
  std::optional<Region> scan_region, detector_region;
  Extent scan_bin{1, 1}, det_bin{1, 1};
  std::optional<Dtype> dtype;                    // named: accepted only when the audit proves that every value fits
  std::optional<Representation> representation;  // unset: encoded for u8 u16 u32, dense for the others
  bool apply_mask = true;
  std::vector<Position> bad_pixels;  // besides the source's own
  Flagged flagged = Flagged::zero;
  HotPixels hot_pixels = HotPixels::none;
  // Encoded volumes keep sums over 8x8 and 32x32 detector tiles. Also over 4x4 ones: about 12 % more memory, masked sums a third faster.
  // No result depends on it. invalid_argument where counts are kept dense.
  bool tiles_4 = false;
};

struct LoadEstimate {
  std::uint64_t resident_bytes, work_bytes, staging_bytes, usable_bytes;
  [[nodiscard]] bool fits() const { return resident_bytes + work_bytes <= usable_bytes; }
};
// What a load would take, before anything is allocated. Dense: exact; encoded: compressed file bytes * 1.1 (1.23 with
// tiles_4) + 5 bytes per stream.
Result<LoadEstimate> estimate(const Device& device, const Container& container, const LoadOptions& options = {});

// out_of_memory comes before allocation, with need, free and the ways out computed. A cancelled or failed load leaves nothing.
Result<Volume> load(const Device& device, const Container& container, const LoadOptions& options = {},
                    const Job& job = {});

}  // namespace quantem
