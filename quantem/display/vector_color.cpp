#include "quantem/display/vector_color.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "quantem/display/check.h"
#include "quantem/display/colormap.h"

namespace quantem {
namespace {

Result<Done> check_field(const Grid<float>& row, const Grid<float>& col) {
  QUANTEM_TRY(check_grid(row, "vector_color row component"));
  QUANTEM_TRY(check_grid(col, "vector_color col component"));
  if (row.extent == col.extent) return Done{};
  return Error{Code::invalid_argument, "vector_color: the row component is " + to_string(row.extent) +
                                           ", the col component " + to_string(col.extent)};
}

Result<const ColorTable*> cyclic_table(std::string_view name) {
  if (is_cyclic_colormap(name)) return colormap(name);
  return Error{Code::invalid_argument, "vector_color: colormap '" + std::string(name) +
                                           "' does not close; use hsv, twilight or twilight_shifted"};
}

Color vector_pixel(const ColorTable& table, double row, double col, double t) {
  const double turns = std::atan2(-row, col) / (2 * std::numbers::pi);
  const auto hue = static_cast<std::size_t>(static_cast<int>(std::floor(256 * turns + 0.5)) & 255);
  const auto shade = [&](std::uint8_t byte) { return static_cast<std::uint8_t>(std::floor(byte * t + 0.5)); };
  return {shade(table[hue][0]), shade(table[hue][1]), shade(table[hue][2]), 255};
}

bool has_value(const Grid<float>& row, const Grid<float>& col, std::uint64_t i) {
  return row.is_valid(i) && col.is_valid(i) && std::isfinite(row.values[i]) && std::isfinite(col.values[i]);
}

double length_of(const Grid<float>& row, const Grid<float>& col, std::uint64_t i) {
  return std::hypot(static_cast<double>(row.values[i]), static_cast<double>(col.values[i]));
}

}  // namespace

Result<double> vector_full_scale(const Grid<float>& row, const Grid<float>& col, const VectorColorOptions& options) {
  QUANTEM_TRY(check_field(row, col));
  if (options.full) {
    if (*options.full > 0 && std::isfinite(*options.full)) return *options.full;
    return Error{Code::invalid_argument,
                 "vector_color: full must be positive and finite, found " + std::to_string(*options.full)};
  }
  Image<float> lengths;
  lengths.extent = row.extent;
  lengths.values.resize(row.values.size());
  for (std::uint64_t i = 0; i < row.values.size(); ++i)
    lengths.values[i] =
        has_value(row, col, i) ? static_cast<float>(length_of(row, col, i)) : std::numeric_limits<float>::quiet_NaN();
  QUANTEM_TRY_ASSIGN(limits, symmetric_window(lengths, options.percentile));
  return static_cast<double>(limits.hi);
}

Result<Rgba> vector_color(const Grid<float>& row, const Grid<float>& col, const VectorColorOptions& options) {
  QUANTEM_TRY_ASSIGN(table, cyclic_table(options.colormap));
  QUANTEM_TRY_ASSIGN(full, vector_full_scale(row, col, options));
  Rgba out(row.extent, options.bad);
  for (std::uint64_t i = 0; i < row.values.size(); ++i) {
    if (!has_value(row, col, i)) continue;
    // A field that is 0 everywhere has full = 0 and is black.
    const double t = full > 0 ? std::min(length_of(row, col, i) / full, 1.0) : 0.0;
    out.set(i, vector_pixel(*table, row.values[i], col.values[i], t));
  }
  return out;
}

Result<Rgba> color_wheel(std::uint32_t diameter, std::string_view name) {
  QUANTEM_TRY_ASSIGN(table, cyclic_table(name));
  if (diameter < 2 || diameter > 16384)
    return Error{Code::invalid_argument, "color_wheel: diameter must be 2 to 16384, found " + std::to_string(diameter)};
  Rgba out({diameter, diameter});
  // The rim pixels' centres are at full length; the edge of the disc is half a pixel further out.
  const double center = (diameter - 1) / 2.0, radius = center;
  for (std::uint32_t r = 0; r < diameter; ++r) {
    for (std::uint32_t c = 0; c < diameter; ++c) {
      const double row = r - center, col = c - center, distance = std::hypot(row, col);
      Color color = vector_pixel(*table, row, col, std::min(distance / radius, 1.0));
      color.a = static_cast<std::uint8_t>(std::floor(255 * std::clamp(radius + 1 - distance, 0.0, 1.0) + 0.5));
      out.set(r, c, color);
    }
  }
  return out;
}

}  // namespace quantem
