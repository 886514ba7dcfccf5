#pragma once
// What a load says about itself.

#include "quantem/io/load_run.h"

namespace quantem {

// `info` is complete but for its provenance; `valid` are the valid pixels of the crop.
Provenance load_provenance(const LoadPlan& plan, const SourceFacts& facts, const VolumeInfo& info, const BitMask& valid,
                           std::uint64_t n_flagged_in_all_frames, const std::vector<HotPixel>& hot,
                           const std::vector<BlockReport>& reports, bool fast);

}  // namespace quantem
