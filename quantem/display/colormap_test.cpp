// C66: colours equal the tables byte for byte. C67: the FFT magnitude against the sum that defines it. Directions as
// hue.

#include "quantem/display/colormap.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <numbers>
#include <random>

#include "quantem/core/fft.h"
#include "quantem/core/sha256.h"
#include "quantem/display/fft_magnitude.h"
#include "quantem/display/vector_color.h"

namespace quantem {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

Image<float> image_of(Extent extent, std::vector<float> values) {
  Image<float> image;
  image.extent = extent, image.values = std::move(values);
  return image;
}

Color row_of(std::string_view name, std::size_t i) {
  const auto& row = (**colormap(name))[i];
  return {row[0], row[1], row[2], 255};
}

TEST(Colormap, C66_TablesAreTheKnownOnes) {
  EXPECT_EQ(colormap_names().size(), 15u);
  // Ends and middle as published; every table has 256 rows by type.
  EXPECT_EQ(row_of("gray", 77), (Color{77, 77, 77}));
  EXPECT_EQ(row_of("viridis", 0), (Color{68, 1, 84}));
  EXPECT_EQ(row_of("viridis", 255), (Color{253, 231, 36}));
  EXPECT_EQ(row_of("inferno", 128), (Color{187, 55, 84}));
  EXPECT_EQ(row_of("RdBu", 0), (Color{103, 0, 31}));
  EXPECT_EQ(row_of("RdBu_r", 255), (Color{103, 0, 31}));
  EXPECT_EQ(row_of("hot", 255), (Color{255, 255, 255}));
  EXPECT_EQ(row_of("magenta", 200), (Color{200, 0, 200}));
  EXPECT_EQ(row_of("turbo", 255), (Color{122, 4, 2}));
  EXPECT_EQ(row_of("twilight", 128), (Color{47, 19, 54}));
  EXPECT_TRUE(is_cyclic_colormap("twilight_shifted"));
  EXPECT_FALSE(is_cyclic_colormap("viridis"));
}

TEST(Colormap, C66_AnUnknownNameListsAll) {
  const auto refused = colormap("jet");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::invalid_argument);
  for (const std::string_view name : colormap_names())
    EXPECT_NE(refused.error().message.find(name), std::string::npos) << name;
  EXPECT_FALSE(colorize(image_of({1, 1}, {0}), *manual_window(0, 1), "jet"));
}

TEST(Colormap, C66_EveryPixelIsItsRowOfTheTable) {
  std::mt19937 random(4);
  std::exponential_distribution<float> counts(0.01f);
  Image<float> image = image_of({29, 31}, std::vector<float>(899));
  for (float& x : image.values) x = counts(random);
  for (const std::string_view name : colormap_names())
    for (const Transform t : {Transform::linear, Transform::log, Transform::power}) {
      const Window w = *window(image, {}, t);
      const auto out = colorize(image, w, name);
      ASSERT_TRUE(out);
      for (std::uint32_t r = 0; r < 29; ++r)
        for (std::uint32_t c = 0; c < 31; ++c) {
          std::size_t level = 0;
          for (const float e : w.edges) level += e <= image.at(r, c);
          ASSERT_EQ(out->at(r, c), row_of(name, level)) << name;
        }
    }
}

TEST(Colormap, C62_WhatHasNoValueIsTheBadColour) {
  Image<float> image = image_of({1, 5}, {kNaN, kInf, -kInf, 0.5f, 0.5f});
  image.valid = BitMask(5, true);
  image.valid.set(4, false);
  const Window w = *manual_window(0, 1);
  const Rgba usual = *colorize(image, w, "gray"), chosen = *colorize(image, w, "gray", {1, 2, 3, 4});
  EXPECT_EQ(usual.at(0, 0), (Color{0, 0, 0, 0}));
  EXPECT_EQ(usual.at(0, 1), (Color{255, 255, 255, 255}));
  EXPECT_EQ(usual.at(0, 2), (Color{0, 0, 0, 255}));
  EXPECT_EQ(usual.at(0, 3), (Color{128, 128, 128, 255}));
  EXPECT_EQ(usual.at(0, 4), (Color{0, 0, 0, 0}));
  EXPECT_EQ(chosen.at(0, 0), (Color{1, 2, 3, 4}));
  EXPECT_EQ(chosen.at(0, 4), (Color{1, 2, 3, 4}));
  EXPECT_EQ(colorize(image, *manual_window(3, 3), "gray")->at(0, 3), (Color{128, 128, 128, 255}));
}

TEST(VectorColor, DirectionIsHueCounterClockwiseFromRight) {
  // right, up (row decreases), left, down; then half as long to the right, zero, NaN.
  const Image<float> row = image_of({1, 7}, {0, -2, 0, 2, 0, 0, kNaN}), col = image_of({1, 7}, {2, 0, -2, 0, 1, 0, 1});
  VectorColorOptions options;
  options.full = 2;
  const Rgba out = *vector_color(row, col, options);
  EXPECT_EQ(out.at(0, 0), row_of("hsv", 0));
  EXPECT_EQ(out.at(0, 1), row_of("hsv", 64));
  EXPECT_EQ(out.at(0, 2), row_of("hsv", 128));
  EXPECT_EQ(out.at(0, 3), row_of("hsv", 192));
  EXPECT_EQ(out.at(0, 4), (Color{128, 0, 0, 255}));
  EXPECT_EQ(out.at(0, 5), (Color{0, 0, 0, 255}));
  EXPECT_EQ(out.at(0, 6), (Color{0, 0, 0, 0}));
  options.full.reset(), options.percentile = 100;
  EXPECT_EQ(*vector_full_scale(row, col, options), 2.0);
  EXPECT_EQ(vector_color(row, col, options)->bytes, out.bytes);
  options.colormap = "viridis";
  EXPECT_FALSE(vector_color(row, col, options));
  EXPECT_FALSE(vector_color(row, image_of({7, 1}, col.values)));
  EXPECT_FALSE(vector_color(row, col, {.full = 0.0}));
}

TEST(VectorColor, WheelHasTheColoursOfTheField) {
  const Rgba wheel = *color_wheel(101);
  EXPECT_EQ(wheel.at(50, 100).a, 255);
  EXPECT_EQ(wheel.at(0, 0).a, 0);
  EXPECT_EQ(wheel.at(50, 100), row_of("hsv", 0));    // right
  EXPECT_EQ(wheel.at(0, 50), row_of("hsv", 64));     // up
  EXPECT_EQ(wheel.at(50, 0), row_of("hsv", 128));    // left
  EXPECT_EQ(wheel.at(100, 50), row_of("hsv", 192));  // down
  EXPECT_EQ(wheel.at(50, 50), (Color{0, 0, 0, 255}));
}

// |F| by the sum that defines it, zero frequency in place.
std::vector<double> magnitude_by_sums(const Image<float>& image, double mean, bool hann) {
  const std::uint32_t rows = image.extent.rows, cols = image.extent.cols;
  const auto weight = [&](std::uint32_t i, std::uint32_t n) {
    return hann && n > 1 ? std::pow(std::sin(std::numbers::pi * i / (n - 1.0)), 2) : 1.0;
  };
  std::vector<double> out(image.extent.count());
  for (std::uint32_t p = 0; p < rows; ++p)
    for (std::uint32_t q = 0; q < cols; ++q) {
      std::complex<double> sum = 0;
      for (std::uint32_t r = 0; r < rows; ++r)
        for (std::uint32_t c = 0; c < cols; ++c) {
          const double x =
              std::isfinite(image.at(r, c)) && image.is_valid(std::uint64_t{r} * cols + c) ? image.at(r, c) : mean;
          const double turns = double{1} * p * r / rows + double{1} * q * c / cols;
          sum += weight(r, rows) * weight(c, cols) * (x - mean) * std::polar(1.0, -2 * std::numbers::pi * turns);
        }
      out[std::uint64_t{(p + rows / 2) % rows} * cols + (q + cols / 2) % cols] =
          p == 0 && q == 0 ? static_cast<double>(image.extent.count()) * std::fabs(mean) : std::abs(sum);
    }
  return out;
}

TEST(FftMagnitude, C67_EqualsItsDefinitionAtAnySize) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(-20, 5);
  for (const Extent extent :
       {Extent{1, 1}, Extent{1, 7}, Extent{11, 1}, Extent{8, 8}, Extent{7, 13}, Extent{12, 9}, Extent{17, 16}})
    for (const Taper taper : {Taper::none, Taper::hann}) {
      Image<float> image = image_of(extent, std::vector<float>(extent.count()));
      for (float& x : image.values) x = normal(random);
      if (extent.count() > 20) {
        image.values[3] = kNaN, image.values[5] = kInf;
        image.valid = BitMask(extent.count(), true);
        image.valid.set(9, false);
      }
      double sum = 0, n = 0;
      for (std::uint64_t i = 0; i < image.values.size(); ++i)
        if (image.is_valid(i) && std::isfinite(image.values[i])) sum += image.values[i], ++n;
      const std::vector<double> expected = magnitude_by_sums(image, sum / n, taper == Taper::hann);
      const auto plain = fft_magnitude(image, {.log = false, .taper = taper}),
                 logged = fft_magnitude(image, {.log = true, .taper = taper});
      ASSERT_TRUE(plain);
      ASSERT_TRUE(logged);
      double scale = 0;
      for (const double e : expected) scale = std::max(scale, e);
      for (std::uint64_t i = 0; i < expected.size(); ++i) {
        ASSERT_NEAR(plain->values[i], expected[i], 1e-6 * scale) << to_string(extent) << " " << i;
        ASSERT_NEAR(logged->values[i], std::log1p(expected[i]), 1e-6 * std::log1p(scale));
      }
      EXPECT_FLOAT_EQ(plain->at(extent.rows / 2, extent.cols / 2),
                      static_cast<float>(double(extent.count()) * -sum / n));
    }
}

// Lines are transformed side by side, 32 at a time: the bits are those of the transform as a whole.
TEST(FftMagnitude, HasTheBitsOfTheWholeTransform) {
  std::mt19937 random(11);
  std::normal_distribution<float> normal(3, 5);
  for (const Extent extent : {Extent{33, 70}, Extent{97, 31}, Extent{64, 128}, Extent{2, 101}}) {
    Image<float> image = image_of(extent, std::vector<float>(extent.count()));
    double sum = 0;
    for (float& x : image.values) x = normal(random), sum += x;
    const double mean = sum / static_cast<double>(extent.count());
    std::vector<std::complex<double>> field;
    for (const float x : image.values) field.emplace_back(x - mean);
    Fft2(extent).forward(field);
    const auto out = fft_magnitude(image, {.log = false});
    ASSERT_TRUE(out);
    for (std::uint32_t p = 0; p < extent.rows; ++p)
      for (std::uint32_t q = p == 0 ? 1 : 0; q < extent.cols; ++q)
        ASSERT_EQ(out->at((p + extent.rows / 2) % extent.rows, (q + extent.cols / 2) % extent.cols),
                  static_cast<float>(std::abs(field[std::uint64_t{p} * extent.cols + q])));
  }
}

TEST(FftMagnitude, C67_AWaveIsTwoSpots) {
  Image<float> image = image_of({15, 20}, std::vector<float>(300));
  for (std::uint32_t r = 0; r < 15; ++r)
    for (std::uint32_t c = 0; c < 20; ++c)
      image.at(r, c) = static_cast<float>(2 + std::cos(2 * std::numbers::pi * (3.0 * r / 15 + 4.0 * c / 20)));
  const Image<float> out = *fft_magnitude(image, {.log = false});
  EXPECT_NEAR(out.at(7, 10), 600, 1e-3);
  EXPECT_NEAR(out.at(7 + 3, 10 + 4), 150, 1e-3);
  EXPECT_NEAR(out.at(7 - 3, 10 - 4), 150, 1e-3);
  EXPECT_NEAR(out.at(0, 0), 0, 1e-3);
  const auto none = fft_magnitude(image_of({2, 2}, {kNaN, kNaN, kNaN, kInf}));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::missing_data);
}

}  // namespace
}  // namespace quantem
