#pragma once
// Many images of one kind on one picture, under one window, so that brightness can be compared: the acquisitions of a tilt series, of a
// dose series. A grid holds up to seven panels; more images go onto further grids, filled evenly, in order, under the same window.
//
//   const std::vector<ComparePanel> panels = {{"scan_1", "tilt -10 deg", &first}, {"scan_2", "tilt 0 deg", &second}};
//   write_png("compare.png", compare_grids(panels, sheet)->front());

#include <span>
#include <string>
#include <vector>

#include "quantem/display/figure.h"

namespace quantem {

inline constexpr std::uint64_t kComparePanels = 7;
// 1 up to seven images, 2 up to fourteen, ...; 0 for none.
[[nodiscard]] std::uint64_t n_compare_grids(std::uint64_t n_images);

struct ComparePanel {
  std::string title, subtitle;
  const Grid<float>* image = nullptr;
  std::optional<PixelStep> step = {};  // of this image: panels may differ
};

struct CompareOptions {
  bool common_window = true;  // false: each panel its own, and brightness means nothing across panels
  Percentiles percentiles = {};
  Transform transform = Transform::linear;
  std::string colormap = "gray";
};

// The window of all images together: percentiles over every valid finite value of any of them, each counted once.
Result<Window> common_window(std::span<const ComparePanel> panels, const CompareOptions& options = {});

// The grids, in order. `sheet`: title and lines of each grid; with several, " (1 of 2)" follows the title.
// Errors: invalid_argument when there is no panel or a panel has no image, else as contact_sheet.
Result<std::vector<Rgba>> compare_grids(std::span<const ComparePanel> panels, const Sheet& sheet,
                                        const CompareOptions& options = {});

}  // namespace quantem
