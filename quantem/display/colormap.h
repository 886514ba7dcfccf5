#pragma once
// Colour maps: 256 rows of three bytes, kept as data (data/*.csv). A colour is the row of the value's level (window.h),
// alpha 255, byte for byte.

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "quantem/core/array.h"
#include "quantem/core/result.h"
#include "quantem/display/rgba.h"
#include "quantem/display/window.h"

namespace quantem {

using ColorTable = std::array<std::array<std::uint8_t, 3>, 256>;

// gray viridis plasma inferno magma magenta hot hsv turbo cividis RdBu RdBu_r seismic twilight twilight_shifted
std::span<const std::string_view> colormap_names();
// The table, which lives as long as the program. An unknown name is invalid_argument and lists the names.
Result<const ColorTable*> colormap(std::string_view name);
// hsv, twilight and twilight_shifted end where they begin.
bool is_cyclic_colormap(std::string_view name);

// uint8 (rows, cols, 4). `bad` where there is no value (NaN, or cleared in `valid`). Exact.
// Errors: as colormap(); invalid_argument if values or valid disagree with the extent.
Result<Rgba> colorize(const Grid<float>& image, const Window& window, std::string_view colormap = "gray",
                      Color bad = {0, 0, 0, 0});

}  // namespace quantem
