// The compare grid: one window for all, up to seven panels, nothing left out.

#include "quantem/display/compare.h"

#include <gtest/gtest.h>

#include <cmath>

namespace quantem {
namespace {

Image<float> ramp(float from, float step, Extent extent = {40, 50}) {
  Image<float> image;
  image.extent = extent;
  image.unit = "counts";
  for (std::uint64_t i = 0; i < extent.count(); ++i) image.values.push_back(from + step * static_cast<float>(i));
  return image;
}

TEST(Compare, TheWindowIsThatOfAllValuesTogether) {
  Image<float> dim = ramp(0, 1), bright = ramp(5000, 1), holes = ramp(0, 0);
  holes.valid = BitMask(holes.values.size(), false);  // nothing of it counts
  bright.values[7] = INFINITY;
  const std::vector<ComparePanel> panels = {{"dim", "", &dim}, {"bright", "", &bright}, {"holes", "", &holes}};
  CompareOptions options;
  options.percentiles = kMinMax;
  const auto common = common_window(panels, options);
  ASSERT_TRUE(common);
  EXPECT_EQ(common->lo, 0.0f);
  EXPECT_EQ(common->hi, 6999.0f);
  // Half of all values lie below 2000, half above 5000.
  options.percentiles = {25, 75};
  EXPECT_NEAR(common_window(panels, options)->lo, 1000, 1);
  EXPECT_NEAR(common_window(panels, options)->hi, 6000, 1);
  EXPECT_TRUE(common_window(std::vector<ComparePanel>{{"holes", "", &holes}})->flat());
}

TEST(Compare, BrightnessIsComparableUnlessEachHasItsOwnWindow) {
  const Image<float> dim = ramp(1, 0.001f), bright = ramp(100, 0.001f);
  const std::vector<ComparePanel> panels = {{"dim", "", &dim}, {"bright", "", &bright}};
  const auto mean_gray = [](const Rgba& grid,
                            bool left) {  // of the half of the grid with that panel, background excluded
    double sum = 0, n = 0;
    for (std::uint32_t r = 0; r < grid.extent.rows; ++r)
      for (std::uint32_t c = left ? 0 : grid.extent.cols / 2; c < (left ? grid.extent.cols / 2 : grid.extent.cols);
           ++c) {
        const std::uint8_t* p = grid.bytes.data() + 4 * (std::uint64_t{r} * grid.extent.cols + c);
        sum += p[0], ++n;
      }
    return sum / n;
  };
  Sheet sheet;
  sheet.columns = 2;
  const auto common = compare_grids(panels, sheet);
  CompareOptions own;
  own.common_window = false;
  const auto each = compare_grids(panels, sheet, own);
  ASSERT_TRUE(common && each);
  ASSERT_EQ(common->size(), 1u);
  EXPECT_GT(mean_gray((*common)[0], false) - mean_gray((*common)[0], true), 60);
  EXPECT_LT(std::abs(mean_gray((*each)[0], false) - mean_gray((*each)[0], true)), 15);
}

TEST(Compare, MoreThanSevenGoOntoFurtherGrids) {
  const Image<float> image = ramp(0, 1, {8, 8});
  Sheet sheet;
  sheet.title = "BF";
  EXPECT_EQ(n_compare_grids(0), 0u);
  for (const auto& [n, n_grids] : {std::pair{1u, 1u}, {7u, 1u}, {8u, 2u}, {14u, 2u}, {15u, 3u}}) {
    const std::vector<ComparePanel> panels(n, {"a", "b", &image});
    EXPECT_EQ(n_compare_grids(n), n_grids);
    const auto grids = compare_grids(panels, sheet);
    ASSERT_TRUE(grids) << grids.error().message;
    EXPECT_EQ(grids->size(), n_grids);
  }
  EXPECT_FALSE(compare_grids({}, sheet));
  EXPECT_FALSE(compare_grids(std::vector<ComparePanel>(2), sheet));
}

}  // namespace
}  // namespace quantem
