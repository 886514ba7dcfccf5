#pragma once
// Half-open rectangles: 0 <= start < stop <= n on both axes. No negative indices, no steps, no clamping.

#include <cstdint>
#include <string>
#include <string_view>

#include "quantem/core/result.h"
#include "quantem/core/shape.h"

namespace quantem {

struct Region {
  std::uint32_t row_start = 0, row_stop = 0, col_start = 0, col_stop = 0;
  [[nodiscard]] constexpr Extent extent() const { return {row_stop - row_start, col_stop - col_start}; }
  constexpr bool operator==(const Region&) const = default;
};

constexpr Region whole(Extent e) {
  return {0, e.rows, 0, e.cols};
}

// invalid_argument naming the bound, its value and n, with `what` in front ("scan_region").
Result<Done> check_region(const Region& region, Extent extent, std::string_view what);

std::string to_string(const Region& r);  // "(0, 4, 0, 5)"

}  // namespace quantem
