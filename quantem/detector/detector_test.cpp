// The dense reference against sums written out here, and what every product says about itself.

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "quantem/detector/masked_sum.h"
#include "quantem/detector/masked_sum_on_device.h"
#include "quantem/detector/mean_pattern.h"

namespace quantem {
namespace {

Device cpu() {
  return *open_device(Backend::cpu);
}

template <class T>
Volume dense(Shape4 shape, const std::vector<T>& counts, FromArrayOptions options = {}) {
  options.representation = Representation::dense;
  auto volume = from_array(
      cpu(), {dtype_of<T>(), {shape.scan.rows, shape.scan.cols, shape.det.rows, shape.det.cols}, counts.data()},
      options);
  EXPECT_TRUE(volume) << volume.error().message;
  return *volume;
}

// G01's counts: four axes of four lengths, any exchange shows.
std::vector<std::uint16_t> four_lengths() {
  std::vector<std::uint16_t> v;
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 5; ++j)
      for (int r = 0; r < 4; ++r)
        for (int c = 0; c < 6; ++c) v.push_back(static_cast<std::uint16_t>(1000 * i + 100 * j + 10 * r + c));
  return v;
}
constexpr Shape4 kFourLengths{{3, 5}, {4, 6}};

TEST(Detector, C43_ExactSumsAndC44_OneRounding) {
  const Volume v = dense(kFourLengths, four_lengths());
  const auto image = masked_sum_exact(v, all_pixels({4, 6}));
  ASSERT_TRUE(image) << image.error().message;
  EXPECT_EQ(image->at(0, 0), 420u);
  EXPECT_EQ(image->at(2, 4), 58020u);
  EXPECT_EQ(image->provenance.path, "cpu_dense_masked_sum");
  EXPECT_EQ(image->provenance.mask.n_pixels, 24u);
  EXPECT_EQ(image->provenance.output_shape, "(3, 5)");
  // 2^24 + 1 is the first integer that f32 rounds.
  std::vector<std::uint32_t> large{16777215, 2, 16777216, 3};
  const Volume w = dense(Shape4{{1, 2}, {1, 2}}, large);
  EXPECT_EQ(masked_sum(w, all_pixels({1, 2}))->values, (std::vector<float>{16777217.0f, 16777219.0f}));
  EXPECT_EQ(masked_sum_exact(w, all_pixels({1, 2}))->values, (std::vector<std::uint64_t>{16777217, 16777219}));
}

TEST(Detector, V04_C43_SumsDoNotWrap) {
  const Volume v = dense(Shape4{{2, 1}, {192, 192}}, std::vector<std::uint16_t>(2 * 192 * 192, 65535));
  const auto image = masked_sum_exact(v, all_pixels({192, 192}));
  EXPECT_EQ(image->values, (std::vector<std::uint64_t>{2415882240, 2415882240}));
}

TEST(Detector, V05_C49_PatternSumsDoNotWrap) {
  const Volume v = dense(Shape4{{700, 100}, {2, 2}}, std::vector<std::uint16_t>(280000, 65535));
  EXPECT_EQ(sum_pattern(v)->values, std::vector<std::uint64_t>(4, 4587450000));
  EXPECT_EQ(mean_pattern(v)->values, std::vector<double>(4, 65535.0));
}

TEST(Detector, V06_MomentsDoNotWrap) {
  const Volume v = dense(Shape4{{1, 1}, {192, 192}}, std::vector<std::uint16_t>(192 * 192, 60000));
  const auto m = moment_sums(v);
  EXPECT_EQ(m->row[0], 211230720000u);
  EXPECT_EQ(m->col[0], 211230720000u);
  EXPECT_EQ(m->total[0], 60000u * 36864u);
}

TEST(Detector, C12_C13_BadPixelsTakePartInNothing) {
  std::vector<std::uint16_t> counts(64, 2);
  counts[0] = counts[63] = 65535;
  FromArrayOptions o;
  o.valid_pixels = BitMask(64, true);
  o.valid_pixels.set(0, false);
  const Volume v = dense(Shape4{{1, 1}, {8, 8}}, counts, o);
  EXPECT_EQ(masked_sum_exact(v, all_pixels({8, 8}))->values[0], 65659u);
  EXPECT_EQ(masked_sum_exact(v, all_pixels({8, 8}))->provenance.mask.n_pixels, 63u);
  const auto s = frame_statistics(v);
  EXPECT_EQ(s->n_saturated[0], 1u);
  EXPECT_EQ(s->n_nonzero[0], 63u);
  EXPECT_EQ(s->argmax[0], 63u);
  const auto f = frame(v, {0, 0});
  EXPECT_EQ(f->as<std::uint16_t>()[0], 0u);
  EXPECT_FALSE(f->valid_pixels[0]);
  const auto mean = mean_pattern(v);
  EXPECT_EQ(mean->values[0], 0);
  EXPECT_FALSE(mean->is_valid(0));
  EXPECT_TRUE(mean->is_valid(1));
}

TEST(Detector, C17_G07_MissingIsNeverZero) {
  std::vector<std::uint16_t> counts;
  for (int k = 0; k < 25; ++k) counts.insert(counts.end(), 4, static_cast<std::uint16_t>(k < 23 ? k + 1 : 0));
  FromArrayOptions o;
  o.valid_positions = BitMask(25, true);
  o.valid_positions.set(23, false);
  o.valid_positions.set(24, false);
  const Volume v = dense(Shape4{{5, 5}, {2, 2}}, counts, o);
  const auto image = masked_sum(v, all_pixels({2, 2}));
  EXPECT_EQ(image->at(4, 2), 92.0f);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(image->at(4, 3)), 0x7FC00000u);
  EXPECT_FALSE(image->is_valid(24));
  const auto exact = masked_sum_exact(v, all_pixels({2, 2}));
  EXPECT_EQ(exact->at(4, 4), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(mean_pattern(v)->values, std::vector<double>(4, 12.0));
  EXPECT_EQ(max_pattern(v)->as<std::uint16_t>()[0], 23u);
  const auto missing = frame(v, {4, 3});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::missing_data);
  const Position absent[] = {{4, 3}, {4, 4}}, partly[] = {{4, 2}, {4, 4}};
  EXPECT_EQ(region_mean(v, *scan_set(absent, {5, 5})).error().code, Code::invalid_argument);
  const auto r = region_mean(v, *scan_set(partly, {5, 5}));
  EXPECT_EQ(r->values, std::vector<double>(4, 23.0));
  EXPECT_EQ(frame_statistics(v)->n_missing, 2u);
}

TEST(Detector, C14_FlaggedSamplesLeaveTheDenominator) {
  std::vector<std::uint32_t> counts{4, 10, 0xFFFFFFFFu, 20, 6, 0xFFFFFFFFu};  // 3 positions of 2 pixels
  const Volume v = dense(Shape4{{1, 3}, {1, 2}}, counts);
  EXPECT_EQ(mean_pattern(v)->values, (std::vector<double>{5.0, 15.0}));
  EXPECT_EQ(sum_pattern(v)->values, (std::vector<std::uint64_t>{10, 30}));
  const Position one[] = {{0, 1}};
  const auto r = region_mean(v, *scan_set(one, {1, 3}));
  EXPECT_TRUE(std::isnan(r->values[0]));
  EXPECT_FALSE(r->is_valid(0));
}

TEST(Detector, C45_V16_SignedCounts) {
  std::vector<std::int16_t> counts(64);
  counts[9] = -5;
  counts[18] = 10;
  const Volume v = dense(Shape4{{1, 1}, {8, 8}}, counts);
  EXPECT_EQ(masked_sum_signed(v, all_pixels({8, 8}))->values[0], 5);
  EXPECT_EQ(masked_sum(v, all_pixels({8, 8}))->values[0], 5.0f);
  EXPECT_EQ(masked_sum_exact(v, all_pixels({8, 8})).error().code, Code::wrong_dtype);
  EXPECT_EQ(moment_sums(v).error().code, Code::wrong_dtype);
  const auto m = moment_sums_signed(v);
  EXPECT_EQ(m->row[0], 15);
  EXPECT_EQ(m->col[0], 15);
  EXPECT_EQ(mean_pattern(v)->values[9], -5.0);
  EXPECT_EQ(max_pattern(v)->as<std::int16_t>()[9], -5);
}

TEST(Detector, C18_V11_NonFiniteSamplesStayWhereTheyAre) {
  std::vector<float> counts(6 * 4, 1.5f);
  counts[3 * 4 + 1] = std::nanf("");
  counts[5 * 4] = std::numeric_limits<float>::infinity();
  const Volume v = dense(Shape4{{2, 3}, {2, 2}}, counts);
  const auto all = masked_sum(v, all_pixels({2, 2}));
  EXPECT_EQ(all->values[2], 6.0f);
  EXPECT_TRUE(std::isnan(all->values[3]) && std::isnan(all->values[5]));
  const auto last_row = masked_sum(v, *rectangle({1, 2, 0, 2}, {2, 2}));
  EXPECT_EQ(last_row->values, std::vector<float>(6, 3.0f));
  EXPECT_EQ(mean_pattern(v)->values, std::vector<double>(4, 1.5));
  EXPECT_EQ(max_pattern(v)->as<float>()[0], 1.5f);
  const auto m = moment_sums_real(v);
  EXPECT_EQ(m->row[0], 3.0);
  EXPECT_TRUE(std::isnan(m->row[3]) && std::isnan(m->col[5]));
  EXPECT_EQ(masked_sum_exact(v, all_pixels({2, 2})).error().message,
            "masked_sum_exact: float32 has no exact integer sum; use masked_sum");
}

TEST(Detector, C38_WeightedSums) {
  const Volume v = dense(kFourLengths, four_lengths());
  std::vector<double> w(24), third(24, 1.0 / 3);
  std::iota(w.begin(), w.end(), -7.0);
  double want = 0;
  for (int p = 0; p < 24; ++p) want += w[p] * (2300 + 10 * (p / 6) + p % 6);
  const auto image = weighted_sum(v, *weights_from(w, {4, 6}));
  EXPECT_EQ(image->at(2, 3), static_cast<float>(want));
  const auto rounded = weighted_sum(v, *weights_from(third, {4, 6}));
  const auto total = masked_sum(v, all_pixels({4, 6}));
  for (int n = 0; n < 15; ++n)
    EXPECT_LE(std::abs(rounded->values[n] - total->values[n] / 3), total->values[n] / 3 * 3.1e-5 + 1e-3);
  EXPECT_EQ(weighted_sum(v, *weights_from(std::vector<double>(24), {4, 6}))->provenance.warnings.size(), 1u);
}

TEST(Detector, C37_G13_MaskOfAnotherShape) {
  const Volume v = dense(kFourLengths, four_lengths());
  const auto r = masked_sum(v, all_pixels({6, 4}));
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().message, "masked_sum: mask is (6, 4), detector is (4, 6)");
  Mask short_of_bits = all_pixels({4, 6});
  short_of_bits.bits = BitMask(23, true);
  EXPECT_EQ(masked_sum(v, short_of_bits).error().message,
            "masked_sum: mask holds 23 values, detector (4, 6) has 24 pixels");
  EXPECT_EQ(moment_sums(v, nullptr)->row, [&] {
    const Mask m = all_pixels({4, 6});
    return moment_sums(v, &m)->row;
  }());
}

TEST(Detector, C36_G14_AnEmptyMaskIsZeroWithAWarning) {
  const Volume v = dense(kFourLengths, four_lengths());
  const auto r = masked_sum(v, *disk({40, 40}, 3, {4, 6}));
  EXPECT_EQ(r->values, std::vector<float>(15, 0.0f));
  ASSERT_EQ(r->provenance.warnings.size(), 1u);
  EXPECT_NE(r->provenance.warnings[0].find("empty_mask"), std::string::npos);
}

TEST(Detector, C53_MomentsThatCouldPass64BitsAreRefused) {
  std::vector<std::uint32_t> counts(4096, 1);
  counts[7] = 0xFFFFFFFEu;
  EXPECT_TRUE(moment_sums(dense(Shape4{{1, 1}, {64, 64}}, counts)));
  // 2^15 * 2^32 * n reaches 2^63 at n = 65537.
  std::vector<std::uint32_t> many(65600, 0xFFFFFFFEu);
  const Volume v = dense(Shape4{{1, 1}, {1, 65600}}, many);
  EXPECT_EQ(weighted_sum(v, *weights_from(std::vector<double>(65600, 1.0), {1, 65600})).error().code,
            Code::invalid_argument);
}

TEST(Detector, AnImageStaysOnADeviceOnlyWhereTheCountsAre) {
  const Volume v = dense(kFourLengths, four_lengths());
  const auto refused = masked_sum_on_device(v, all_pixels({4, 6}));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::unsupported);
  EXPECT_NE(refused.error().message.find("dense on 'cpu'"), std::string::npos) << refused.error().message;
  EXPECT_NE(refused.error().message.find("to_device()"), std::string::npos) << refused.error().message;
  EXPECT_EQ(masked_sum_on_device(v, all_pixels({6, 4})).error().code, Code::invalid_argument);
}

TEST(Detector, C82_ClosedVolumesSaySo) {
  Volume v = dense(kFourLengths, four_lengths());
  v.close();
  EXPECT_EQ(masked_sum(v, all_pixels({4, 6})).error().code, Code::closed);
  EXPECT_EQ(mean_pattern(v).error().code, Code::closed);
  EXPECT_EQ(frame(v, {0, 0}).error().code, Code::closed);
}

TEST(Detector, C90_CancelledBetweenParts) {
  const Volume v = dense(kFourLengths, four_lengths());
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(masked_sum(v, all_pixels({4, 6}), {{}, stop.get_token()}).error().code, Code::cancelled);
}

}  // namespace
}  // namespace quantem
