// The simulator's parts against closed forms and published vectors, and the whole against the rules that any such data obey.

#include "quantem/simulate/simulate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "quantem/simulate/random.h"

namespace quantem {
namespace {

TEST(Optics, O3_ChiOfDefocusAndAstigmatism) {
  const double lambda = electron_wavelength_A(300);
  EXPECT_NEAR(chi(0.5, -0.3, lambda, {{1, 0, -60, 0}, {1, 2, 18, -11}}), -0.879508007, 1e-9);
}

TEST(Optics, O4_ChiWithComaThreefoldAndSpherical) {
  const double lambda = electron_wavelength_A(300);
  const Aberrations all{{1, 0, -60, 0}, {1, 2, 18, -11}, {2, 1, 3000, -2000}, {2, 3, 1500, 500}, {3, 0, 1e4, 0}};
  EXPECT_NEAR(chi(0.5, -0.3, lambda, all), -0.378582626, 1e-9);
}

TEST(Optics, KeysCarryTheirUnit) {
  const auto parsed = parse_aberrations("C10_nm=-6, C12_A=20 phi12_deg=45 C21a_nm=300 C30_um=1");
  ASSERT_TRUE(parsed) << parsed.error().message;
  ASSERT_EQ(parsed->size(), 4u);
  EXPECT_DOUBLE_EQ((*parsed)[0].a_A, -60);
  EXPECT_NEAR((*parsed)[1].a_A, 0, 1e-14);
  EXPECT_NEAR((*parsed)[1].b_A, 20, 1e-14);
  EXPECT_EQ((*parsed)[2], (Aberration{2, 1, 3000, 0}));
  EXPECT_EQ((*parsed)[3], (Aberration{3, 0, 1e4, 0}));
  EXPECT_EQ(to_string(Aberrations{{1, 0, -60, 0}, {1, 2, 18, -11}}), "C10_A=-60 C12a_A=18 C12b_A=-11");
  for (const char* bad :
       {"C10=-6", "C10_px=1", "C11_nm=1", "C10_nm", "C10_nm=x", "C12a_nm=1 C12_nm=2", "D10_nm=1", "C9_nm=1"})
    EXPECT_FALSE(parse_aberrations(bad)) << bad;
}

TEST(Random, PhiloxKnownAnswers) {
  // Of the algorithm's own test set: counter and key all zero, all one bits, digits of pi.
  using Block = std::array<std::uint32_t, 4>;
  EXPECT_EQ(philox_4x32({0, 0, 0, 0}, {0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox_4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}), (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox_4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, PoissonHasItsMeanAndVariance) {
  for (const double mean : {0.01, 0.7, 3.0, 9.99, 10.0, 47.0, 1234.5}) {
    const int n = 40000;
    double sum = 0, squares = 0;
    for (int i = 0; i < n; ++i) {
      const UniformPair u = uniform_pair(5, 3, static_cast<std::uint64_t>(i), 0);
      const double k = poisson(mean, u.first, 5, 3, static_cast<std::uint64_t>(i));
      sum += k;
      squares += (k - mean) * (k - mean);
    }
    EXPECT_NEAR(sum / n, mean, 5 * std::sqrt(mean / n)) << mean;
    // Var of (k - mean)^2 is mean + 2 mean^2.
    EXPECT_NEAR(squares / n, mean, 5 * std::sqrt((mean + 2 * mean * mean) / n)) << mean;
  }
  EXPECT_EQ(poisson(0, 0.999, 1, 1, 1), 0u);
}

TEST(PackedCounts, ComeBackAtEveryWidthAndTail) {
  const std::uint64_t n = 1300;
  PackedCounts packed(n, 4);
  std::vector<std::vector<std::uint32_t>> truth(4, std::vector<std::uint32_t>(n));
  for (std::uint64_t i = 0; i < n; ++i) {
    truth[1][i] = i % 7 == 0;
    truth[2][i] = static_cast<std::uint32_t>(i * 2654435761u) >> (i / 512 * 7);
    truth[3][i] = static_cast<std::uint32_t>(i * 40503u) & 0x1FFF;
  }
  for (std::uint32_t p = 0; p < 4; ++p) packed.set_pixel(p, truth[p]);
  for (std::uint32_t p = 0; p < 4; ++p)
    for (std::uint64_t i = 0; i < n; ++i) ASSERT_EQ(packed.at(i, p), truth[p][i]) << p << " " << i;
  EXPECT_LT(packed.resident_bytes(), 4 * n * 4);
}

SimulateOptions small() {
  SimulateOptions o;
  o.scan = {13, 16};
  o.det = {22, 18};
  o.scan_step_A = {0.4, 0.35};
  o.det_step_mrad = {4.5, 4.0};
  o.rotation_deg = 33;
  o.aberrations = {{1, 0, -40, 0}};
  return o;
}

TEST(Simulate, FramesSumToOneAndTheScanMeanShowsTheDisc) {
  SimulateOptions o = small();
  o.specimen = Specimen{{{0.3, 0.4, 1}, {0.7, 0.2, 0.5}}, 0.5, 0.2, 1.0};
  const auto s = simulate(o);
  ASSERT_TRUE(s) << s.error().message;
  EXPECT_EQ(s->dtype, Dtype::f32);
  const auto array = s->to_array();
  ASSERT_TRUE(array);
  const std::span<const float> v = array->as<float>();
  for (std::uint64_t i = 0; i < s->shape.n_positions(); ++i) {
    double sum = 0;
    for (std::uint64_t p = 0; p < s->shape.frame_pixels(); ++p) sum += v[i * s->shape.frame_pixels() + p];
    EXPECT_NEAR(sum, 1, 0.01);
  }
  EXPECT_NEAR(*std::max_element(s->phase_rad.begin(), s->phase_rad.end()), 0.2, 1e-15);
  EXPECT_NEAR(std::accumulate(s->phase_rad.begin(), s->phase_rad.end(), 0.0), 0, 1e-12);
}

TEST(Simulate, CountsDependOnTheSeedAndOnNothingElse) {
  SimulateOptions o = small();
  o.dose = 500;
  o.threads = 1;
  const auto one = simulate(o);
  ASSERT_TRUE(one) << one.error().message;
  o.threads = 3;
  const auto three = simulate(o);
  ASSERT_TRUE(three);
  o.seed = 2;
  const auto other = simulate(o);
  ASSERT_TRUE(other);
  const auto a = *one->to_array(), b = *three->to_array(), c = *other->to_array();
  EXPECT_EQ(a.dtype, Dtype::u16);
  EXPECT_TRUE(std::ranges::equal(a.as<std::uint16_t>(), b.as<std::uint16_t>()));
  EXPECT_FALSE(std::ranges::equal(a.as<std::uint16_t>(), c.as<std::uint16_t>()));
  std::uint64_t sum = 0;
  for (const std::uint16_t x : a.as<std::uint16_t>()) sum += x;
  const double expected = 500.0 * 13 * 16;
  EXPECT_NEAR(static_cast<double>(sum), expected, 0.01 * expected + 5 * std::sqrt(expected));
}

TEST(Simulate, RefusesWhatCannotBeByName) {
  SimulateOptions o = small();
  o.semiangle_mrad = 0;
  EXPECT_NE(simulate(o).error().message.find("semiangle_mrad"), std::string::npos);
  o = small();
  o.dose = 1e9;
  EXPECT_NE(simulate(o).error().message.find("uint16 holds 65535"), std::string::npos);
  o = small();
  o.center_px = Point{1000, 1000};
  EXPECT_NE(simulate(o).error().message.find("aperture"), std::string::npos);
  o = small();
  o.aberrations = {{1, 1, 5, 0}};
  EXPECT_FALSE(simulate(o));
  o = small();
  o.phase_rad.resize(3);
  EXPECT_NE(simulate(o).error().message.find("phase_rad has 3"), std::string::npos);
  const auto s = simulate(small());
  ASSERT_TRUE(s);
  std::vector<std::byte> wrong(7);
  EXPECT_FALSE(s->frame(0, wrong));
}

TEST(Simulate, CancelledIsAnErrorAndProgressEnds) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(simulate(small(), Job{{}, stop.get_token()}).error().code, Code::cancelled);
  std::uint64_t last = 0;
  ASSERT_TRUE(simulate(small(), Job{[&](const Progress& p) { last = p.done; }, {}}));
  EXPECT_EQ(last, 22u * 18);
}

}  // namespace
}  // namespace quantem
