#pragma once
// Histogram of an image over the edges of its window (window.h), so that a bin and a colour are the same set of values.

#include <array>
#include <cstdint>

#include "quantem/core/array.h"
#include "quantem/core/result.h"
#include "quantem/display/window.h"

namespace quantem {

// bins[level] counts the values in [lo, hi]; below and above (-inf and +inf among them) lie outside; invalid are NaN or
// cleared in `valid`. bins + below + above + invalid = number of pixels. Exact. A flat window (hi = lo) puts x = lo
// into bin 128.
struct Histogram {
  std::array<std::uint32_t, 256> bins{};
  std::uint32_t below = 0, above = 0, invalid = 0;
};

// Errors: invalid_argument if values or valid disagree with the extent; unsupported for 2^32 pixels or more.
Result<Histogram> histogram(const Grid<float>& image, const Window& window);

}  // namespace quantem
