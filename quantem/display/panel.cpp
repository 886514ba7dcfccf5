// Filling a panel: reducing big images, colouring, counting what has no value.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "quantem/display/check.h"
#include "quantem/display/figure.h"
#include "quantem/display/panel_scale.h"

namespace quantem {
namespace {

bool has_value(const Grid<float>& image, std::uint64_t i) {
  return image.is_valid(i) && !std::isnan(image.values[i]);
}

// The mean of the finite values of a block; NaN when fewer than half of its pixels have one.
float block_mean(const Grid<float>& image, std::uint64_t row, std::uint64_t col, std::uint64_t factor) {
  const std::uint64_t row_stop = std::min<std::uint64_t>(row + factor, image.extent.rows);
  const std::uint64_t col_stop = std::min<std::uint64_t>(col + factor, image.extent.cols);
  double sum = 0;
  std::uint64_t n = 0;
  for (std::uint64_t r = row; r < row_stop; ++r)
    for (std::uint64_t c = col; c < col_stop; ++c) {
      const std::uint64_t i = r * image.extent.cols + c;
      if (has_value(image, i) && std::isfinite(image.values[i])) sum += image.values[i], ++n;
    }
  const bool enough = 2 * n >= (row_stop - row) * (col_stop - col);
  return enough ? static_cast<float>(sum / static_cast<double>(n)) : std::numeric_limits<float>::quiet_NaN();
}

// The mean direction of a block, where one turn is from lo to hi: 179 and -179 degrees lie beside each other, around 180.
// NaN as above, and where the directions cancel.
float block_direction(const Grid<float>& image, std::uint64_t row, std::uint64_t col, std::uint64_t factor,
                      const Window& turn) {
  const double low = turn.lo, per_unit = 2 * std::numbers::pi / (static_cast<double>(turn.hi) - low);
  double along = 0, across = 0;
  std::uint64_t n = 0, n_pixels = 0;
  for (std::uint64_t r = row; r < std::min<std::uint64_t>(row + factor, image.extent.rows); ++r)
    for (std::uint64_t c = col; c < std::min<std::uint64_t>(col + factor, image.extent.cols); ++c, ++n_pixels) {
      const std::uint64_t i = r * image.extent.cols + c;
      if (!has_value(image, i) || !std::isfinite(image.values[i])) continue;
      const double angle = (static_cast<double>(image.values[i]) - low) * per_unit;
      along += std::cos(angle), across += std::sin(angle), ++n;
    }
  if (2 * n < n_pixels || std::hypot(along, across) < 1e-9 * static_cast<double>(n_pixels))
    return std::numeric_limits<float>::quiet_NaN();
  const double angle = std::atan2(across, along);
  return static_cast<float>(low + (angle < 0 ? angle + 2 * std::numbers::pi : angle) / per_unit);
}

Image<float> reduced(const Grid<float>& image, std::uint32_t factor, const Window* turn = nullptr) {
  Image<float> out;
  out.extent = {(image.extent.rows + factor - 1) / factor, (image.extent.cols + factor - 1) / factor};
  out.values.resize(out.extent.count());
  for (std::uint32_t r = 0; r < out.extent.rows; ++r)
    for (std::uint32_t c = 0; c < out.extent.cols; ++c)
      out.at(r, c) = turn ? block_direction(image, std::uint64_t{r} * factor, std::uint64_t{c} * factor, factor, *turn)
                          : block_mean(image, std::uint64_t{r} * factor, std::uint64_t{c} * factor, factor);
  return out;
}

std::uint32_t reduction(const Panel& panel, Extent extent) {
  const Pair stretch = pixel_stretch(panel);
  const double longest = std::max(extent.rows * stretch.row, extent.cols * stretch.col);
  return static_cast<std::uint32_t>(std::max(1.0, std::ceil(longest / (1.25 * std::max(panel.image_px, 1u)))));
}

}  // namespace

Pair pixel_stretch(const Panel& panel) {
  if (!panel.step) return {1, 1};
  const Pair size = panel.step->size;
  const double ratio = size.row / size.col;
  if (!(ratio >= 1.0 / 16 && ratio <= 16)) return {1, 1};
  return ratio >= 1 ? Pair{ratio, 1} : Pair{1, 1 / ratio};
}

Pair drawn_scale(const Panel& panel) {
  const Pair stretch = pixel_stretch(panel);
  const Extent e = panel.picture.extent;
  const double longest = std::max(e.rows * stretch.row, e.cols * stretch.col);
  const double enlarged = std::max(1.0, std::floor(1.05 * panel.image_px / longest));
  return {stretch.row * enlarged, stretch.col * enlarged};
}

Result<Panel> show_image(Panel panel, const Grid<float>& image, const Window& window, std::string_view name) {
  QUANTEM_TRY(check_grid(image, "show_image"));
  panel.source = image.extent;
  panel.reduced_by = reduction(panel, image.extent);
  panel.n_without_value = 0;
  for (std::uint64_t i = 0; i < image.values.size(); ++i) panel.n_without_value += !has_value(image, i);
  const Window* turn = is_cyclic_colormap(name) && !window.flat() ? &window : nullptr;
  auto picture = panel.reduced_by > 1 ? colorize(reduced(image, panel.reduced_by, turn), window, name)
                                      : colorize(image, window, name);
  if (!picture) return picture.take_error();
  panel.picture = *std::move(picture);
  panel.window = window, panel.colormap = name, panel.full_scale.reset();
  if (panel.value_unit.empty()) panel.value_unit = image.unit;
  return panel;
}

Result<Panel> show_vectors(Panel panel, const Grid<float>& row, const Grid<float>& col,
                           const VectorColorOptions& options) {
  VectorColorOptions fixed = options;
  QUANTEM_TRY_ASSIGN(full, vector_full_scale(row, col, options));
  if (full > 0) fixed.full = full;
  fixed.bad = {0, 0, 0, 0};
  panel.source = row.extent;
  panel.reduced_by = reduction(panel, row.extent);
  panel.n_without_value = 0;
  for (std::uint64_t i = 0; i < row.values.size(); ++i)
    panel.n_without_value += !(has_value(row, i) && has_value(col, i));
  auto picture = panel.reduced_by > 1
                     ? vector_color(reduced(row, panel.reduced_by), reduced(col, panel.reduced_by), fixed)
                     : vector_color(row, col, fixed);
  if (!picture) return picture.take_error();
  panel.picture = *std::move(picture);
  panel.window.reset(), panel.colormap = options.colormap, panel.full_scale = full;
  if (panel.value_unit.empty()) panel.value_unit = row.unit;
  return panel;
}

}  // namespace quantem
