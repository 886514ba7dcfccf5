#pragma once
// What each frame holds, as maps over the scan: `products --stats`.

#include <optional>

#include "quantem/cli/product.h"
#include "quantem/core/job.h"
#include "quantem/resident/volume.h"

namespace quantem::cli {

constexpr const char* kFrameMaps[] = {"frame_total",      "frame_max",     "frame_argmax_row",
                                      "frame_argmax_col", "frame_nonzero", "frame_saturated"};

// Adds kFrameMaps to the collection, exact integers; returns what a report says of all frames: totals (min, max, mean), all-zero
// and missing frames. Errors: those of frame_statistics.
Result<Json> add_frame_maps(const Volume& volume, const std::optional<PixelStep>& step, const Job& job,
                            Collection& collection);

}  // namespace quantem::cli
