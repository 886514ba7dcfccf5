// Integration and rotation on fields given in closed form: nothing is measured, so every number here is exact but for
// rounding.

#include "quantem/dpc/idpc.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numbers>

#include "quantem/core/calibration.h"
#include "quantem/dpc/descan.h"
#include "quantem/dpc/dpc.h"
#include "quantem/dpc/rotation.h"

namespace quantem {
namespace {

constexpr double kPi = std::numbers::pi;

ComField field_of(Extent scan, const std::function<Point(double, double)>& g, const std::string& unit = "px") {
  ComField f;
  f.scan = scan;
  f.unit = unit;
  f.valid = BitMask(scan.count(), true);
  for (std::uint32_t r = 0; r < scan.rows; ++r)
    for (std::uint32_t c = 0; c < scan.cols; ++c) {
      const Point p = g(r, c);
      f.row.push_back(p.row);
      f.col.push_back(p.col);
    }
  return f;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

double rms(const std::vector<double>& a) {
  double s = 0;
  for (const double x : a) s += x * x;
  return std::sqrt(s / static_cast<double>(a.size()));
}

// Gradient per step of a smooth periodic phase without symmetry,
// sin 2x + cos(y)/2 + 0.3 sin(x + 2y) + 0.8 cos x cos y, x and y one turn a side.
Point bumps_gradient(Extent e, double r, double c) {
  const double u = 2 * kPi / e.rows, v = 2 * kPi / e.cols, x = u * r, y = v * c;
  return {u * (2 * std::cos(2 * x) + 0.3 * std::cos(x + 2 * y) - 0.8 * std::sin(x) * std::cos(y)),
          v * (-0.5 * std::sin(y) + 0.6 * std::cos(x + 2 * y) - 0.8 * std::cos(x) * std::sin(y))};
}

TEST(Idpc, O12_OneSineComesBackInRadians) {
  for (const Extent scan : {Extent{48, 80}, Extent{45, 63}, Extent{37, 41}, Extent{64, 2}}) {
    const Pair step{0.24, 0.18};
    const double amplitude = 0.013;
    const std::uint32_t m = 3;
    const ComField v = field_of(
        scan,
        [&](double r, double) {
          return Point{amplitude * std::cos(2 * kPi * m * r / scan.rows), 0};
        },
        "1/A");
    IntegrateOptions options;
    options.units = IdpcUnits::rad;
    options.boundary = Boundary::periodic;
    options.scan_sampling_A = step;
    const auto phase = integrate(v, options);
    ASSERT_TRUE(phase) << phase.error().message;
    for (std::uint32_t r = 0; r < scan.rows; ++r)
      for (std::uint32_t c = 0; c < scan.cols; ++c)
        EXPECT_NEAR(phase->at(r, c), amplitude * scan.rows * step.row / m * std::sin(2 * kPi * m * r / scan.rows),
                    1e-12);
  }
}

TEST(Idpc, C60_AnalyticGradientComesBackAndUnitsAreProportional) {
  const Extent scan{12, 20};
  const auto phi = [](double i, double j) { return std::sin(4 * kPi * i / 12) + 0.5 * std::cos(6 * kPi * j / 20); };
  const ComField g = field_of(scan, [](double i, double j) {
    return Point{kPi / 3 * std::cos(4 * kPi * i / 12), -0.5 * 0.3 * kPi * std::sin(6 * kPi * j / 20)};
  });
  IntegrateOptions options;
  options.units = IdpcUnits::gradient;
  const auto gradient = integrate(g, options);
  ASSERT_TRUE(gradient);
  for (std::uint32_t i = 0; i < scan.rows; ++i)
    for (std::uint32_t j = 0; j < scan.cols; ++j) EXPECT_NEAR(gradient->at(i, j), phi(i, j), 1e-12);
  options.units = IdpcUnits::relative;
  const auto relative = integrate(g, options);
  ASSERT_TRUE(relative);
  options.units = IdpcUnits::rad;
  options.boundary = Boundary::periodic;
  options.scan_sampling_A = Pair{0.25, 0.25};
  options.det_sampling_mrad = Pair{1.5, 1.5};
  options.voltage_kV = 300;
  const auto rad = integrate(g, options);
  ASSERT_TRUE(rad);
  const double dk = 1.5e-3 / electron_wavelength_A(300);
  for (std::uint64_t i = 0; i < scan.count(); ++i) {
    EXPECT_NEAR(relative->values[i], kPi / 2 * gradient->values[i], 1e-12);
    EXPECT_NEAR(rad->values[i], 2 * kPi * dk * 0.25 * gradient->values[i], 1e-12);
    EXPECT_NEAR(rad->values[i], 4 * dk * 0.25 * relative->values[i], 1e-12);
  }
  options.sign = -1;
  const auto dark = integrate(g, options);
  ASSERT_TRUE(dark);
  EXPECT_EQ(dark->values[7], -rad->values[7]);
}

TEST(Idpc, C59_NyquistIsZeroInTheNumeratorOnly) {
  // The alternating field sits on the Nyquist bin alone: it has no gradient to give.
  const ComField alternating = field_of({8, 6}, [](double r, double) {
    return Point{std::fmod(r, 2) ? -1.0 : 1.0, 0};
  });
  const auto nothing = integrate(alternating);
  ASSERT_TRUE(nothing);
  EXPECT_LT(rms(nothing->values), 1e-16);
  // On (row Nyquist, column 1) the column component still counts, divided by the whole |q|^2.
  const ComField mixed = field_of({8, 6}, [](double r, double c) {
    return Point{0, (std::fmod(r, 2) ? -1.0 : 1.0) * std::cos(2 * kPi * c / 6)};
  });
  const auto phase = integrate(mixed);
  ASSERT_TRUE(phase);
  const double qc = 1.0 / 6, q2 = 0.25 + qc * qc;
  for (std::uint32_t r = 0; r < 8; ++r)
    for (std::uint32_t c = 0; c < 6; ++c)
      EXPECT_NEAR(phase->at(r, c), 0.25 * qc / q2 * (r % 2 ? -1 : 1) * std::sin(2 * kPi * c / 6), 1e-15);
}

TEST(Idpc, C61_MirrorSolvesAnEvenFieldExactlyAndZeropadRuns) {
  // cos(pi (r + 1/2) / n) continues evenly across both folds.
  const Extent scan{21, 16};
  const auto phi = [&](double r, double c) {
    return std::cos(kPi * (r + 0.5) / scan.rows) + 0.4 * std::cos(3 * kPi * (c + 0.5) / scan.cols);
  };
  const ComField g = field_of(scan, [&](double r, double c) {
    return Point{-kPi / scan.rows * std::sin(kPi * (r + 0.5) / scan.rows),
                 -0.4 * 3 * kPi / scan.cols * std::sin(3 * kPi * (c + 0.5) / scan.cols)};
  });
  IntegrateOptions options;
  options.units = IdpcUnits::gradient;
  options.boundary = Boundary::mirror;
  const auto mirror = integrate(g, options);
  ASSERT_TRUE(mirror);
  for (std::uint32_t r = 0; r < scan.rows; ++r)
    for (std::uint32_t c = 0; c < scan.cols; ++c) EXPECT_NEAR(mirror->at(r, c), phi(r, c), 1e-12);
  options.boundary = Boundary::zeropad;
  const auto padded = integrate(g, options);
  ASSERT_TRUE(padded);
  EXPECT_GT(largest_difference(padded->values, mirror->values), 1e-3);
  double mean = 0;
  for (const double x : padded->values) mean += x;
  EXPECT_NEAR(mean, 0, 1e-12);
}

TEST(Idpc, C61_FiltersAreOffByDefaultAndNamedWhenOn) {
  const Extent scan{16, 16};
  const ComField g = field_of(scan, [](double r, double) { return Point{std::cos(2 * kPi * 4 * r / 16), 0}; });
  const auto plain = integrate(g);
  ASSERT_TRUE(plain);
  EXPECT_TRUE(plain->provenance.evidence.empty());
  IntegrateOptions options;
  options.lowpass = 0.25;  // the wave's own frequency: half of it passes
  const auto low = integrate(g, options);
  ASSERT_TRUE(low);
  options.lowpass.reset();
  options.highpass = 0.125;  // an octave below: 1 - 1/(1 + 2^4)
  const auto high = integrate(g, options);
  ASSERT_TRUE(high);
  for (std::uint64_t i = 0; i < scan.count(); ++i) {
    EXPECT_NEAR(low->values[i], 0.5 * plain->values[i], 1e-12);
    EXPECT_NEAR(high->values[i], 16.0 / 17 * plain->values[i], 1e-12);
  }
  EXPECT_EQ(high->provenance.evidence, std::vector<std::string>{"filtered"});
  options.highpass = 0;
  EXPECT_EQ(integrate(g, options).error().code, Code::invalid_argument);
}

TEST(Idpc, C59_RefusesLinesAndMissingCalibrationByName) {
  const ComField line = field_of({1, 7}, [](double, double c) { return Point{0, c}; });
  const auto refused = integrate(line);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::invalid_argument);
  EXPECT_NE(refused.error().message.find("(1, 7)"), std::string::npos);
  const ComField g = field_of({4, 4}, [](double r, double c) { return Point{r, c}; });
  IntegrateOptions options;
  options.units = IdpcUnits::rad;
  EXPECT_NE(integrate(g, options).error().message.find("scan_sampling_A"), std::string::npos);
  options.scan_sampling_A = Pair{1, 1};
  EXPECT_NE(integrate(g, options).error().message.find("voltage_kV"), std::string::npos);
  options.voltage_kV = 300;
  EXPECT_NE(integrate(g, options).error().message.find("det_sampling_mrad"), std::string::npos);
  options.det_sampling_mrad = Pair{1.7, 1.5};
  EXPECT_NE(integrate(g, options).error().message.find("not square"), std::string::npos);
}

TEST(Idpc, C59_PositionsWithoutValueAreCountedAndSpreadNothing) {
  const Extent scan{16, 18};
  ComField g = field_of(scan, [&](double r, double c) { return bumps_gradient(scan, r, c); });
  g.valid.set(37, false);
  g.row[37] = g.col[37] = 0;
  const auto phase = integrate(g);
  ASSERT_TRUE(phase);
  for (const double x : phase->values) ASSERT_TRUE(std::isfinite(x));
  ASSERT_EQ(phase->provenance.warnings.size(), 1u);
  EXPECT_NE(phase->provenance.warnings[0].find("1 of 288 positions"), std::string::npos);
  const ComMaps maps = to_maps(g);
  EXPECT_TRUE(std::isnan(maps.row.values[37]));
  EXPECT_FALSE(maps.valid[37]);
  const auto back = to_field(maps);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->row[37], 0);
  EXPECT_EQ(back->n_without_value(), 1u);
}

TEST(Align, C56_ExchangeFirstThenTurnExactAtRightAngles) {
  const ComField g = field_of({2, 2}, [](double, double) { return Point{3, 5}; });
  const auto turned = align(g, 90, false);  // +row goes to +col
  ASSERT_TRUE(turned);
  EXPECT_EQ(turned->row[0], -5);
  EXPECT_EQ(turned->col[0], 3);
  const auto exchanged = align(g, 90, true);
  ASSERT_TRUE(exchanged);
  EXPECT_EQ(exchanged->row[0], -3);
  EXPECT_EQ(exchanged->col[0], 5);
  const auto half = align(g, -180, false);
  ASSERT_TRUE(half);
  EXPECT_EQ(half->row[0], -3);
  EXPECT_FALSE(align(g, NAN, false));
}

TEST(Rotation, C57_EveryMethodFindsBothHandednesses) {
  const Extent scan{40, 48};
  const ComField aligned = field_of(scan, [&](double r, double c) { return bumps_gradient(scan, r, c); });
  for (const double truth : {0.0, 13.0, 45.0, 90.0, -67.0})
    for (const bool transpose : {false, true}) {
      // Undo: turn back, then exchange.
      auto field = *align(aligned, -truth, false);
      if (transpose) std::swap(field.row, field.col);
      RotationOptions options;
      options.scan_sampling_A = Pair{0.2, 0.2};
      options.voltage_kV = 300;
      options.semiangle_mrad = 20;
      for (const auto method :
           {RotationMethod::curl, RotationMethod::fourier, RotationMethod::grid, RotationMethod::grid_abs}) {
        options.method = method;
        const auto found = find_rotation(field, options);
        ASSERT_TRUE(found) << found.error().message;
        const double off = std::remainder(found->rotation_deg - truth, 180.0);
        const double bound = method == RotationMethod::fourier ? 1e-9 : method == RotationMethod::curl ? 0.3 : 1.01;
        EXPECT_LT(std::abs(off), bound) << truth << " " << transpose << " " << method_name(method);
        EXPECT_EQ(found->transpose, transpose) << truth << " " << method_name(method);
        EXPECT_EQ(found->polarity, Polarity::undetermined);
        EXPECT_LT(found->curl_fraction, 1e-3);
      }
      options.method = RotationMethod::automatic;
      EXPECT_EQ(find_rotation(field, options)->method, RotationMethod::fourier);
      options.voltage_kV.reset();
      EXPECT_EQ(find_rotation(field, options)->method, RotationMethod::curl);
    }
}

TEST(Rotation, C57_GridHasBothEndsAndTakesTheFirstMinimumPlainFirst) {
  const Extent scan{12, 12};
  const ComField g = field_of(scan, [&](double r, double c) { return bumps_gradient(scan, r, c); });
  RotationOptions options;
  options.method = RotationMethod::grid;
  EXPECT_EQ(find_rotation(g, options)->rotation_deg, 0);  // 180 fits as well
  options.steps = 1;
  EXPECT_EQ(find_rotation(g, options).error().code, Code::invalid_argument);
  // A radial field d phi(r) has the same curl-free form exchanged: a tie goes to plain.
  const ComField radial = field_of(scan, [](double r, double c) { return Point{r - 5.5, c - 5.5}; });
  options.method = RotationMethod::curl;
  const auto tie = find_rotation(radial, options);
  ASSERT_TRUE(tie);
  EXPECT_FALSE(tie->transpose);
}

TEST(Rotation, C58_RefusesWhatDeterminesNothing) {
  const ComField flat = field_of({9, 9}, [](double, double) { return Point{0.25, -0.5}; });
  const auto none = find_rotation(flat);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::undetermined);
  EXPECT_NE(none.error().message.find("pass rotation_deg="), std::string::npos);
  const ComField small = field_of({2, 9}, [](double r, double c) { return Point{r, c}; });
  EXPECT_EQ(find_rotation(small).error().code, Code::undetermined);
  const ComField g = field_of({9, 9}, [](double r, double c) { return bumps_gradient({9, 9}, r, c); });
  RotationOptions options;
  options.method = RotationMethod::fourier;
  EXPECT_NE(find_rotation(g, options).error().message.find("voltage_kV"), std::string::npos);
}

TEST(Rotation, C58_PolarityTurnsByHalfATurnAndIsNamed) {
  const Extent scan{24, 24};
  // One positive peak: its phase is skewed to the bright side.
  const ComField g = field_of(scan, [](double r, double c) {
    const double x = r - 11, y = c - 12, e = std::exp(-(x * x + y * y) / 8);
    return Point{-x / 4 * e, -y / 4 * e};
  });
  const auto detector = *align(g, 150, false);
  RotationOptions options;
  options.polarity = Polarity::skewness;
  const auto bright = find_rotation(detector, options);
  ASSERT_TRUE(bright);
  EXPECT_NEAR(std::remainder(bright->rotation_deg + 150, 360.0), 0, 0.2);
  EXPECT_EQ(bright->polarity, Polarity::skewness);
  EXPECT_GT(bright->skewness, 1);
  EXPECT_FALSE(bright->ambiguous);
  options.polarity = Polarity::defocus;
  EXPECT_EQ(find_rotation(detector, options).error().code, Code::invalid_argument);
  options.known_C10_A = -100;
  options.fitted_C10_A = -20;
  const double same = find_rotation(detector, options)->rotation_deg;
  options.fitted_C10_A = 20;
  EXPECT_NEAR(std::abs(find_rotation(detector, options)->rotation_deg - same), 180, 1e-9);
}

TEST(Descan, C55_EachKindTakesOutWhatItNamesAndRecordsIt) {
  const Extent scan{7, 9};
  const auto surface = [](double r, double c) {
    return Point{90.5 + 0.25 * r - 0.125 * c + 0.01 * r * r - 0.02 * r * c + 0.03 * c * c, 80 - 0.5 * r + c};
  };
  ComField f = field_of(scan, surface);
  f.valid.set(10, false);
  f.row[10] = f.col[10] = 0;
  Descan how;
  how.kind = Descan::Kind::parabola;
  const auto none_left = descan(f, how);
  ASSERT_TRUE(none_left);
  EXPECT_LT(rms(none_left->row), 1e-11);
  EXPECT_LT(rms(none_left->col), 1e-11);
  const auto& parameters = none_left->provenance.parameters;
  ASSERT_EQ(parameters[1].first, "descan_row");
  const std::vector<double> expected{90.5, 0.25, -0.125, 0.01, -0.02, 0.03};
  for (std::size_t k = 0; k < 6; ++k)
    EXPECT_NEAR(std::get<std::vector<double>>(parameters[1].second)[k], expected[k], 1e-10);
  EXPECT_EQ(none_left->provenance.warnings.size(), 1u);
  how.kind = Descan::Kind::plane;
  const auto plane = descan(f, how);
  ASSERT_TRUE(plane);
  EXPECT_LT(rms(plane->col), 1e-12);
  EXPECT_GT(rms(plane->row), 0.05);
  const auto mean = descan(f);
  ASSERT_TRUE(mean);
  double sum = 0;
  for (const double x : mean->row) sum += x;
  EXPECT_NEAR(sum, 0, 1e-10);
  EXPECT_EQ(mean->row[10], 0);
  EXPECT_FALSE(mean->valid[10]);
  how.kind = Descan::Kind::fixed;
  how.fixed = {90, 80};
  EXPECT_EQ(descan(f, how)->row[0], 0.5);
  how.kind = Descan::Kind::map;
  how.row = f.row;
  how.col = f.col;
  EXPECT_EQ(rms(descan(f, how)->row), 0);
  how.row.pop_back();
  EXPECT_EQ(descan(f, how).error().code, Code::invalid_argument);
  how.kind = Descan::Kind::none;
  EXPECT_EQ(descan(f, how)->row, f.row);
  EXPECT_EQ(parse_descan("sphere").error().code, Code::invalid_argument);
}

TEST(Descan, C55_PlaneOnALineAndWhenTooLittleIsValid) {
  const ComField line = field_of({1, 7}, [](double, double c) { return Point{1 + 2 * c, 3}; });
  Descan how;
  how.kind = Descan::Kind::plane;
  const auto flat = descan(line, how);
  ASSERT_TRUE(flat);
  EXPECT_LT(rms(flat->row), 1e-14);
  ComField sparse = field_of({3, 3}, [](double r, double c) { return Point{r, c}; });
  for (std::uint64_t i = 2; i < 9; ++i) sparse.valid.set(i, false), sparse.row[i] = sparse.col[i] = 0;
  EXPECT_EQ(descan(sparse, how).error().code, Code::undetermined);
}

TEST(Derivatives, CentralOnTheInteriorAndPerSampling) {
  const Extent scan{5, 6};
  const ComField g = field_of(scan, [](double r, double c) { return Point{2 * r + 3 * c, 5 * r - 7 * c}; });
  const FieldDerivatives d = field_derivatives(g, {0.5, 0.25});
  EXPECT_DOUBLE_EQ(d.divergence[8], 2 / 0.5 - 7 / 0.25);
  EXPECT_DOUBLE_EQ(d.curl[8], 5 / 0.5 - 3 / 0.25);
  EXPECT_TRUE(std::isnan(d.curl[0]));
  EXPECT_TRUE(std::isnan(d.curl[scan.count() - 1]));
}

TEST(Dpc, U01_APhaseFromAnUncalibratedStepSaysSo) {
  ComField com;
  com.scan = {6, 7};
  com.valid = BitMask(42, true);
  for (int i = 0; i < 42; ++i) com.row.push_back(i * 7 % 5), com.col.push_back(i * 3 % 4);
  Calibration c;
  c.voltage_kV.value = 300, c.det_sampling_mrad.value = Pair{1, 1}, c.scan_sampling_A.value = Pair{1.39, 1.39};
  DpcOptions options;
  options.rotation_deg = 0, options.units = IdpcUnits::rad;
  const auto says = [&] {
    const auto result = run_dpc(com, c, options);
    EXPECT_TRUE(result);
    return result && to_json(result->phase.provenance).find("calls uncalibrated") != std::string::npos;
  };
  EXPECT_FALSE(says());
  c.scan_sampling_A.note = "uncalibrated";
  EXPECT_TRUE(says());
  options.units = IdpcUnits::relative;  // no step enters
  EXPECT_FALSE(says());
}

}  // namespace
}  // namespace quantem
