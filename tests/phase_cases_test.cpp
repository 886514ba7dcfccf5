// Cases that users of other programs ran into, with the answer each must have: integration, empty frames, lines, signs.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>

#include "quantem/dpc/dpc.h"

namespace quantem {
namespace {

constexpr double kPi = std::numbers::pi;

Volume volume_of(const Dtype dtype, const void* counts, const Shape4& s,
                 Representation representation = Representation::dense, const BitMask& valid_positions = {}) {
  FromArrayOptions options;
  options.representation = representation;
  options.valid_positions = valid_positions;
  auto volume = from_array(*open_device(Backend::cpu),
                           {dtype, {s.scan.rows, s.scan.cols, s.det.rows, s.det.cols}, counts}, options);
  EXPECT_TRUE(volume) << volume.error().message;
  return *volume;
}

ComField field_of(Extent scan, const std::function<Point(double, double)>& g) {
  ComField f;
  f.scan = scan;
  f.valid = BitMask(scan.count(), true);
  for (std::uint32_t r = 0; r < scan.rows; ++r)
    for (std::uint32_t c = 0; c < scan.cols; ++c) {
      const Point p = g(r, c);
      f.row.push_back(p.row);
      f.col.push_back(p.col);
    }
  return f;
}

// A million counts on 5x5 whose centre of mass is (2 + g.row, 2 + g.col) to 2e-6: the deflection sits two pixels off the middle.
void deflected_frame(Point g, std::uint32_t* frame) {
  const std::uint32_t total = 1000000;
  const auto r = static_cast<std::uint32_t>(std::lround(std::abs(g.row) / 2 * total));
  const auto c = static_cast<std::uint32_t>(std::lround(std::abs(g.col) / 2 * total));
  frame[(g.row > 0 ? 4 : 0) * 5 + 2] += r;
  frame[2 * 5 + (g.col > 0 ? 4 : 0)] += c;
  frame[12] += total - r - c;
}
std::vector<std::uint32_t> deflected_counts(Extent scan, const std::function<Point(double, double)>& g) {
  std::vector<std::uint32_t> counts(scan.count() * 25);
  for (std::uint32_t i = 0; i < scan.rows; ++i)
    for (std::uint32_t j = 0; j < scan.cols; ++j)
      deflected_frame(g(i, j), counts.data() + (std::uint64_t{i} * scan.cols + j) * 25);
  return counts;
}

DpcOptions as_gradient() {
  DpcOptions o;
  o.rotation_deg = 0;
  o.units = IdpcUnits::gradient;
  return o;
}

TEST(PhaseCases, D01_RectangularPeriodicGrid) {
  const Extent scan{12, 20};
  const auto phi = [](double i, double j) {
    return std::sin(2 * kPi * 2 * i / 12) + 0.5 * std::cos(2 * kPi * 3 * j / 20);
  };
  const auto counts = deflected_counts(scan, [](double i, double j) {
    return Point{kPi / 3 * std::cos(2 * kPi * 2 * i / 12), -0.15 * kPi * std::sin(2 * kPi * 3 * j / 20)};
  });
  const Volume v = volume_of(Dtype::u32, counts.data(), {scan, {5, 5}});
  const auto result = run_dpc(v, as_gradient());
  ASSERT_TRUE(result) << result.error().message;
  for (std::uint32_t i = 0; i < 12; ++i)
    for (std::uint32_t j = 0; j < 20; ++j) EXPECT_NEAR(result->phase.at(i, j), phi(i, j), 1e-5);
  EXPECT_NEAR(result->phase.at(1, 2), 0.711517, 1e-5);
  EXPECT_NEAR(result->phase.at(3, 0), 0.5, 1e-5);
  DpcOptions exchanged = as_gradient();
  exchanged.transpose = true;
  const auto wrong = run_dpc(v, exchanged);
  double largest = 0;
  for (std::uint32_t i = 0; i < 12; ++i)
    for (std::uint32_t j = 0; j < 20; ++j) largest = std::max(largest, std::abs(wrong->phase.at(i, j) - phi(i, j)));
  EXPECT_GT(largest, 1.3);
}

TEST(PhaseCases, D02_ConstantDeflectionIsFlat) {
  for (const Point p : {Point{0.3, -0.2}, Point{0, 0}}) {
    const Extent scan{9, 14};
    const auto counts = deflected_counts(scan, [&](double, double) { return p; });
    const Volume v = volume_of(Dtype::u32, counts.data(), {scan, {5, 5}});
    for (const auto units : {IdpcUnits::relative, IdpcUnits::gradient})
      for (const auto boundary : {Boundary::periodic, Boundary::mirror, Boundary::zeropad}) {
        DpcOptions o = as_gradient();
        o.units = units;
        o.boundary = boundary;
        const auto result = run_dpc(v, o);
        ASSERT_TRUE(result);
        for (const float x : result->phase.values) EXPECT_LT(std::abs(x), 1e-6);
      }
    // No angle fits better than another: said, not guessed.
    EXPECT_EQ(run_dpc(v).error().code, Code::undetermined);
  }
  // Not descanned: finite all the same, and periodic shows no ramp.
  const auto phase = integrate(field_of({9, 14}, [](double, double) { return Point{0.3, -0.2}; }));
  ASSERT_TRUE(phase);
  for (const double x : phase->values) EXPECT_LT(std::abs(x), 1e-12);
}

TEST(PhaseCases, D03_NotPeriodicAndNothingAddedByDefault) {
  const auto phi = [](double j) { return (j - 7.5) / 8 * (j - 7.5) / 8; };
  const ComField g = field_of({16, 16}, [](double, double j) { return Point{0, (j - 7.5) / 32}; });
  IntegrateOptions options;
  options.units = IdpcUnits::gradient;
  const auto phase = integrate(g, options);
  ASSERT_TRUE(phase);
  double mean = 0, error = 0, signal = 0;
  for (int j = 0; j < 16; ++j) mean += phi(j) / 16;
  for (std::uint32_t i = 0; i < 16; ++i)
    for (std::uint32_t j = 0; j < 16; ++j) {
      error += std::pow(phase->at(i, j) - (phi(j) - mean), 2) / 256;
      signal += std::pow(phi(j) - mean, 2) / 256;
    }
  EXPECT_NEAR(std::sqrt(error), 0.01211, 1e-5);
  EXPECT_NEAR(std::sqrt(signal), 0.29523, 1e-5);
  const std::string plain = to_json(phase->provenance);
  EXPECT_NE(plain.find("\"boundary\":\"periodic\""), std::string::npos);
  EXPECT_NE(plain.find("\"highpass\":null"), std::string::npos);
  options.boundary = Boundary::mirror;
  options.highpass = 0.01;
  const std::string named = to_json(integrate(g, options)->provenance);
  EXPECT_NE(named.find("\"boundary\":\"mirror\""), std::string::npos);
  EXPECT_NE(named.find("\"highpass\":0.01"), std::string::npos);
  EXPECT_NE(named.find("filtered"), std::string::npos);
}

TEST(PhaseCases, D05_NoMaskAndAnAllTrueMaskAreOne) {
  const Shape4 s{{6, 7}, {5, 8}};
  std::vector<std::uint16_t> counts(s.n_values());
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i] = static_cast<std::uint16_t>(i * 2654435761u >> 20);
  const Volume v = volume_of(Dtype::u16, counts.data(), s);
  const Mask all = all_pixels(s.det);
  DpcOptions with;
  with.mask = &all;
  const auto a = run_dpc(v), b = run_dpc(v, with);
  ASSERT_TRUE(a) << a.error().message;
  ASSERT_TRUE(b);
  EXPECT_EQ(a->phase.values, b->phase.values);
  EXPECT_EQ(a->com_row.values, b->com_row.values);
  EXPECT_EQ(a->com_col_aligned.values, b->com_col_aligned.values);
  EXPECT_EQ(a->rotation.rotation_deg, b->rotation.rotation_deg);
  EXPECT_EQ(a->phase.provenance.mask.sha256, b->phase.provenance.mask.sha256);
}

TEST(PhaseCases, V08_OneEmptyFrameStaysWhereItIs) {
  const Shape4 s{{3, 3}, {8, 8}};
  std::vector<std::uint16_t> counts(s.n_values());
  for (std::uint64_t n = 0; n < 9; ++n)
    if (n != 4) counts[n * 64 + 2 * 8 + 5] = 10;
  const Volume v = volume_of(Dtype::u16, counts.data(), s);
  const auto maps = center_of_mass(v);
  ASSERT_TRUE(maps);
  for (std::uint64_t n = 0; n < 9; ++n) {
    EXPECT_EQ(maps->valid[n], n != 4);
    if (n == 4) {
      EXPECT_TRUE(std::isnan(maps->row.values[n]) && std::isnan(maps->col.values[n]));
      continue;
    }
    EXPECT_EQ(maps->row.values[n], 2);
    EXPECT_EQ(maps->col.values[n], 5);
  }
  DpcOptions o;
  o.rotation_deg = 0;
  const auto result = run_dpc(v, o);
  ASSERT_TRUE(result);
  for (std::uint64_t n = 0; n < 9; ++n) {
    if (n == 4)
      EXPECT_TRUE(std::isnan(result->com_row.values[n]));
    else
      EXPECT_EQ(result->com_row.values[n], 0);
    EXPECT_TRUE(std::isfinite(result->phase.values[n]));
  }
  EXPECT_EQ(result->filled, 1u);
}

TEST(PhaseCases, V11_NotANumberHarmsItsOwnPositionOnly) {
  const Shape4 s{{3, 4}, {3, 3}};
  std::vector<float> counts(s.n_values(), 1.0f);
  for (std::uint64_t n = 0; n < 12; ++n) counts[n * 9 + n % 9] += 2;
  counts[3 * 9 + 4] = std::numeric_limits<float>::quiet_NaN();
  counts[5 * 9] = std::numeric_limits<float>::infinity();
  DpcOptions o;
  o.rotation_deg = 0;
  const auto result = run_dpc(volume_of(Dtype::f32, counts.data(), s), o);
  ASSERT_TRUE(result) << result.error().message;
  for (std::uint64_t n = 0; n < 12; ++n) {
    EXPECT_EQ(std::isnan(result->com_row.values[n]), n == 3 || n == 5) << n;
    EXPECT_TRUE(std::isfinite(result->phase.values[n]));
  }
  EXPECT_EQ(result->filled, 2u);
}

TEST(PhaseCases, G07_MissingPositionsAreNotReadAsNoDeflectionInSilence) {
  const Shape4 s{{5, 5}, {2, 2}};
  std::vector<std::uint16_t> counts(s.n_values());
  BitMask present(25, true);
  for (std::uint64_t n = 0; n < 25; ++n) {
    if (n >= 23) present.set(n, false);
    for (std::uint64_t p = 0; p < 4; ++p) counts[n * 4 + p] = static_cast<std::uint16_t>(n >= 23 ? 0 : n + 1);
  }
  const Volume v = volume_of(Dtype::u16, counts.data(), s, Representation::dense, present);
  const auto maps = center_of_mass(v);
  ASSERT_TRUE(maps);
  EXPECT_EQ(maps->row.values[22], 0.5f);
  EXPECT_TRUE(std::isnan(maps->row.values[23]) && std::isnan(maps->col.values[24]));
  DpcOptions o;
  o.rotation_deg = 0;
  const auto result = run_dpc(v, o);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->filled, 2u);
  EXPECT_FALSE(result->valid[23]);
  bool said = false;
  for (const std::string& w : result->phase.provenance.warnings)
    said |= w.find("2 of 25 positions") != std::string::npos;
  EXPECT_TRUE(said);
  EXPECT_NE(to_json(result->phase.provenance).find("\"incomplete\""), std::string::npos);
  EXPECT_TRUE(std::isnan(result->com_row.values[23]));
  for (const float x : result->phase.values) EXPECT_TRUE(std::isfinite(x));
}

TEST(PhaseCases, G08_LinesAndASinglePosition) {
  for (const Extent scan : {Extent{1, 7}, Extent{7, 1}, Extent{1, 1}}) {
    const Shape4 s{scan, {8, 8}};
    std::vector<std::uint16_t> counts(s.n_values());
    for (std::uint64_t n = 0; n < scan.count(); ++n) counts[n * 64 + n * 8 + 7 - n] = 3;
    const Volume v = volume_of(Dtype::u16, counts.data(), s);
    const auto maps = center_of_mass(v);
    ASSERT_TRUE(maps);
    for (std::uint64_t n = 0; n < scan.count(); ++n) {
      EXPECT_EQ(maps->row.values[n], static_cast<float>(n));
      EXPECT_EQ(maps->col.values[n], static_cast<float>(7 - n));
    }
    const auto descanned = descan(*maps);
    ASSERT_TRUE(descanned);
    for (const float x : descanned->row.values) EXPECT_TRUE(std::isfinite(x));
    const auto refused = run_dpc(v);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::invalid_argument);
    EXPECT_NE(refused.error().message.find("two dimensions"), std::string::npos);
    EXPECT_EQ(find_rotation(*maps).error().code, Code::undetermined);
  }
}

TEST(PhaseCases, G10_SignAndFlipOfTheDeflection) {
  const Extent scan{16, 16};
  const auto gradient = [](double i, double j) {
    const double x = i - 8, y = j - 8, e = std::exp(-(x * x + y * y) / 8);
    return Point{-x / 4 * e, -y / 4 * e};
  };
  // What the detector sees, and the setting that undoes it (up to half a turn).
  struct Seen {
    const char* what;
    std::function<Point(Point)> turn;
    double rotation_deg;
    bool transpose;
  };
  const Seen seen[] = {{"as it is", [](Point p) { return p; }, 0, false},
                       {"rows flipped",
                        [](Point p) {
                          return Point{-p.row, p.col};
                        },
                        90, true},
                       {"exchanged",
                        [](Point p) {
                          return Point{p.col, p.row};
                        },
                        0, true},
                       {"turned by 180",
                        [](Point p) {
                          return Point{-p.row, -p.col};
                        },
                        0, false}};
  for (const Seen& s : seen) {
    const auto counts = deflected_counts(scan, [&](double i, double j) { return s.turn(gradient(i, j)); });
    const Volume v = volume_of(Dtype::u32, counts.data(), {scan, {5, 5}});
    const auto found = run_dpc(v);
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_LT(std::abs(std::remainder(found->rotation.rotation_deg - s.rotation_deg, 180.0)), 0.01) << s.what;
    EXPECT_EQ(found->rotation.transpose, s.transpose) << s.what;
    EXPECT_EQ(found->rotation.polarity, Polarity::undetermined);
    bool said = false;
    for (const std::string& w : found->provenance.warnings) said |= w.find("give polarity=") != std::string::npos;
    EXPECT_TRUE(said) << s.what;
    // The physical choice: atoms are bright. Then the peak is positive, and half a turn away it is a trough.
    DpcOptions o;
    o.polarity = Polarity::skewness;
    const auto bright = run_dpc(v, o);
    ASSERT_TRUE(bright);
    const auto peak = [](const DpcResult& r) {
      const auto largest = std::max_element(r.phase.values.begin(), r.phase.values.end(),
                                            [](float a, float b) { return std::abs(a) < std::abs(b); });
      return std::pair{largest - r.phase.values.begin(), *largest > 0};
    };
    EXPECT_EQ(peak(*bright), (std::pair<std::ptrdiff_t, bool>{8 * 16 + 8, true})) << s.what;
    DpcOptions other;
    other.rotation_deg = bright->rotation.rotation_deg + 180;
    other.transpose = bright->rotation.transpose;
    EXPECT_EQ(peak(*run_dpc(v, other)), (std::pair<std::ptrdiff_t, bool>{8 * 16 + 8, false})) << s.what;
  }
}

}  // namespace
}  // namespace quantem
