#pragma once
// The hot-pixel option of load: which pixels, and what replaces them.

#include "quantem/io/load_values.h"

namespace quantem {

// S = sum of a pixel's counts over all frames; n2 = the second largest S of its up to 8 valid neighbours (the largest when it has
// one). Hot: S > 10 * max(n2, 0) + 36, so lone and paired pixels far above everything around them. In each frame a hot pixel
// takes the lower median of its valid neighbours that are not hot themselves; one without such neighbours is left as it is and not
// listed. Reads the source once more.
Result<std::vector<HotPixel>> find_hot_pixels(const LoadPlan& plan, const BlockReader& reader, const Job& job);

}  // namespace quantem
