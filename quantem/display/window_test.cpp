// C62-C65: edges, levels, transforms, percentiles, histograms, against loops that follow the contract word for word.

#include "quantem/display/window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "quantem/display/histogram.h"

namespace quantem {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

Image<float> image_of(Extent extent, std::vector<float> values) {
  Image<float> image;
  image.extent = extent, image.values = std::move(values);
  return image;
}

Image<float> random_image(Extent extent, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(3, 40);
  Image<float> image = image_of(extent, std::vector<float>(extent.count()));
  for (float& x : image.values) x = normal(random);
  return image;
}

double T(Transform t, double gamma, double x) {
  const double sign = x < 0 ? -1 : 1;
  if (t == Transform::log) return sign * std::log1p(std::fabs(x));
  if (t == Transform::power) return sign * std::pow(std::fabs(x), gamma);
  return x;
}
double T_inverse(Transform t, double gamma, double y) {
  const double sign = y < 0 ? -1 : 1;
  if (t == Transform::log) return sign * std::expm1(std::fabs(y));
  if (t == Transform::power) return sign * std::pow(std::fabs(y), 1 / gamma);
  return y;
}
int level_by_counting(float x, float lo, float hi, Transform t, double gamma) {
  int n = 0;
  for (int k = 1; k <= 255; ++k) {
    const double low = T(t, gamma, lo), high = T(t, gamma, hi);
    n += static_cast<float>(T_inverse(t, gamma, low + k / 256.0 * (high - low))) <= x;
  }
  return n;
}

struct Setting {
  Transform transform;
  double gamma, lo, hi;
};
const std::vector<Setting> kSettings = {{Transform::linear, 0.5, 0, 255},       {Transform::linear, 0.5, -7.25, 1e-3},
                                        {Transform::log, 0.5, 0, 1208081},      {Transform::log, 0.5, -120, 80},
                                        {Transform::power, 0.5, 0, 1000},       {Transform::power, 4, -3, 2},
                                        {Transform::power, 0.01, 1e-6, 3.3e38}, {Transform::linear, 1, -3e38, 3e38}};

TEST(Window, C62_LevelIsTheNumberOfEdgesNotAboveTheValue) {
  for (const Setting& s : kSettings) {
    const auto w = manual_window(s.lo, s.hi, s.transform, s.gamma);
    ASSERT_TRUE(w);
    std::vector<float> probes = {-0.0f, 0.0f, w->lo, w->hi, std::numeric_limits<float>::denorm_min()};
    for (const float e : w->edges) {
      probes.push_back(e);
      probes.push_back(std::nextafterf(e, -kInf));
      probes.push_back(std::nextafterf(e, kInf));
    }
    for (const float x : probes) {
      if (!std::isfinite(x)) continue;
      ASSERT_EQ(w->level(x), level_by_counting(x, w->lo, w->hi, s.transform, s.gamma))
          << x << " in " << s.lo << " " << s.hi;
    }
  }
}

TEST(Window, C62_LinearEdgesOf0To256AreTheIntegers) {
  const Window w = *manual_window(0, 256);
  for (int k = 1; k < 256; ++k) {
    EXPECT_EQ(w.edges[static_cast<std::size_t>(k - 1)], static_cast<float>(k));
    EXPECT_EQ(w.level(static_cast<float>(k)), k);
    EXPECT_EQ(w.level(std::nextafterf(static_cast<float>(k), 0)), k - 1);
  }
  EXPECT_EQ(w.level(256), 255);
  EXPECT_EQ(w.level(1e30f), 255);
  EXPECT_EQ(w.level(-1e30f), 0);
}

TEST(Window, C62_InfinityNaNAndFlatWindows) {
  const Window w = *manual_window(-1, 1), equal = *manual_window(5, 5), reversed = *manual_window(2, 1);
  EXPECT_EQ(w.level(kInf), 255);
  EXPECT_EQ(w.level(-kInf), 0);
  EXPECT_EQ(w.level(kNaN), 256);
  for (const Window& flat : {equal, reversed})
    for (const float x : {-100.0f, 5.0f, 1.5f, 100.0f}) EXPECT_EQ(flat.level(x), 128);
  EXPECT_EQ(equal.level(kNaN), 256);
  EXPECT_EQ(equal.level(kInf), 255);
  EXPECT_FALSE(manual_window(0, kInf));
  EXPECT_FALSE(manual_window(kNaN, 1));
  EXPECT_FALSE(manual_window(0, 1e39));
}

TEST(Window, C63_NormalizeWithinTwoInTenMillion) {
  const Image<float> image = random_image({37, 41}, 1);
  for (const Setting& s : kSettings) {
    const Window w = *manual_window(s.lo, s.hi, s.transform, s.gamma);
    const auto out = normalize(image, w);
    ASSERT_TRUE(out);
    for (std::uint64_t i = 0; i < image.values.size(); ++i) {
      const double low = T(s.transform, s.gamma, w.lo), high = T(s.transform, s.gamma, w.hi);
      const double t = std::clamp((T(s.transform, s.gamma, image.values[i]) - low) / (high - low), 0.0, 1.0);
      ASSERT_NEAR(out->values[i], t, 2e-7);
    }
  }
  const Image<float> special = image_of({1, 4}, {kNaN, kInf, -kInf, 3});
  EXPECT_EQ(normalize(special, *manual_window(0, 1))->values, (std::vector<float>{0, 1, 0, 1}));
  EXPECT_EQ(normalize(special, *manual_window(7, 7))->values[3], 0.5f);
}

TEST(Window, C63_GammaOutsideItsRangeIsRefused) {
  EXPECT_TRUE(manual_window(0, 1, Transform::power, 4));
  for (const double gamma : {0.0, -1.0, 4.001, double{kNaN}}) {
    const auto refused = manual_window(0, 1, Transform::power, gamma);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find("gamma"), std::string::npos);
  }
  EXPECT_EQ(*parse_transform("log"), Transform::log);
  EXPECT_FALSE(parse_transform("sqrt"));
}

double percentile_by_sorting(std::vector<float> kept, double p) {
  std::sort(kept.begin(), kept.end());
  const double rank = p / 100 * static_cast<double>(kept.size() - 1), down = std::floor(rank);
  const double a = kept[static_cast<std::size_t>(down)], b = kept[static_cast<std::size_t>(std::ceil(rank))];
  return a + (rank - down) * (b - a);
}

TEST(Window, C64_PercentilesAreExactOrderStatistics) {
  for (const Extent extent : {Extent{1, 1}, Extent{1, 2}, Extent{3, 5}, Extent{31, 37}, Extent{64, 64}}) {
    Image<float> image = random_image(extent, extent.rows);
    for (const auto& [low, high] :
         std::vector<std::pair<double, double>>{{0.5, 99.5}, {0, 100}, {25, 25}, {1, 2}, {99.9, 100}}) {
      const auto w = window(image, {low, high});
      ASSERT_TRUE(w);
      EXPECT_EQ(w->lo, static_cast<float>(percentile_by_sorting(image.values, low)));
      EXPECT_EQ(w->hi, static_cast<float>(percentile_by_sorting(image.values, high)));
    }
  }
  // 0, 1, ..., 200: rank p/100 * 200 is the value itself.
  Image<float> ramp = image_of({3, 67}, {});
  for (int i = 200; i >= 0; --i) ramp.values.push_back(static_cast<float>(i));
  const Window usual = *window(ramp);
  EXPECT_EQ(usual.lo, 1.0f);
  EXPECT_EQ(usual.hi, 199.0f);
}

TEST(Window, C64_WhatHasNoValueNeverEntersAWindow) {
  Image<float> image = image_of({2, 4}, {1, 2, 3, 4, kNaN, kInf, -kInf, 1e9f});
  image.valid = BitMask(8, true);
  image.valid.set(7, false);
  const Window w = *window(image, kMinMax);
  EXPECT_EQ(w.lo, 1.0f);
  EXPECT_EQ(w.hi, 4.0f);
  const Window none = *window(image_of({1, 3}, {kNaN, kNaN, kInf}));
  EXPECT_EQ(none.lo, 0.0f);
  EXPECT_EQ(none.hi, 0.0f);
  EXPECT_EQ(none.level(17), 128);
  EXPECT_FALSE(window(image, {50, 20}));
  EXPECT_FALSE(window(image, {-1, 20}));
  EXPECT_FALSE(window(image, {0, 100.5}));
  EXPECT_FALSE(window(image_of({2, 2}, {1, 2, 3})));
}

TEST(Window, V02_MarkersDoNotReachTheLimits) {
  // The field case in small: counts up to 1,208,081 among markers of 4294967295 that the caller's mask excludes.
  Grid<std::uint32_t> counts;
  counts.extent = {7, 11};
  counts.values.assign(77, 5);
  counts.values[40] = 1208081;
  counts.valid = BitMask(77, true);
  for (const std::uint64_t marker : {0, 13, 76}) {
    counts.values[marker] = 0xFFFFFFFFu;
    counts.valid.set(marker, false);
  }
  const Image<float> shown = displayable(counts);
  const Window w = *window(shown, kMinMax);
  EXPECT_EQ(w.lo, 5.0f);
  EXPECT_EQ(w.hi, 1208081.0f);
  EXPECT_EQ(histogram(shown, w)->invalid, 3u);
  EXPECT_TRUE(std::isnan(shown.values[13]));
}

TEST(Window, SymmetricIsCentredOnZero) {
  const Window w = *symmetric_window(image_of({1, 5}, {-3, 1, kNaN, 2, 0}), 100);
  EXPECT_EQ(w.lo, -3.0f);
  EXPECT_EQ(w.hi, 3.0f);
  EXPECT_EQ(w.level(0), 128);
}

TEST(Window, ValueAtUndoesFraction) {
  for (const Setting& s : kSettings) {
    const Window w = *manual_window(s.lo, s.hi, s.transform, s.gamma);
    for (const double t : {0.0, 0.125, 0.5, 0.9, 1.0}) EXPECT_NEAR(w.fraction(w.value_at(t)), t, 1e-9);
  }
}

TEST(Histogram, C65_SameEdgesAsColoursAndTheSumIsThePixels) {
  Image<float> image = random_image({53, 47}, 9);
  image.values[0] = kNaN, image.values[1] = kInf, image.values[2] = -kInf;
  image.valid = BitMask(image.extent.count(), true);
  image.valid.set(100, false);
  for (const Setting& s : kSettings) {
    const Window w = *manual_window(s.lo, s.hi, s.transform, s.gamma);
    Histogram expected;
    for (std::uint64_t i = 0; i < image.values.size(); ++i) {
      const float x = image.values[i];
      if (std::isnan(x) || i == 100)
        ++expected.invalid;
      else if (x < w.lo)
        ++expected.below;
      else if (x > w.hi)
        ++expected.above;
      else
        ++expected.bins[static_cast<std::size_t>(level_by_counting(x, w.lo, w.hi, s.transform, s.gamma))];
    }
    const auto found = histogram(image, w);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->bins, expected.bins);
    EXPECT_EQ(found->below, expected.below);
    EXPECT_EQ(found->above, expected.above);
    EXPECT_EQ(found->invalid, 2u);
    std::uint64_t sum = std::uint64_t{found->below} + found->above + found->invalid;
    for (const std::uint32_t n : found->bins) sum += n;
    EXPECT_EQ(sum, image.extent.count());
  }
}

TEST(Histogram, C65_FlatWindowKeepsItsOwnValueInside) {
  const auto h = histogram(image_of({1, 5}, {4, 5, 5, 6, kNaN}), *manual_window(5, 5));
  ASSERT_TRUE(h);
  EXPECT_EQ(h->bins[128], 2u);
  EXPECT_EQ(h->below, 1u);
  EXPECT_EQ(h->above, 1u);
  EXPECT_EQ(h->invalid, 1u);
}

}  // namespace
}  // namespace quantem
