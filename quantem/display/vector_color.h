#pragma once
// A vector field in one picture: direction as hue, length as brightness.
//
//   angle = atan2(-row, col)             as seen on the screen, counter-clockwise from +col (right); rows grow down
//   hue row = floor(256 angle / (2 pi) + 1/2) mod 256 of a cyclic colour map; with hsv, right is red
//   t = clip(|V| / full, 0, 1);  byte = floor(table byte * t + 1/2)
// Contract's direction atan2(V_col, V_row) is angle + 90 degrees. In double on the host; alpha 255.

#include <optional>
#include <string_view>

#include "quantem/core/array.h"
#include "quantem/core/result.h"
#include "quantem/display/rgba.h"

namespace quantem {

struct VectorColorOptions {
  std::string_view colormap = "hsv";  // hsv, twilight or twilight_shifted
  std::optional<double> full;         // length shown at full brightness; empty: `percentile` of |V|
  double percentile = 99.5;
  Color bad{0, 0, 0, 0};  // where either component has no value
};

// The length that is shown at full brightness.
Result<double> vector_full_scale(const Grid<float>& row, const Grid<float>& col,
                                 const VectorColorOptions& options = {});

// Errors: invalid_argument for a colour map that is not cyclic, extents that differ, or a `full` that is not positive
// and finite.
Result<Rgba> vector_color(const Grid<float>& row, const Grid<float>& col, const VectorColorOptions& options = {});

// Its legend: a disc of `diameter` pixels, |V| from 0 at the centre to full at the rim, smooth edge, alpha 0 outside.
Result<Rgba> color_wheel(std::uint32_t diameter, std::string_view colormap = "hsv");

}  // namespace quantem
