// Field cases, group 2 (values and masks), G07, M01: generated inputs, from the source of frames through load to products.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "quantem/detector/masked_sum.h"
#include "quantem/detector/mean_pattern.h"
#include "quantem/dpc/com.h"
#include "quantem/io/memory_source.h"

namespace quantem {
namespace {

constexpr Representation kBoth[] = {Representation::dense, Representation::encoded};

template <class T>
Volume must_load(const MemorySource<T>& source, LoadOptions options = {},
                 std::optional<Representation> representation = std::nullopt) {
  options.representation = representation;
  auto v = source.load(options);
  EXPECT_TRUE(v) << (v ? "" : v.error().message);
  if (!v) std::abort();
  return *std::move(v);
}

std::vector<std::uint64_t> totals(const Volume& v) {
  const auto image = masked_sum_exact(v, all_pixels(v.shape().det));
  EXPECT_TRUE(image) << (image ? "" : image.error().message);
  return image ? image->values : std::vector<std::uint64_t>{};
}

BitMask without(std::uint64_t n, std::uint64_t bad) {
  BitMask m(n, true);
  m.set(bad, false);
  return m;
}

TEST(Values, V01_TheMaskSaysMaskedTheValueOnlySaysSaturated) {
  std::vector<std::uint16_t> values(64, 2);
  values[0] = values[63] = 65535;
  MemorySource<std::uint16_t> source({{1, 1}, {8, 8}}, values);
  source.container.valid_pixels = without(64, 0);
  source.container.has_pixel_mask = true;
  for (const Representation r : kBoth) {
    const Volume v = must_load(source, {}, r);
    EXPECT_EQ(totals(v), std::vector<std::uint64_t>{65659});
    EXPECT_EQ(v.valid_pixels().n_set(), 63u);
    EXPECT_EQ(v.audit().n_saturated, 1u);
    EXPECT_EQ(v.audit().max_pixel, 63u);
  }
}

TEST(Values, V01_UnsignedThirtyTwoBits) {
  std::vector<std::uint32_t> values(128, 2);  // two frames; the second has no marker at (7, 7)
  values[0] = values[64] = values[63] = 4294967295u;
  MemorySource<std::uint32_t> source({{1, 2}, {8, 8}}, values);
  source.container.valid_pixels = without(64, 0);
  source.container.has_pixel_mask = true;
  for (const Representation r : kBoth) {
    LoadOptions keep;
    keep.flagged = Flagged::keep;
    EXPECT_EQ(totals(must_load(source, keep, r)), (std::vector<std::uint64_t>{4294967419u, 126}));
    const Volume v = must_load(source, {}, r);  // C14: not a count unless the caller says so
    EXPECT_EQ(totals(v), (std::vector<std::uint64_t>{124, 126}));
    EXPECT_EQ(v.info().flagged, (std::vector<FlaggedSample>{{0, 63}}));
    EXPECT_EQ(v.valid_pixels().n_set(), 63u);
  }
}

// A frame's total does not wrap in the pixel's type, nor in 32 bits.
TEST(Values, V04_SumsOverTheDetectorHoldTheLargestCounts) {
  const Shape4 s{{2, 1}, {192, 192}};
  for (const Representation r : kBoth) {
    const Volume v = must_load(MemorySource<std::uint16_t>(s, std::vector<std::uint16_t>(s.n_values(), 65535)), {}, r);
    EXPECT_EQ(totals(v), (std::vector<std::uint64_t>{2415882240u, 2415882240u}));
    const auto sum = sum_pattern(v);
    ASSERT_TRUE(sum);
    EXPECT_EQ(std::accumulate(sum->values.begin(), sum->values.end(), std::uint64_t{0}), 4831764480u);
    // The same kind: u32 in one tile of the detector, and binned by the scan.
    const Shape4 t{{2, 1}, {40, 33}};
    const MemorySource<std::uint32_t> large(t, std::vector<std::uint32_t>(t.n_values(), 4294967294u));
    EXPECT_EQ(totals(must_load(large, {}, r)), std::vector<std::uint64_t>(2, 1320 * std::uint64_t{4294967294u}));
    LoadOptions bin;
    bin.scan_bin = {2, 1};
    const Volume b = must_load(MemorySource<std::uint16_t>(t, std::vector<std::uint16_t>(t.n_values(), 65535)), bin, r);
    EXPECT_EQ(totals(b), std::vector<std::uint64_t>{std::uint64_t{2} * 1320 * 65535});
  }
}

TEST(Values, V05_SumsOverTheScanHoldTheLargestCounts) {
  const Shape4 s{{250, 280}, {2, 2}};
  const MemorySource<std::uint16_t> source(s, std::vector<std::uint16_t>(s.n_values(), 65535));
  for (const Representation r : kBoth) {
    const Volume v = must_load(source, {}, r);
    const auto sum = sum_pattern(v);
    const auto mean = mean_pattern(v);
    ASSERT_TRUE(sum && mean);
    EXPECT_EQ(sum->values, std::vector<std::uint64_t>(4, 4587450000u));
    EXPECT_EQ(mean->values, std::vector<double>(4, 65535.0));
  }
}

TEST(Values, V06_MomentsHoldTheLargestCounts) {
  const Shape4 s{{1, 1}, {192, 192}};
  for (const std::uint32_t count : {60000u, 65535u})
    for (const Representation r : kBoth) {
      const Volume v = must_load(
          MemorySource<std::uint16_t>(s, std::vector<std::uint16_t>(s.n_values(), static_cast<std::uint16_t>(count))),
          {}, r);
      const auto com = center_of_mass(v);
      ASSERT_TRUE(com);
      EXPECT_EQ(com->row.values[0], 95.5f);
      EXPECT_EQ(com->col.values[0], 95.5f);
      const auto field = com_field(v);
      ASSERT_TRUE(field);
      EXPECT_EQ(field->row[0] * static_cast<double>(totals(v)[0]), 95.5 * 36864 * count);  // 211,230,720,000 at 60000
    }
}

TEST(Values, V08_AnEmptyFrameHasNoCentreAndHarmsNoOther) {
  const Shape4 s{{3, 3}, {8, 8}};
  std::vector<std::uint16_t> values(s.n_values());
  for (std::uint64_t n = 0; n < 9; ++n)
    if (n != 4) values[n * 64 + 2 * 8 + 5] = 10;
  for (const Representation r : kBoth) {
    const Volume v = must_load(MemorySource<std::uint16_t>(s, values), {}, r);
    const auto com = center_of_mass(v);
    ASSERT_TRUE(com);
    const auto field = com_field(v);
    ASSERT_TRUE(field);
    const auto flat = descan(*field);
    ASSERT_TRUE(flat);
    EXPECT_EQ(com->valid.n_set(), 8u);
    for (std::uint64_t n = 0; n < 9; ++n) {
      EXPECT_EQ(com->valid[n], n != 4);
      if (n == 4) {
        EXPECT_TRUE(std::isnan(com->row.values[n]) && std::isnan(com->col.values[n]));
      } else {
        EXPECT_EQ(com->row.values[n], 2.0f);
        EXPECT_EQ(com->col.values[n], 5.0f);
      }
      EXPECT_EQ(flat->row[n], 0.0);
      EXPECT_EQ(flat->col[n], 0.0);
    }
  }
}

TEST(Values, V11_NanAndInfStayAtTheirPlaces) {
  const Shape4 s{{2, 4}, {3, 3}};
  std::vector<float> values(s.n_values());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 9 + 1);
  values[3 * 9 + 4] = std::numeric_limits<float>::quiet_NaN();
  values[5 * 9 + 8] = std::numeric_limits<float>::infinity();
  const Volume v = must_load(MemorySource<float>(s, values));
  EXPECT_EQ(v.info().n_nonfinite_samples, 2u);
  EXPECT_EQ(v.audit().count_max, 9);
  const auto image = masked_sum(v, all_pixels(s.det));
  const auto mean = mean_pattern(v);
  const auto com = center_of_mass(v);
  ASSERT_TRUE(image && mean && com);
  for (std::uint64_t n = 0; n < 8; ++n) {
    if (n == 3 || n == 5)
      EXPECT_TRUE(std::isnan(image->values[n]) && std::isnan(com->row.values[n])) << n;
    else
      EXPECT_EQ(image->values[n], 45.0f) << n;
  }
  for (std::size_t p = 0; p < 9; ++p) EXPECT_EQ(mean->values[p], static_cast<double>(p + 1));
}

TEST(Values, V12_HotPixelsAreReplacedOnRequestAndNothingElse) {
  const Shape4 s{{8, 9}, {16, 16}};
  std::mt19937 random(3);
  std::poisson_distribution<int> poisson(3);
  std::vector<std::uint16_t> values(s.n_values());
  for (std::uint16_t& x : values) x = static_cast<std::uint16_t>(poisson(random));
  for (std::uint64_t n = 0; n < s.n_positions(); ++n) values[n * 256 + 4 * 16 + 9] = 5000;
  const MemorySource<std::uint16_t> source(s, values);
  for (const Representation r : kBoth) {
    const auto raw = read(must_load(source, {}, r), whole(s.scan), whole(s.det));
    ASSERT_TRUE(raw);
    EXPECT_TRUE(std::equal(values.begin(), values.end(), raw->as<std::uint16_t>().begin()));
    EXPECT_TRUE(raw->provenance.evidence.empty());
    LoadOptions o;
    o.hot_pixels = HotPixels::median;
    const Volume v = must_load(source, o, r);
    const auto filtered = read(v, whole(s.scan), whole(s.det));
    ASSERT_TRUE(filtered);
    for (std::uint64_t i = 0; i < values.size(); ++i) {
      const std::uint16_t x = filtered->as<std::uint16_t>()[i];
      if (i % 256 != 4 * 16 + 9) {
        ASSERT_EQ(x, values[i]) << i;
        continue;
      }
      std::vector<std::uint16_t> around;  // 8 neighbours: the 4th smallest is the lower median
      for (const int d : {-17, -16, -15, -1, 1, 15, 16, 17})
        around.push_back(values[i + static_cast<std::uint64_t>(d)]);
      std::sort(around.begin(), around.end());
      ASSERT_EQ(x, around[3]) << i;
    }
    const std::string json = to_json(v.provenance());
    EXPECT_NE(json.find("\"operation\":\"hot_pixel_median\",\"changes_measurements\":true"), std::string::npos) << json;
    EXPECT_NE(json.find("\"pixels\":[\"(4, 9)\"]"), std::string::npos) << json;
    EXPECT_EQ(v.audit().count_max, 5000);  // the audit is of what the detector wrote
  }
}

// The same kind: a crop moves the pixel, a pair of hot pixels, one in the corner, a bad neighbour takes no part.
TEST(Values, V12_HotPixelsInCropsPairsAndCorners) {
  const Shape4 s{{3, 7}, {13, 11}};
  std::vector<std::uint32_t> values(s.n_values(), 4);
  for (std::uint64_t n = 0; n < s.n_positions(); ++n)
    for (const std::uint64_t p : {2 * 11 + 3, 6 * 11 + 6, 6 * 11 + 7, 12 * 11 + 10}) values[n * 143 + p] = 9999;
  const MemorySource<std::uint32_t> source(s, values);
  LoadOptions o;
  o.hot_pixels = HotPixels::median;
  o.detector_region = Region{2, 13, 3, 11};
  o.bad_pixels = {{11, 9}};
  const Volume v = must_load(source, o);
  EXPECT_NE(to_json(v.provenance()).find("[\"(2, 3)\",\"(6, 6)\",\"(6, 7)\",\"(12, 10)\"]"), std::string::npos)
      << to_json(v.provenance());
  EXPECT_EQ(totals(v), std::vector<std::uint64_t>(21, 4 * (11 * 8 - 1)));
}

TEST(Values, V16_NegativeCountsAreSigned) {
  const Shape4 s{{1, 2}, {8, 8}};
  std::vector<std::int16_t> values(s.n_values());
  values[9] = -5;
  values[18] = 10;
  values[64 + 9] = -10;
  values[64 + 18] = 10;  // a total of zero has no centre
  const MemorySource<std::int16_t> source(s, values);
  const Volume v = must_load(source);
  EXPECT_EQ(v.representation(), Representation::dense);
  EXPECT_EQ(v.audit().count_min, -10);
  const auto sum = masked_sum_signed(v, all_pixels(s.det));
  const auto com = center_of_mass(v);
  ASSERT_TRUE(sum && com);
  EXPECT_EQ(sum->values, (std::vector<std::int64_t>{5, 0}));
  EXPECT_EQ(com->row.values[0], 3.0f);
  EXPECT_EQ(com->col.values[0], 3.0f);
  EXPECT_FALSE(com->valid[1]);
  EXPECT_TRUE(std::isnan(com->row.values[1]));
  EXPECT_NE(to_json(com->row.provenance).find("negative_weights"), std::string::npos);
  LoadOptions o;
  o.representation = Representation::encoded;
  const auto refused = source.load(o);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::unsupported);
  EXPECT_NE(refused.error().message.find("int16"), std::string::npos);
}

TEST(Geometry, G07_TheScanStoppedEarly) {
  const Shape4 s{{5, 5}, {2, 2}};
  std::vector<std::uint16_t> values;
  for (std::uint16_t k = 1; k <= 25; ++k) values.insert(values.end(), 4, k);
  MemorySource<std::uint16_t> source(s, values);
  source.missing = {23, 24};
  source.container.options.missing = Missing::mark;
  for (const Representation r : kBoth) {
    const Volume v = must_load(source, {}, r);
    const auto exact = masked_sum_exact(v, all_pixels(s.det));
    const auto image = masked_sum(v, all_pixels(s.det));
    const auto mean = mean_pattern(v);
    const auto com = center_of_mass(v);
    ASSERT_TRUE(exact && image && mean && com);
    EXPECT_EQ(exact->values[22], 92u);
    for (const std::uint64_t n : {23, 24}) {
      EXPECT_EQ(exact->values[n], std::numeric_limits<std::uint64_t>::max());
      EXPECT_FALSE(exact->is_valid(n));
      EXPECT_TRUE(std::isnan(image->values[n]));
      EXPECT_FALSE(com->valid[n]);
    }
    EXPECT_EQ(mean->values, std::vector<double>(4, 12.0));
    EXPECT_EQ(v.provenance().missing_positions, 2u);
  }
}

// 2^32 elements: an index or a sum of 32 bits shows.
TEST(Memory, M01_MoreThan2To32Elements) {
  const Shape4 s{{1024, 1024}, {64, 64}};
  MemorySource<std::uint8_t> source(s, {});
  source.generate = [&](std::uint64_t frame, std::span<std::uint8_t> out) {
    std::fill(out.begin(), out.end(), frame + 1 == s.n_positions() ? std::uint8_t{7} : std::uint8_t{0});
  };
  source.container.parts[0].chunks = {{0, 10'000'000, 0}};
  const Volume v = must_load(source);
  EXPECT_EQ(v.representation(), Representation::encoded);
  EXPECT_EQ(v.logical_bytes(), 4294967296u);
  EXPECT_LT(v.resident_bytes(), 80'000'000u);
  EXPECT_EQ(v.audit().max_position, 1048575u);
  EXPECT_EQ(v.audit().n_values, 4294967296u);
  EXPECT_EQ(v.audit().n_nonzero, 4096u);
  const std::vector<std::uint64_t> image = totals(v);
  EXPECT_EQ(image.front(), 0u);
  EXPECT_EQ(image.back(), 28672u);
  EXPECT_EQ(std::accumulate(image.begin(), image.end(), std::uint64_t{0}), 28672u);
  const auto com = center_of_mass(v);
  ASSERT_TRUE(com);
  EXPECT_EQ(com->row.values.back(), 31.5f);
  EXPECT_EQ(com->col.values.back(), 31.5f);
  const auto last = read(v, {1023, 1024, 1023, 1024}, {63, 64, 0, 64});
  ASSERT_TRUE(last);
  for (const std::uint8_t x : last->as<std::uint8_t>()) EXPECT_EQ(x, 7);
}

}  // namespace
}  // namespace quantem
