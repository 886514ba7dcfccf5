// Centre of mass from counts: exact sums, one rounding, no value where there are no counts.

#include "quantem/dpc/com.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "quantem/detector/masked_sum.h"
#include "quantem/dpc/dpc.h"

namespace quantem {
namespace {

template <class T>
Volume volume_of(const std::vector<T>& counts, const Shape4& s, FromArrayOptions options = {}) {
  if (!is_unsigned_count(dtype_of<T>())) options.representation = Representation::dense;
  const Device device = *open_device(Backend::cpu);
  auto volume =
      from_array(device, {dtype_of<T>(), {s.scan.rows, s.scan.cols, s.det.rows, s.det.cols}, counts.data()}, options);
  EXPECT_TRUE(volume) << volume.error().message;
  return *volume;
}
FromArrayOptions dense() {
  FromArrayOptions o;
  o.representation = Representation::dense;
  return o;
}

TEST(Com, O9_OnePixelIsItsOwnCentre) {
  const Shape4 s{{2, 3}, {7, 11}};
  std::vector<std::uint32_t> counts(s.n_values());
  for (std::uint64_t n = 0; n < 6; ++n) counts[n * 77 + n * 12 + 3] = 4000000000u - static_cast<std::uint32_t>(n);
  const auto maps = center_of_mass(volume_of(counts, s, dense()));
  ASSERT_TRUE(maps) << maps.error().message;
  for (std::uint64_t n = 0; n < 6; ++n) {
    const std::uint64_t p = n * 12 + 3;
    EXPECT_EQ(maps->row.values[n], static_cast<float>(p / 11));
    EXPECT_EQ(maps->col.values[n], static_cast<float>(p % 11));
  }
  EXPECT_TRUE(maps->valid.all());
  EXPECT_EQ(maps->row.unit, "px");
  EXPECT_EQ(maps->row.provenance.operation, "center_of_mass");
}

TEST(Com, C38_C53_WeightsTakeThePlaceOfTheMask) {
  const Shape4 s{{3, 5}, {7, 11}};
  std::vector<std::uint16_t> counts(s.n_values());
  for (std::uint64_t i = 0; i < counts.size(); ++i) counts[i] = static_cast<std::uint16_t>(i * 7919 % 97);
  std::vector<double> w(77, 0.0);  // multiples of 1/4, some negative: exact
  for (std::uint64_t p = 0; p < 77; ++p) w[p] = static_cast<double>(p * 13 % 23) / 4 - 0.5;
  const Weights weights = *weights_from(w, s.det);
  ASSERT_TRUE(weights.exact);
  for (const FromArrayOptions& how : {FromArrayOptions{}, dense()}) {
    const auto field = com_field(volume_of(counts, s, how), weights);
    ASSERT_TRUE(field) << field.error().message;
    for (std::uint64_t n = 0; n < 15; ++n) {
      double total = 0, row = 0, col = 0;
      for (std::uint64_t p = 0; p < 77; ++p) {
        const double v = w[p] * counts[n * 77 + p];
        total += v, row += v * static_cast<double>(p / 11), col += v * static_cast<double>(p % 11);
      }
      EXPECT_EQ(field->row[n], row / total) << n;
      EXPECT_EQ(field->col[n], col / total) << n;
    }
    EXPECT_EQ(field->provenance.mask.n_pixels, 77u - 3u);  // 2 / 4 - 0.5 at three pixels: weight 0
  }
  // Nothing but negative weights: no centre, and said so.
  const auto none = com_field(volume_of(counts, s), *weights_from(std::vector<double>(77, -1.0), s.det));
  ASSERT_TRUE(none);
  EXPECT_TRUE(none->valid.none());
  EXPECT_NE(to_json(none->provenance).find("negative_total"), std::string::npos);
  EXPECT_FALSE(com_field(volume_of(counts, s), *weights_from(std::vector<double>(76, 1.0), {4, 19})));
}

TEST(Com, O10_FullScaleSumsDoNotWrap) {
  const Shape4 s{{1, 1}, {192, 192}};
  const std::vector<std::uint16_t> counts(s.n_values(), 65535);
  const Volume v = volume_of(counts, s, dense());
  const auto sums = moment_sums(v);
  ASSERT_TRUE(sums) << sums.error().message;
  EXPECT_EQ(sums->total[0], 2415882240u);
  EXPECT_EQ(sums->row[0], 230716753920u);
  EXPECT_EQ(sums->col[0], 230716753920u);
  const auto maps = center_of_mass(v);
  ASSERT_TRUE(maps);
  EXPECT_EQ(maps->row.values[0], 95.5f);
  EXPECT_EQ(maps->col.values[0], 95.5f);
}

TEST(Com, O11_AnEmptyFrameStaysWhereItIs) {
  const Shape4 s{{3, 4}, {5, 6}};
  std::vector<std::uint16_t> counts(s.n_values(), 1);
  for (std::uint64_t n = 0; n < 12; ++n) counts[n * 30 + n] += static_cast<std::uint16_t>(2 * n);
  std::fill_n(counts.begin() + 5 * 30, 30, std::uint16_t{0});
  const auto field = com_field(volume_of(counts, s, dense()));
  ASSERT_TRUE(field);
  const auto working = descan(*field);
  ASSERT_TRUE(working);
  EXPECT_EQ(working->row[5], 0);
  EXPECT_EQ(working->col[5], 0);
  EXPECT_FALSE(working->valid[5]);
  EXPECT_EQ(working->valid.n_set(), 11u);
  double sum = 0;
  for (const double x : working->row) {
    ASSERT_TRUE(std::isfinite(x));
    sum += x;
  }
  EXPECT_NEAR(sum, 0, 1e-12);
  const auto phase = integrate(*working);
  ASSERT_TRUE(phase);
  for (const double x : phase->values) ASSERT_TRUE(std::isfinite(x));
  EXPECT_EQ(std::bit_cast<std::uint32_t>(to_maps(*field).row.values[5]), 0x7FC00000u);
}

TEST(Com, C53_MaskSelectsAndAnEmptyOneGivesNoValue) {
  const Shape4 s{{1, 2}, {4, 5}};
  std::vector<std::uint16_t> counts(s.n_values());
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i] = static_cast<std::uint16_t>(i + 1);
  const Volume v = volume_of(counts, s, dense());
  const Mask column = *rectangle({0, 4, 2, 3}, s.det);
  const auto maps = center_of_mass(v, &column);
  ASSERT_TRUE(maps);
  EXPECT_EQ(maps->col.values[1], 2.0f);
  EXPECT_EQ(maps->row.values[0], static_cast<float>((8 + 2 * 13 + 3 * 18) / double(3 + 8 + 13 + 18)));
  EXPECT_EQ(maps->row.provenance.mask.n_pixels, 4u);
  const Mask outside = *disk({100, 100}, 2, s.det);
  const auto none = center_of_mass(v, &outside);
  ASSERT_TRUE(none);
  EXPECT_TRUE(none->valid.none());
  EXPECT_EQ(none->row.provenance.warnings.back(), "empty_mask");
  const Mask other = *disk({1, 1}, 2, {5, 4});
  EXPECT_EQ(center_of_mass(v, &other).error().message, "center_of_mass: mask is (5, 4), detector is (4, 5)");
}

TEST(Com, C54_SignedCountsSumExactlyAndNegativeTotalsHaveNoCentre) {
  const Shape4 s{{1, 3}, {8, 8}};
  std::vector<std::int16_t> counts(s.n_values());
  counts[9] = -5, counts[18] = 10;           // (1,1), (2,2): (3,3)
  counts[64 + 9] = -5, counts[64 + 18] = 5;  // total 0
  counts[128 + 9] = -5;                      // total below 0
  const auto maps = center_of_mass(volume_of(counts, s));
  ASSERT_TRUE(maps) << maps.error().message;
  EXPECT_EQ(maps->row.values[0], 3.0f);
  EXPECT_EQ(maps->col.values[0], 3.0f);
  EXPECT_TRUE(std::isnan(maps->row.values[1]));
  EXPECT_TRUE(std::isnan(maps->col.values[2]));
  const auto& warnings = maps->row.provenance.warnings;
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_NE(warnings[0].find("1 positions without value: negative_total"), std::string::npos);
  EXPECT_NE(warnings[1].find("3 positions hold negative counts"), std::string::npos);
}

TEST(Com, C18_FloatSamplesPoisonOnlyTheirOwnSelectedPosition) {
  const Shape4 s{{2, 3}, {4, 4}};
  std::vector<float> counts(s.n_values(), 0.5f);
  counts[3 * 16 + 5] = std::numeric_limits<float>::quiet_NaN();
  counts[5 * 16] = std::numeric_limits<float>::infinity();
  const Volume v = volume_of(counts, s);
  const auto maps = center_of_mass(v);
  ASSERT_TRUE(maps);
  for (std::uint64_t n = 0; n < 6; ++n) EXPECT_EQ(maps->valid[n], n != 3 && n != 5) << n;
  EXPECT_EQ(maps->row.values[0], 1.5f);
  const Mask corner = *rectangle({3, 4, 3, 4}, s.det);  // selects neither
  EXPECT_TRUE(center_of_mass(v, &corner)->valid.all());
}

TEST(Dpc, C59_ResultHasEveryMapAndSaysWhatItDid) {
  const Shape4 s{{6, 7}, {9, 9}};
  std::vector<std::uint16_t> counts(s.n_values(), 1);
  for (std::uint64_t n = 0; n < 42; ++n)
    counts[n * 81 + (n * n + 3 * n) % 81] += static_cast<std::uint16_t>(20 + n % 5);
  FromArrayOptions with_gap = dense();
  with_gap.valid_positions = BitMask(42, true);
  with_gap.valid_positions.set(20, false);
  std::fill_n(counts.begin() + 20 * 81, 81, std::uint16_t{0});
  const Volume v = volume_of(counts, s, with_gap);
  DpcOptions options;
  options.rotation_deg = 30;
  const auto r = run_dpc(v, options);
  ASSERT_TRUE(r) << r.error().message;
  EXPECT_TRUE(r->rotation_given);
  EXPECT_FALSE(r->rotation.transpose);
  EXPECT_EQ(r->filled, 1u);
  for (const auto* map : {&r->com_row, &r->com_col_aligned, &r->magnitude, &r->direction_deg}) {
    EXPECT_EQ(map->extent, s.scan);
    EXPECT_TRUE(std::isnan(map->values[20]));
    EXPECT_TRUE(std::isfinite(map->values[21]));
  }
  for (const float x : r->phase.values) EXPECT_TRUE(std::isfinite(x));
  EXPECT_NEAR(r->magnitude.values[8], std::hypot(r->com_row.values[8], r->com_col.values[8]), 1e-6);
  EXPECT_NEAR(r->direction_deg.values[8],
              std::atan2(r->com_col_aligned.values[8], r->com_row_aligned.values[8]) * 57.29577951308232, 1e-4);
  EXPECT_TRUE(std::isnan(r->curl.values[0]));
  EXPECT_TRUE(std::isnan(r->divergence.values[19]));  // a neighbour without value
  const std::string json = to_json(r->provenance);
  for (const char* word : {"\"rotation_deg\":30", "\"descan\":\"mean\"", "\"boundary\":\"periodic\"",
                           "\"units\":\"relative\"", "\"filled\":1", "incomplete"})
    EXPECT_NE(json.find(word), std::string::npos) << word << " in " << json;
  DpcOptions only_transpose;
  only_transpose.transpose = true;
  EXPECT_EQ(run_dpc(v, only_transpose).error().code, Code::invalid_argument);
  options.units = IdpcUnits::rad;
  EXPECT_NE(run_dpc(v, options).error().message.find("voltage_kV"), std::string::npos);
}

}  // namespace
}  // namespace quantem
