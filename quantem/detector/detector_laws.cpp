// What must hold between results, whatever the counts: no reference needed. Every law on both representations.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>

#include "quantem/detector/masked_sum.h"
#include "quantem/detector/mean_pattern.h"
#include "quantem/detector/session.h"

namespace quantem {
namespace {

constexpr Shape4 kShape{{23, 29}, {37, 43}};

std::vector<std::uint16_t> poisson_like(const Shape4& shape, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::uint16_t> counts(shape.n_values());
  const Point c = geometric_center(shape.det);
  for (std::uint64_t i = 0; i < counts.size(); ++i) {
    const std::uint64_t p = i % shape.frame_pixels();
    const double r =
        std::hypot(static_cast<double>(p / shape.det.cols) - c.row, static_cast<double>(p % shape.det.cols) - c.col);
    std::poisson_distribution<int> counted(r < 11 ? 8 : 0.5);
    counts[i] =
        static_cast<std::uint16_t>(random() % 4999 == 0 ? random() : static_cast<std::uint32_t>(counted(random)));
  }
  return counts;
}

class Laws : public testing::TestWithParam<Representation> {
 protected:
  Volume volume(bool missing = true) const {
    const std::vector<std::uint16_t> counts = poisson_like(kShape, 5);
    FromArrayOptions o;
    o.representation = GetParam();
    o.valid_pixels = BitMask(kShape.frame_pixels(), true);
    for (const int p : {0, 400, 777, 1590}) o.valid_pixels.set(static_cast<std::uint64_t>(p), false);
    if (missing) {
      o.valid_positions = BitMask(kShape.n_positions(), true);
      for (const int n : {3, 511, 512, 666}) o.valid_positions.set(static_cast<std::uint64_t>(n), false);
    }
    const auto v = from_array(*open_device(Backend::cpu), {Dtype::u16, {23, 29, 37, 43}, counts.data()}, o);
    EXPECT_TRUE(v);
    return *v;
  }
};
INSTANTIATE_TEST_SUITE_P(Representations, Laws, testing::Values(Representation::dense, Representation::encoded),
                         [](const auto& i) { return std::string(representation_name(i.param)); });

Mask mask_at(Point center, double inner, double outer) {
  return *annulus(center, inner, outer, kShape.det);
}

TEST_P(Laws, C48_DisjointMasksAdd) {
  const Volume v = volume();
  const Mask inner = mask_at({17, 22}, 0, 9.5), ring = mask_at({17, 22}, 9.6, 20);
  Mask both = inner;
  for (std::uint64_t p = 0; p < kShape.frame_pixels(); ++p)
    if (ring.bits[p]) both.bits.set(p);
  const auto a = masked_sum_exact(v, inner), b = masked_sum_exact(v, ring), sum = masked_sum_exact(v, both);
  for (std::uint64_t n = 0; n < sum->values.size(); ++n)
    if (sum->is_valid(n)) {
      EXPECT_EQ(a->values[n] + b->values[n], sum->values[n]) << n;
    }
}

TEST_P(Laws, C47_C48_ComplementMakesTheTotal) {
  const Volume v = volume();
  const Mask m = mask_at({15.5, 20}, 0, 11);
  Mask complement = m;
  complement.bits = ~m.bits;
  const auto a = masked_sum_exact(v, m), b = masked_sum_exact(v, complement),
             all = masked_sum_exact(v, all_pixels(kShape.det));
  for (std::uint64_t n = 0; n < all->values.size(); ++n)
    if (all->is_valid(n)) {
      EXPECT_EQ(a->values[n] + b->values[n], all->values[n]) << n;
    }
}

TEST_P(Laws, C33_BrightAndDarkFieldShareTheEdge) {
  const Volume v = volume();
  const Point c{18, 21};
  const auto bf = masked_sum_exact(v, *disk(c, 5, kShape.det)), df = masked_sum_exact(v, mask_at(c, 5, INFINITY));
  const auto edge = masked_sum_exact(v, [&] {
    Mask m = *disk(c, 5, kShape.det);
    m.bits &= mask_at(c, 5, INFINITY).bits;
    EXPECT_EQ(m.n_selected(), 12u);
    return m;
  }());
  const auto all = masked_sum_exact(v, all_pixels(kShape.det));
  for (std::uint64_t n = 0; n < all->values.size(); ++n)
    if (all->is_valid(n)) {
      EXPECT_EQ(bf->values[n] + df->values[n], all->values[n] + edge->values[n]);
    }
}

TEST_P(Laws, C48_SumOverPositionsIsSumOverTheMask) {
  const Volume v = volume();
  const Mask m = mask_at({17, 22}, 3, 14);
  const auto image = masked_sum_exact(v, m);
  const auto pattern = sum_pattern(v);
  std::uint64_t over_positions = 0, over_pixels = 0;
  for (std::uint64_t n = 0; n < image->values.size(); ++n)
    if (image->is_valid(n)) over_positions += image->values[n];
  for (std::uint64_t p = 0; p < pattern->values.size(); ++p)
    if (m.bits[p]) over_pixels += pattern->values[p];
  EXPECT_EQ(over_positions, over_pixels);
  EXPECT_GT(over_pixels, 0u);
}

TEST_P(Laws, C51_RegionsAddToTheWhole) {
  const Volume v = volume();
  const auto circle = scan_circle({11, 14}, 8, kShape.scan);
  const auto rest = scan_set(~circle->members, kShape.scan);
  const auto a = region_sum(v, *circle), b = region_sum(v, *rest), all = sum_pattern(v);
  for (std::uint64_t p = 0; p < all->values.size(); ++p) EXPECT_EQ(a->values[p] + b->values[p], all->values[p]);
  const auto one = scan_set(Region{4, 5, 7, 8}, kShape.scan);
  const auto f = frame(v, {4, 7});
  const auto alone = region_sum(v, *one);
  for (std::uint64_t p = 0; p < all->values.size(); ++p) EXPECT_EQ(alone->values[p], f->as<std::uint16_t>()[p]);
}

TEST_P(Laws, C38_IntegerWeightsAreExact) {
  const Volume v = volume();
  const Mask a = mask_at({17, 22}, 0, 8), b = mask_at({20, 25}, 4, 15);
  std::vector<double> w(kShape.frame_pixels());
  for (std::uint64_t p = 0; p < w.size(); ++p) w[p] = 3.0 * a.bits[p] - 5.0 * b.bits[p];
  const auto got = weighted_sum(v, *weights_from(w, kShape.det));
  const auto ia = masked_sum_exact(v, a), ib = masked_sum_exact(v, b);
  for (std::uint64_t n = 0; n < got->values.size(); ++n)
    if (got->is_valid(n)) {
      EXPECT_EQ(got->values[n], static_cast<float>(3 * static_cast<std::int64_t>(ia->values[n]) -
                                                   5 * static_cast<std::int64_t>(ib->values[n])));
    }
}

TEST_P(Laws, D05_NoMaskEqualsAllTrue) {
  const Volume v = volume();
  const Mask all = all_pixels(kShape.det);
  const auto none = moment_sums(v), whole = moment_sums(v, &all);
  EXPECT_EQ(none->total, whole->total);
  EXPECT_EQ(none->row, whole->row);
  EXPECT_EQ(none->col, whole->col);
}

TEST(Laws, C30_GeometryIsTranslated) {
  // The same mask, moved: what lies inside both detectors agrees.
  const Extent det{40, 50};
  const Mask a = *annulus({17.3, 22.8}, 4, 11.5, det), b = *annulus({20.3, 27.8}, 4, 11.5, det);
  for (std::uint32_t r = 0; r + 3 < det.rows; ++r)
    for (std::uint32_t c = 0; c + 5 < det.cols; ++c)
      EXPECT_EQ(a.bits[std::uint64_t{r} * det.cols + c], b.bits[std::uint64_t{r + 3} * det.cols + c + 5]);
}

TEST_P(Laws, C46_MovesEqualDirectSums) {
  const Volume v = volume();
  auto session = prepare(v);
  ASSERT_TRUE(session);
  std::mt19937 random(3);
  Point c{15, 20};
  bool incremental = false;
  for (int i = 0; i < 40; ++i) {
    if (i == 20) {  // from here on a large mask may start from the total
      ASSERT_TRUE(session->total());
    }
    const double step = i % 7 == 6 ? 12 : 1;
    c.row += (static_cast<double>(random() % 3) - 1) * step;
    c.col += (static_cast<double>(random() % 3) - 1) * step;
    const Mask m = mask_at(c, i % 5 == 4 ? 6 : 0, i % 11 == 10 ? INFINITY : 9);
    const auto moved = session->move(m), direct = masked_sum(v, m);
    ASSERT_TRUE(moved && direct);
    ASSERT_EQ(std::memcmp(moved->values.data(), direct->values.data(), direct->values.size() * 4), 0) << i;
    EXPECT_EQ(moved->valid, direct->valid);
    incremental |= moved->provenance.path.find("moved_sum") != std::string::npos;
    const auto exact = session->move_exact(m);
    EXPECT_EQ(exact->values, masked_sum_exact(v, m)->values);
  }
  EXPECT_TRUE(incremental);
  EXPECT_FALSE(session->move(all_pixels({3, 3})));
}

TEST_P(Laws, C89_OneSessionManyThreads) {
  const Volume v = volume();
  auto session = prepare(v);
  std::vector<std::thread> threads;
  std::vector<int> wrong(3);
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 6; ++i) {
        const Mask m = mask_at({10.0 + t + i, 20}, 0, 6 + t);
        wrong[t] += session->move_exact(m)->values != masked_sum_exact(v, m)->values;
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, std::vector<int>(3));
}

TEST_P(Laws, C47_SessionComputesOnce) {
  const Volume v = volume();
  auto session = prepare(v);
  EXPECT_EQ(session->total()->values, masked_sum_exact(v, all_pixels(kShape.det))->values);
  EXPECT_EQ(session->sum_pattern()->values, sum_pattern(v)->values);
  const auto probe = session->probe();
  ASSERT_TRUE(probe) << probe.error().message;
  EXPECT_NEAR(probe->center.row, 18, 0.2);
  EXPECT_NEAR(probe->radius, 11, 0.5);
  const auto bf = session->band(Band::bf);
  const auto want = masked_sum(v, *band(Band::bf, *probe, kShape.det));
  EXPECT_EQ(std::memcmp(bf->values.data(), want->values.data(), want->values.size() * 4), 0);
  EXPECT_EQ(bf->provenance.probe->radius_origin, "measured");
  // C72: what was there already says so, and is the same otherwise.
  const auto is_cached = [](const Provenance& p) {
    return std::find(p.evidence.begin(), p.evidence.end(), "cached") != p.evidence.end();
  };
  auto fresh = prepare(v);
  for (const bool second : {false, true}) {
    EXPECT_EQ(is_cached(fresh->total()->provenance), second);
    EXPECT_EQ(is_cached(fresh->sum_pattern()->provenance), second);
    EXPECT_EQ(is_cached(fresh->mean_pattern()->provenance), second);
  }
  EXPECT_EQ(fresh->total()->values, session->total()->values);
  auto given = prepare(v, {{Point{18, 21}, 10.0}});
  EXPECT_EQ(given->probe()->center_origin, Origin::caller);
}

}  // namespace
}  // namespace quantem
