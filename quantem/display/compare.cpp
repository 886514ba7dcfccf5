#include "quantem/display/compare.h"

#include <cmath>

#include "quantem/display/check.h"

namespace quantem {
namespace {

constexpr std::uint32_t kImagePx = 400;  // seven of them fit a screen

Result<Done> check_panels(std::span<const ComparePanel> panels) {
  if (panels.empty()) return Error{Code::invalid_argument, "compare: there is no image to show"};
  for (std::uint64_t i = 0; i < panels.size(); ++i) {
    if (!panels[i].image) return Error{Code::invalid_argument, "compare: panel " + std::to_string(i) + " has no image"};
    QUANTEM_TRY(check_grid(*panels[i].image, "compare"));
  }
  return Done{};
}

}  // namespace

std::uint64_t n_compare_grids(std::uint64_t n_images) {
  return (n_images + kComparePanels - 1) / kComparePanels;
}

Result<Window> common_window(std::span<const ComparePanel> panels, const CompareOptions& options) {
  QUANTEM_TRY(check_panels(panels));
  Grid<float> all;
  for (const ComparePanel& panel : panels)
    for (std::uint64_t i = 0; i < panel.image->values.size(); ++i)
      if (panel.image->is_valid(i) && std::isfinite(panel.image->values[i]))
        all.values.push_back(panel.image->values[i]);
  if (all.values.empty()) return manual_window(0, 0, options.transform);
  if (all.values.size() > UINT32_MAX)
    return Error{Code::unsupported, "compare: more than 2^32 values; compare fewer images at once"};
  all.extent = {1, static_cast<std::uint32_t>(all.values.size())};
  return window(all, options.percentiles, options.transform);
}

Result<std::vector<Rgba>> compare_grids(std::span<const ComparePanel> panels, const Sheet& sheet,
                                        const CompareOptions& options) {
  QUANTEM_TRY_ASSIGN(common, common_window(panels, options));
  std::vector<Panel> drawn;
  for (const ComparePanel& p : panels) {
    Panel panel;
    panel.title = p.title, panel.subtitle = p.subtitle, panel.step = p.step, panel.image_px = kImagePx;
    Window range = common;
    if (!options.common_window) {
      QUANTEM_TRY_ASSIGN(own, window(*p.image, options.percentiles, options.transform));
      range = own;
    }
    QUANTEM_TRY_ASSIGN(shown, show_image(std::move(panel), *p.image, range, options.colormap));
    drawn.push_back(std::move(shown));
  }
  const std::uint64_t n_grids = n_compare_grids(drawn.size());
  std::vector<Rgba> grids;
  for (std::uint64_t g = 0, first = 0; g < n_grids; ++g) {
    const std::uint64_t n = (drawn.size() - first + n_grids - g - 1) / (n_grids - g);  // 9 on 2 grids: 5 and 4
    Sheet one = sheet;
    if (n_grids > 1) one.title += " (" + std::to_string(g + 1) + " of " + std::to_string(n_grids) + ")";
    QUANTEM_TRY_ASSIGN(grid, contact_sheet({drawn.data() + first, n}, one));
    grids.push_back(std::move(grid));
    first += n;
  }
  return grids;
}

}  // namespace quantem
