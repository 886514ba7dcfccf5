#include "quantem/display/histogram.h"

#include <cmath>
#include <limits>
#include <string>

#include "quantem/display/check.h"

namespace quantem {

Result<Histogram> histogram(const Grid<float>& image, const Window& window) {
  QUANTEM_TRY(check_grid(image, "histogram"));
  if (image.extent.count() > std::numeric_limits<std::uint32_t>::max())
    return Error{Code::unsupported, "histogram: bins count to 4294967295, the image has " +
                                        std::to_string(image.extent.count()) + " pixels; crop or bin it first"};
  Histogram h;
  for (std::uint64_t i = 0; i < image.values.size(); ++i) {
    const float x = image.values[i];
    if (!image.is_valid(i) || std::isnan(x))
      ++h.invalid;
    else if (x < window.lo)
      ++h.below;
    else if (x > window.hi)
      ++h.above;
    else
      ++h.bins[static_cast<std::size_t>(window.level(x))];
  }
  return h;
}

}  // namespace quantem
