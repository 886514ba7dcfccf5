// Every bit-sliced operation against the dense reference, bit for bit, over the same counts; and the planner by itself.

#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>

#include "quantem/detector/masked_sum.h"
#include "quantem/detector/mean_pattern.h"
#include "quantem/detector/plan.h"
#include "quantem/detector/slice_kernels.h"
#include "quantem/resident/sliced_encode.h"
#include "tests/support/volumes.h"

namespace quantem {
namespace {

using support::masks_of, support::Twins, support::VolumeCase;

constexpr VolumeCase kRows[] = {
    {{{1, 1}, {1, 1}}, 1, 3, false, false},          {{{1, 7}, {7, 9}}, 2, 0.6, true, true},
    {{{1, 511}, {7, 9}}, 3, 0.6, false, true},       {{{27, 19}, {1, 1}}, 4, 900, false, false},
    {{{3, 5}, {96, 96}}, 5, 0.3, true, false},       {{{2, 3}, {193, 191}}, 6, 2, true, true},
    {{{33, 31}, {33, 40}}, 7, 0.2, true, true},      {{{7, 5}, {1, 64}}, 8, 5, false, false},
    {{{7, 5}, {64, 1}}, 9, 5, true, false},          {{{7, 5}, {13, 11}}, 10, 40, false, true},
    {{{20, 30}, {40, 24}}, 11, 30, true, false},     {{{1, 7}, {7, 9}}, 12, 0.6, true, true, true},
    {{{2, 3}, {193, 191}}, 13, 2, true, true, true}, {{{13, 43}, {45, 70}}, 14, 5, true, false, true},
};

template <class T>
const Twins& volumes(const VolumeCase& row) {  // made once for all tests
  static std::map<std::uint32_t, Twins> made;
  const auto found = made.find(row.seed);
  if (found != made.end()) return found->second;
  return made.emplace(row.seed, *support::make_twins<T>(row, *open_device(Backend::cpu))).first->second;
}

template <class T>
class Sliced : public testing::Test {};
using Counts = testing::Types<std::uint8_t, std::uint16_t, std::uint32_t>;
TYPED_TEST_SUITE(Sliced, Counts);

TYPED_TEST(Sliced, G17_C43_C46_MaskedSumsEqualDense) {
  for (const VolumeCase& row : kRows) {
    const Twins& v = volumes<TypeParam>(row);
    const std::vector<Mask> masks = masks_of(row.shape.det);
    const auto together = masked_sums(v.encoded, masks);
    ASSERT_TRUE(together);
    for (std::size_t m = 0; m < masks.size(); ++m) {
      const auto want = masked_sum_exact(v.dense, masks[m]), got = masked_sum_exact(v.encoded, masks[m]);
      ASSERT_TRUE(want && got);
      EXPECT_EQ(got->provenance.path, "cpu_sliced_masked_sum");
      EXPECT_EQ(want->values, got->values) << "mask " << m << " of " << to_string(row.shape);
      EXPECT_EQ(want->valid, got->valid);
      const auto one = masked_sum(v.dense, masks[m]);
      EXPECT_EQ(std::memcmp(one->values.data(), (*together)[m].values.data(), one->values.size() * 4), 0);
    }
  }
}

TYPED_TEST(Sliced, C53_MomentsEqualDense) {
  for (const VolumeCase& row : kRows) {
    const Twins& v = volumes<TypeParam>(row);
    const std::vector<Mask> masks = masks_of(row.shape.det);
    std::vector<const Mask*> all{nullptr};
    for (const Mask& m : masks) all.push_back(&m);
    for (const Mask* m : all) {
      const auto want = moment_sums(v.dense, m), got = moment_sums(v.encoded, m);
      ASSERT_TRUE(want && got);
      EXPECT_EQ(want->total, got->total) << to_string(row.shape);
      EXPECT_EQ(want->row, got->row) << to_string(row.shape);
      EXPECT_EQ(want->col, got->col) << to_string(row.shape);
    }
    EXPECT_EQ(moment_sums(v.encoded)->path, "cpu_sliced_stored_moments");
  }
}

TYPED_TEST(Sliced, C38_WeightedSumsEqualDense) {
  for (const VolumeCase& row : kRows) {
    const Twins& v = volumes<TypeParam>(row);
    std::mt19937 random(row.seed);
    std::vector<double> w(row.shape.frame_pixels());
    for (double& x : w) x = static_cast<double>(random()) / 4294967296.0 - 0.4;
    w[0] = 0;
    const auto weights = weights_from(w, row.shape.det);
    const auto want = weighted_sum(v.dense, *weights), got = weighted_sum(v.encoded, *weights);
    ASSERT_TRUE(want && got);
    EXPECT_EQ(std::memcmp(want->values.data(), got->values.data(), want->values.size() * 4), 0) << to_string(row.shape);
    const auto m_want = moment_sums_weighted(v.dense, *weights), m_got = moment_sums_weighted(v.encoded, *weights);
    if (!m_want) {
      EXPECT_EQ(m_got.error().code, m_want.error().code);
      continue;
    }
    EXPECT_EQ(m_want->row, m_got->row);
    EXPECT_EQ(m_want->col, m_got->col);
  }
}

TYPED_TEST(Sliced, C49_C51_PatternsEqualDense) {
  for (const VolumeCase& row : kRows) {
    const Twins& v = volumes<TypeParam>(row);
    EXPECT_EQ(sum_pattern(v.dense)->values, sum_pattern(v.encoded)->values);
    EXPECT_EQ(mean_pattern(v.dense)->values, mean_pattern(v.encoded)->values);
    EXPECT_EQ(support::bytes_of(*max_pattern(v.dense)), support::bytes_of(*max_pattern(v.encoded)));
    BitMask members(row.shape.n_positions());
    for (std::uint64_t n = 0; n < members.count(); ++n) members.set(n, n == 0 || (n * 40503 >> 3 & 1));
    const auto set = scan_set(members, row.shape.scan);
    EXPECT_EQ(region_sum(v.dense, *set)->values, region_sum(v.encoded, *set)->values) << to_string(row.shape);
    EXPECT_EQ(region_mean(v.dense, *set)->valid, region_mean(v.encoded, *set)->valid);
    EXPECT_EQ(support::bytes_of(*region_max(v.dense, *set)), support::bytes_of(*region_max(v.encoded, *set)))
        << to_string(row.shape);
  }
}

TYPED_TEST(Sliced, C50_C52_FramesAndStatisticsEqualDense) {
  for (const VolumeCase& row : kRows) {
    const Twins& v = volumes<TypeParam>(row);
    for (const std::uint64_t n : {std::uint64_t{0}, row.shape.n_positions() / 2, row.shape.n_positions() - 1}) {
      const Position at{static_cast<std::uint32_t>(n / row.shape.scan.cols),
                        static_cast<std::uint32_t>(n % row.shape.scan.cols)};
      const auto want = frame(v.dense, at), got = frame(v.encoded, at);
      ASSERT_EQ(want.ok(), got.ok());
      if (!want) continue;
      ASSERT_EQ(want->buffer.n_bytes(), got->buffer.n_bytes());
      EXPECT_EQ(std::memcmp(want->buffer.data(), got->buffer.data(), want->buffer.n_bytes()), 0)
          << to_string(row.shape);
    }
    const auto want = frame_statistics(v.dense), got = frame_statistics(v.encoded);
    EXPECT_EQ(want->total, got->total);
    EXPECT_EQ(want->max, got->max);
    EXPECT_EQ(want->argmax, got->argmax) << to_string(row.shape);
    EXPECT_EQ(want->n_nonzero, got->n_nonzero);
    EXPECT_EQ(want->n_saturated, got->n_saturated);
    EXPECT_EQ(want->total_mean, got->total_mean);
  }
}

TEST(Sliced, C52_StatisticsOfEqualAndOfNarrowCounts) {
  // 600 frames of 9x7. Frame n holds n % 4 everywhere, so that every pixel has the same width and the first valid one the largest count; each
  // fifth frame has one far larger count, in a pixel that moves; each seventh has its only count in the last pixel, the narrowest of all.
  constexpr std::uint32_t kFrames = 600, kPixels = 63;
  std::vector<std::uint16_t> counts(kFrames * kPixels);
  for (std::uint32_t n = 0; n < kFrames; ++n) {
    const auto frame = counts.begin() + n * kPixels;
    std::fill_n(frame, kPixels - 1, static_cast<std::uint16_t>(n % 7 == 0 ? 0 : n % 4));
    frame[kPixels - 1] = 1;
    if (n % 5 == 0) frame[n % kPixels] = static_cast<std::uint16_t>(1000 + n);
  }
  FromArrayOptions o;
  o.representation = Representation::encoded;
  o.valid_pixels = BitMask(kPixels, true);
  o.valid_pixels.set(0, false);
  const auto v = from_array(*open_device(Backend::cpu), {Dtype::u16, {20, 30, 9, 7}, counts.data()}, o);
  ASSERT_TRUE(v);
  const auto got = frame_statistics(*v);
  ASSERT_TRUE(got);
  for (std::uint32_t n = 0; n < kFrames; ++n) {
    const std::span<const std::uint16_t> frame(counts.data() + n * kPixels + 1, kPixels - 1);
    const auto largest = std::max_element(frame.begin(), frame.end());
    ASSERT_EQ(got->max[n], *largest) << n;
    ASSERT_EQ(got->argmax[n], 1 + (largest - frame.begin())) << n;
    ASSERT_EQ(got->n_nonzero[n], frame.size() - static_cast<std::size_t>(std::count(frame.begin(), frame.end(), 0)))
        << n;
  }
}

TEST(Sliced, C13_SaturationOfTheFile) {
  // The file says that counts from 9 on are saturated; 9 has bits where 8 and 16 do not.
  std::vector<std::uint32_t> counts(3 * 64);
  for (std::uint32_t i = 0; i < counts.size(); ++i) counts[i] = i % 20;
  const Twins v = [&] {
    FromArrayOptions o;
    const ArrayView view{Dtype::u32, {1, 3, 8, 8}, counts.data()};
    std::vector<Volume> made;
    for (const Representation r : {Representation::dense, Representation::encoded}) {
      o.representation = r;
      const Volume base = *from_array(*open_device(Backend::cpu), view, o);
      VolumeInfo info = base.info();
      info.saturation = 9;
      if (r == Representation::dense) {
        DenseStorage storage{Buffer(counts.size() * 4)};
        std::memcpy(storage.counts.data(), counts.data(), counts.size() * 4);
        made.emplace_back(info, base.device(), std::move(storage));
      } else {
        made.emplace_back(info, base.device(), *encode_sliced<std::uint32_t>({8, 8}, counts, 3));
      }
    }
    return Twins{made[0], made[1]};
  }();
  const auto dense = frame_statistics(v.dense), sliced = frame_statistics(v.encoded);
  std::vector<std::uint32_t> want(3);
  for (std::uint32_t i = 0; i < counts.size(); ++i) want[i / 64] += counts[i] >= 9;
  EXPECT_EQ(dense->n_saturated, want);
  EXPECT_EQ(sliced->n_saturated, want);
}

TEST(Sliced, EverySimdTargetGivesTheSameIntegers) {
  const VolumeCase& row = kRows[5];
  const Twins& v = volumes<std::uint16_t>(row);
  const std::vector<Mask> masks = masks_of(row.shape.det);
  std::size_t n_targets = 0;
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    ++n_targets;
    for (const Mask& m : masks) {
      EXPECT_EQ(masked_sum_exact(v.dense, m)->values, masked_sum_exact(v.encoded, m)->values)
          << hwy::TargetName(target);
      EXPECT_EQ(moment_sums(v.dense, &m)->row, moment_sums(v.encoded, &m)->row) << hwy::TargetName(target);
      EXPECT_EQ(moment_sums(v.dense, &m)->col, moment_sums(v.encoded, &m)->col) << hwy::TargetName(target);
    }
    EXPECT_EQ(sum_pattern(v.dense)->values, sum_pattern(v.encoded)->values) << hwy::TargetName(target);
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  EXPECT_GE(n_targets, 1u);
}

TEST(Sliced, SumsOfU32PassTwoToThe32) {
  // 192x192 of 2^32 - 2: 158,329,600,868,352 in 48 planes.
  const std::vector<std::uint32_t> counts(2 * 192 * 192, 0xFFFFFFFEu);
  FromArrayOptions o;
  o.representation = Representation::encoded;
  const auto v = from_array(*open_device(Backend::cpu), {Dtype::u32, {1, 2, 192, 192}, counts.data()}, o);
  ASSERT_TRUE(v);
  const std::uint64_t want = 36864 * std::uint64_t{0xFFFFFFFEu};
  EXPECT_EQ(masked_sum_exact(*v, all_pixels({192, 192}))->values, (std::vector<std::uint64_t>{want, want}));
  Mask chess = all_pixels({192, 192});
  for (std::uint64_t p = 0; p < 36864; p += 2) chess.bits.set(p, false);
  EXPECT_EQ(masked_sum_exact(*v, chess)->values[1], want / 2);
  EXPECT_EQ(moment_sums(*v)->row[0], 0xFFFFFFFEull * 192 * (191 * 192 / 2));
}

Region tile4_region(const SlicedLayout& layout, std::uint32_t stream) {
  EXPECT_GE(stream, layout.tile4_stream(0)) << "a moment";
  for (std::uint32_t t = 0; t < layout.n_tiles8; ++t) {
    const Extent n = layout.tiles4_of(t);
    const std::uint32_t i = stream - layout.tile4_stream(layout.first_tile4(t));
    if (i >= n.count()) continue;
    const Region of = layout.tile8_region(t);
    const std::uint32_t row = of.row_start + i / n.cols * 4, col = of.col_start + i % n.cols * 4;
    return {row, std::min(row + 4, of.row_stop), col, std::min(col + 4, of.col_stop)};
  }
  ADD_FAILURE() << "stream " << stream << " is no 4x4 tile";
  return {};
}

// What a plan adds up to, pixel by pixel.
std::vector<int> coverage(const SlicedLayout& layout, const MaskPlan& plan, const BitMask& valid) {
  std::vector<int> out(layout.n_pixels);
  const auto add = [&](const Region& r, int sign) {
    for (std::uint32_t i = r.row_start; i < r.row_stop; ++i)
      for (std::uint32_t j = r.col_start; j < r.col_stop; ++j)
        if (valid[std::uint64_t{i} * layout.det.cols + j]) out[i * layout.det.cols + j] += sign;
  };
  for (std::size_t k = 0; k < plan.terms.size(); ++k) {
    const PlanTerm& t = plan.terms[k];
    if (k) {
      EXPECT_LT(plan.terms[k - 1].stream, t.stream);
    }
    EXPECT_TRUE(t.sign == 1 || t.sign == -1);
    if (t.stream < layout.n_pixels)
      out[layout.pixel_of_stream[t.stream]] += t.sign;
    else if (t.stream < layout.n_pixels + layout.n_tiles8)
      add(layout.tile8_region(t.stream - layout.n_pixels), t.sign);
    else if (t.stream < layout.n_pixels + layout.n_tiles8 + layout.n_tiles32)
      add(layout.tile32_region(t.stream - layout.n_pixels - layout.n_tiles8), t.sign);
    else
      add(tile4_region(layout, t.stream), t.sign);
  }
  return out;
}

StreamCosts even_costs(const SlicedLayout& layout) {
  const std::vector<float> width(layout.n_streams, 2), listed(layout.n_streams, 0);
  return stream_costs(width, listed, {});
}

TEST(Plan, CoversWhatIsAskedAndCostsThePerimeter) {
  const Extent det{192, 192};
  const SlicedLayout layout(det);
  BitMask valid(det.count(), true);
  valid.set(95 * 192 + 95, false);
  const Planner planner(layout, even_costs(layout), valid);
  for (const Mask& m : {*disk({95.5, 95.5}, 30, det), *annulus({95.5, 95.5}, 30, 60, det),
                        *annulus({95.5, 95.5}, 30, 1e9, det), *half_plane({80, 90}, 20, det), all_pixels(det)}) {
    const MaskPlan plan = planner.plan(m.bits);
    const std::vector<int> got = coverage(layout, plan, valid);
    for (std::uint64_t p = 0; p < det.count(); ++p) {
      ASSERT_EQ(got[p], valid[p] && m.bits[p]) << p;
    }
    double cost = 0;
    for (const PlanTerm& t : plan.terms) cost += even_costs(layout).of_stream[t.stream];
    EXPECT_NEAR(plan.cost, cost, 1e-3 * cost + 1e-3);
  }
  EXPECT_EQ(planner.plan(all_pixels(det).bits).terms.size(), 36u);
  // The disc has 2,828 pixels; its plan has less than a third as many streams. The rest of the detector costs little more.
  EXPECT_LT(planner.plan(disk({95.5, 95.5}, 30, det)->bits).terms.size(), 900u);
  EXPECT_LT(planner.plan(annulus({95.5, 95.5}, 30.01, 1e9, det)->bits).cost,
            planner.plan(disk({95.5, 95.5}, 30, det)->bits).cost + 36 * 4);
}

// Odd detectors, bad pixels, masks of every kind, with and without the part to take away.
TEST(Plan, Tiles4CoverWhatIsAskedAndCostLess) {
  for (const Extent det : {Extent{7, 9}, Extent{193, 191}, Extent{96, 96}, Extent{1, 64}}) {
    BitMask valid(det.count(), true);
    for (std::uint64_t p = 5; p < det.count(); p += 97) valid.set(p, false);
    const SlicedLayout layout(det, true), without(det);
    const Planner planner(layout, even_costs(layout), valid), old(without, even_costs(without), valid);
    const std::vector<Mask> masks = masks_of(det);
    for (const Mask& m : masks)
      for (const Mask& other : masks) {
        const MaskPlan plan = planner.plan_change(other.bits, m.bits);
        const std::vector<int> got = coverage(layout, plan, valid);
        for (std::uint64_t p = 0; p < det.count(); ++p)
          ASSERT_EQ(got[p], valid[p] ? static_cast<int>(m.bits[p]) - static_cast<int>(other.bits[p]) : got[p]) << p;
        double cost = 0;
        for (const PlanTerm& t : plan.terms) cost += even_costs(layout).of_stream[t.stream];
        EXPECT_NEAR(plan.cost, cost, 1e-3 * cost + 1e-3);
        EXPECT_LE(plan.cost, old.plan_change(other.bits, m.bits).cost * 1.0001 + 1e-3);
      }
  }
  const Extent det{192, 192};
  const SlicedLayout layout(det, true), without(det);
  const BitMask valid(det.count(), true), disc = disk({95.5, 95.5}, 30, det)->bits;
  EXPECT_LT(Planner(layout, even_costs(layout), valid).plan(disc).cost,
            0.75 * Planner(without, even_costs(without), valid).plan(disc).cost);
}

TEST(Plan, C46_ChangesCoverTheDifference) {
  const Extent det{61, 75};
  const SlicedLayout layout(det);
  const BitMask valid(det.count(), true);
  const Planner planner(layout, even_costs(layout), valid);
  const Mask from = *disk({30, 33}, 20, det), to = *disk({31, 35}, 21, det), far = *annulus({10, 60}, 5, 30, det);
  for (const Mask* next : {&to, &far, &from}) {
    const std::vector<int> got = coverage(layout, planner.plan_change(from.bits, next->bits), valid);
    for (std::uint64_t p = 0; p < det.count(); ++p)
      ASSERT_EQ(got[p], static_cast<int>(next->bits[p]) - static_cast<int>(from.bits[p])) << p;
  }
  EXPECT_TRUE(planner.plan_change(from.bits, from.bits).terms.empty());
  EXPECT_LT(planner.plan_change(from.bits, to.bits).cost, planner.plan(to.bits).cost);
}

}  // namespace
}  // namespace quantem
