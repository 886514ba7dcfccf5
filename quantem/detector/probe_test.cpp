// The bright-field disc: found where there is one, refused with its reason where there is none.

#include "quantem/detector/probe.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace quantem {
namespace {

Pattern<double> flat(Extent det, double value) {
  Pattern<double> p;
  p.extent = det;
  p.values.assign(det.count(), value);
  return p;
}
Pattern<double> disc(Extent det, Point center, double radius, double inside, double outside) {
  Pattern<double> p = flat(det, outside);
  const Mask m = *disk(center, radius, det);
  for (std::uint64_t i = 0; i < det.count(); ++i)
    if (m.bits[i]) p.values[i] = inside;
  return p;
}
BitMask all(Extent det) {
  return BitMask(det.count(), true);
}
std::string reason(const Pattern<double>& p) {
  const auto r = auto_probe(p, all(p.extent));
  if (r) return "found";
  EXPECT_EQ(r.error().code, Code::undetermined);
  EXPECT_NE(r.error().message.find("pass center=(row, col) and radius="), std::string::npos);
  const std::string& m = r.error().message;
  const auto from = m.find('(') + 1;
  return m.substr(from, m.find_first_of(" :;)", from) - from);
}

TEST(Probe, C42_V13_DiscOnBackground) {
  const auto p = auto_probe(disc({64, 64}, {20, 40}, 8, 100, 3), all({64, 64}));
  ASSERT_TRUE(p) << p.error().message;
  EXPECT_EQ(p->center, (Point{20, 40}));
  EXPECT_EQ(p->area, 197u);
  EXPECT_NEAR(p->radius, 7.9188, 5e-5);
  EXPECT_EQ(p->radius, std::sqrt(197 / std::numbers::pi));
  EXPECT_EQ(p->plateau, 100.0);
}

TEST(Probe, V13_BackgroundDoesNotPullTheCentre) {
  // A tail that falls towards one side: the plain centre of mass moves, the disc's does not.
  Pattern<double> p = disc({64, 64}, {20, 40}, 8, 100, 3);
  double mass = 0, row = 0;
  for (std::uint32_t r = 0; r < 64; ++r)
    for (std::uint32_t c = 0; c < 64; ++c) {
      p.at(r, c) += 0.2 * r;
      mass += p.at(r, c);
      row += r * p.at(r, c);
    }
  EXPECT_GT(std::abs(row / mass - 20), 5);
  const auto found = auto_probe(p, all({64, 64}));
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_NEAR(found->center.row, 20, 0.1);
  EXPECT_NEAR(found->center.col, 40, 0.1);
  EXPECT_NEAR(found->radius, 8, 0.5);
}

TEST(Probe, C39_HotAndBadPixelsDoNotCount) {
  Pattern<double> p = disc({64, 48}, {30, 20.5}, 9, 50, 1);
  const auto clean = auto_probe(p, all({64, 48}));
  ASSERT_TRUE(clean);
  p.at(3, 3) = p.at(3, 4) = 1e6;  // a pair of hot pixels
  p.at(60, 40) = 1e7;             // and a lone one
  const auto hot = auto_probe(p, all({64, 48}));
  ASSERT_TRUE(hot) << hot.error().message;
  EXPECT_EQ(hot->center, clean->center);
  EXPECT_EQ(hot->area, clean->area);
  BitMask valid = all({64, 48});
  for (std::uint32_t r = 28; r < 33; ++r)
    for (std::uint32_t c = 18; c < 23; ++c) {  // a dead module inside the disc, filled from its edge in three passes
      valid.set(r * 48 + c, false);
      p.at(r, c) = 0;
    }
  const auto bad = auto_probe(p, valid);
  ASSERT_TRUE(bad) << bad.error().message;
  EXPECT_EQ(bad->area, clean->area);
}

TEST(Probe, C39_HolesAreFilled) {
  Pattern<double> p = disc({64, 64}, {31, 33}, 12, 80, 2);
  const auto clean = auto_probe(p, all({64, 64}));
  for (std::uint32_t r = 29; r < 34; ++r)
    for (std::uint32_t c = 31; c < 36; ++c) p.at(r, c) = 3;
  const auto holed = auto_probe(p, all({64, 64}));
  ASSERT_TRUE(holed) << holed.error().message;
  EXPECT_EQ(holed->area, clean->area);
  EXPECT_EQ(holed->center, clean->center);
}

TEST(Probe, C40_ReasonsForNoDisc) {
  EXPECT_EQ(reason(flat({32, 32}, 7)), "flat");
  EXPECT_EQ(reason(flat({32, 32}, 0)), "flat");
  EXPECT_EQ(reason(flat({1, 1}, 3)), "flat");
  Pattern<double> small = flat({32, 32}, 0);
  small.at(8, 8) = small.at(8, 9) = small.at(9, 8) = 5;
  EXPECT_EQ(reason(small), "too_small");
  EXPECT_EQ(reason(disc({192, 192}, {20, 96}, 30, 10, 1)), "cut_off");
  Pattern<double> square = flat({64, 64}, 1);
  for (std::uint32_t r = 10; r < 20; ++r)
    for (std::uint32_t c = 10; c < 50; ++c) square.at(r, c) = 90;
  EXPECT_EQ(reason(square), "not_a_disc");
  Pattern<double> ring = disc({64, 64}, {32, 32}, 20, 50, 1);
  const Mask hole = *disk({32, 32}, 12, {64, 64});
  for (std::uint64_t i = 0; i < 64 * 64; ++i)
    if (hole.bits[i]) ring.values[i] = 1;
  EXPECT_EQ(reason(ring), "not_a_disc");
  const auto cut = auto_probe(disc({192, 192}, {20, 96}, 30, 10, 1), all({192, 192}));
  EXPECT_NE(cut.error().message.find("cut_off at row 0; candidate (2"), std::string::npos) << cut.error().message;
}

TEST(Probe, C41_TheCallerReplacesOneValueOnly) {
  const Pattern<double> p = disc({64, 64}, {20, 40}, 8, 100, 3);
  const auto moved = find_probe(p, all({64, 64}), {Point{21, 41}, {}});
  EXPECT_EQ(moved->center, (Point{21, 41}));
  EXPECT_EQ(moved->area, 197u);
  EXPECT_EQ(moved->center_origin, Origin::caller);
  EXPECT_EQ(moved->radius_origin, Origin::measured);
  const auto both = find_probe(flat({8, 8}, 1), all({8, 8}), {Point{3, 3}, 2.0});  // no disc needed
  ASSERT_TRUE(both);
  EXPECT_EQ(both->radius, 2.0);
  EXPECT_FALSE(find_probe(p, all({64, 64}), {{}, -1.0}));
}

TEST(Probe, C34_Bands) {
  const Probe probe{{96, 96}, 30, 0, 0, Origin::caller, Origin::caller};
  const Extent det{192, 192};
  EXPECT_EQ(band(Band::bf, probe, det)->n_selected(), 2821u);
  EXPECT_EQ(band(Band::adf, probe, det)->n_selected(), 8480u);
  EXPECT_EQ(band(Band::df, probe, det)->n_selected(), 34055u);
  EXPECT_EQ(band(Band::abf, probe, det)->bits, annulus({96, 96}, 15, 30, det)->bits);
  EXPECT_EQ(band(Band::haadf, probe, det)->bits, annulus({96, 96}, 60, 120, det)->bits);
  EXPECT_EQ(*parse_band("haadf"), Band::haadf);
  EXPECT_FALSE(parse_band("sadf"));
}

TEST(Probe, C35_UnitsOfRadii) {
  Calibration c;
  EXPECT_EQ(*to_pixels(12.5, RadiusUnit::px, c, {}), 12.5);
  EXPECT_EQ(*to_pixels(2, RadiusUnit::R, c, 30), 60);
  const auto unknown = to_pixels(20, RadiusUnit::mrad, c, 30);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().message,
            "semiangle_mrad is unknown: pass it, set calibration.semiangle_mrad, or use unit='px'");
  c.semiangle_mrad.value = 20;
  EXPECT_EQ(*to_pixels(40, RadiusUnit::mrad, c, 30), 60);
  EXPECT_FALSE(to_pixels(1, RadiusUnit::per_A, c, 30));
  c.voltage_kV.value = 300;
  EXPECT_NEAR(*to_pixels(1.0159, RadiusUnit::per_A, c, 30), 30, 1e-3);
  c.det_sampling_mrad = {Pair{0.5, 0.5}, "mrad", Origin::caller, ""};  // the sampling goes before the semiangle
  EXPECT_EQ(*to_pixels(40, RadiusUnit::mrad, c, 30), 80);
  c.det_sampling_mrad.value = Pair{0.5, 0.6};
  EXPECT_EQ(to_pixels(40, RadiusUnit::mrad, c, 30).error().code, Code::unsupported);
  for (const char* name : {"A^-1", "1/A", "\xc3\x85\xe2\x81\xbb\xc2\xb9"})
    EXPECT_EQ(*parse_radius_unit(name), RadiusUnit::per_A);
  EXPECT_FALSE(parse_radius_unit("furlong"));
}

TEST(Probe, C42_SamplingFromTheSemiangle) {
  const Known<Pair> s = det_sampling_from_probe(21.4, {{0, 0}, 30, 0, 0, Origin::measured, Origin::measured});
  EXPECT_EQ(s.value->row, 21.4 / 30);
  EXPECT_EQ(s.origin, Origin::derived);
}

}  // namespace
}  // namespace quantem
