// The oracle table of docs/phase: what centre of mass, rotation and iDPC must give on simulated data with known truth. The numbers
// come from an independent program (NumPy); tolerances are the table's for double.

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <numbers>

#include "tests/phase_support.h"

namespace quantem {
namespace {

using namespace phase_testing;

constexpr double kPi = std::numbers::pi;

TEST(PhaseOracles, O13_GratingsAreTransferredByTheDisc) {
  const SimulateOptions o = square_geometry();
  // Cycles in 12.8 A, expected CoM amplitude over (epsilon q0), analytic transfer of a disc without pixels.
  const double rows[][3] = {{5, 0.78094, 0.757}, {13, 0.40390, 0.391}, {19, 0.16586, 0.161}};
  for (const auto& [cycles, expected, analytic] : rows) {
    const double q0 = cycles / 12.8;
    std::vector<double> phase(o.scan.count());
    for (std::uint32_t i = 0; i < phase.size(); ++i) phase[i] = 0.01 * std::cos(2 * kPi * q0 * 0.2 * (i / o.scan.cols));
    const ComField v = in_inverse_A(com_of(o, phase), o);
    std::complex<double> bin = 0;
    for (std::uint32_t r = 0; r < o.scan.rows; ++r)
      bin += v.row[std::uint64_t{r} * o.scan.cols] * std::polar(1.0, -2 * kPi * cycles * r / o.scan.rows);
    const double amplitude = 2 * std::abs(bin) / o.scan.rows / (0.01 * q0);
    EXPECT_NEAR(amplitude, expected, 1e-4) << cycles;
    EXPECT_NEAR(amplitude / analytic, 1, 0.07) << cycles;
    EXPECT_NEAR(std::arg(bin), kPi / 2, 1e-6) << cycles;  // V = -epsilon q0 T sin
  }
}

struct Geometry {
  const char* name;
  SimulateOptions options;
};
std::vector<Geometry> geometries() {
  return {{"square", square_geometry()}, {"rectangular", rectangular_geometry()}, {"odd", odd_geometry()}};
}

void expect_blurred_phase(const Geometry& g, double peak_rad) {
  const std::vector<double> phase = phase_for(g.options, random_atoms(peak_rad));
  const std::vector<double> found = periodic_phase(in_inverse_A(com_of(g.options, phase), g.options), g.options);
  const Merit blurred = merit(found, *blur_by_probe(phase, g.options));
  EXPECT_GE(blurred.corr, 0.99999) << g.name;
  EXPECT_LE(blurred.rmse, 0.002) << g.name;
  if (std::string(g.name) != "square") return;
  const Merit raw = merit(found, phase);
  EXPECT_NEAR(raw.corr, 0.987, 0.002);
  EXPECT_NEAR(raw.slope, 0.76, 0.002 + 0.005);  // the table gives two digits
}

TEST(PhaseOracles, O17_WeakPhaseIsThePhaseBlurredByTheProbe) {
  for (const Geometry& g : geometries()) expect_blurred_phase(g, 0.01);
}

TEST(PhaseOracles, O18_StrongPhaseIsBlurredAlike) {
  for (const Geometry& g : geometries()) expect_blurred_phase(g, 0.3);
}

TEST(PhaseOracles, O22_AberratedProbeBlursByItsOwnIntensity) {
  for (Geometry g : geometries()) {
    g.options.aberrations = kAberrated;
    const std::vector<double> phase = phase_for(g.options, random_atoms(0.05));
    const std::vector<double> found = periodic_phase(in_inverse_A(com_of(g.options, phase), g.options), g.options);
    const Merit m = merit(found, *blur_by_probe(phase, g.options));
    EXPECT_GE(m.corr, 0.99999) << g.name;
    EXPECT_LE(m.rmse, 0.0024) << g.name;
  }
}

TEST(PhaseOracles, O23_EveryRotationAndHandednessInItsQuadrant) {
  const std::vector<double> phase = phase_for(square_geometry(), random_atoms(0.1));
  for (const double truth : {0.0, 13.7, 45.0, 90.0, -67.3, 120.0, 180.0, -150.0})
    for (const bool transpose : {false, true}) {
      SimulateOptions o = square_geometry();
      o.rotation_deg = truth;
      o.transpose = transpose;
      const ComField v = in_inverse_A(com_of(o, phase), o);
      for (const auto method : {RotationMethod::curl, RotationMethod::fourier}) {
        const auto found = find_rotation(v, calibrated(o, method));
        ASSERT_TRUE(found) << found.error().message;
        EXPECT_LE(angle_between(found->rotation_deg, truth), 0.03)
            << truth << " " << transpose << " " << method_name(method);
        EXPECT_EQ(found->transpose, transpose) << truth << " " << method_name(method);
        EXPECT_FALSE(found->ambiguous);
        const auto aligned = align(v, found->rotation_deg, found->transpose);
        const Merit m = merit(periodic_phase(*aligned, o), *blur_by_probe(phase, o));
        EXPECT_GE(m.corr, 0.99999) << truth << " " << transpose << " " << method_name(method);
      }
      // Other programs' search is right up to half a turn, to its step.
      const auto grid = find_rotation(v, calibrated(o, RotationMethod::grid_abs));
      EXPECT_EQ(grid->transpose, transpose);
      EXPECT_LE(angle_between(grid->rotation_deg, truth), 1.0);
    }
}

TEST(PhaseOracles, O26_HalfATurnWithDefocusAndPhaseReversedIsTheSameData) {
  // Odd sides: on an even one, the Nyquist bin of a strong phase has no partner at -q, and the identity holds to 4e-9 only.
  SimulateOptions o = square_geometry();
  o.scan = {23, 21};
  o.det = {28, 26};
  o.det_step_mrad = {3.0, 2.8};
  o.rotation_deg = 20;
  o.aberrations = kAberrated;
  const std::vector<double> phase = phase_for(o, random_atoms(0.3));
  SimulateOptions reversed = o;
  reversed.rotation_deg = 200;
  for (Aberration& c : reversed.aberrations) c.a_A = -c.a_A, c.b_A = -c.b_A;
  std::vector<double> negative = phase;
  for (double& x : negative) x = -x;
  const std::uint64_t n = o.scan.count();
  std::vector<double> first(n * o.det.count());
  ASSERT_TRUE(simulate_pixels(
      o, phase, [&](std::uint32_t p, std::span<const double> x) { std::ranges::copy(x, first.begin() + p * n); }));
  double largest = 0;
  std::mutex mutex;
  ASSERT_TRUE(simulate_pixels(reversed, negative, [&](std::uint32_t p, std::span<const double> x) {
    const std::lock_guard lock(mutex);
    for (std::uint64_t i = 0; i < n; ++i) largest = std::max(largest, std::abs(x[i] - first[p * n + i]));
  }));
  EXPECT_LE(largest, 1e-13);
  const ComField v = in_inverse_A(com_of(o, phase), o);
  const std::vector<double> a = periodic_phase(*align(v, 20, false), o), b = periodic_phase(*align(v, 200, false), o);
  for (std::uint64_t i = 0; i < n; ++i) EXPECT_NEAR(a[i], -b[i], 1e-13);
}

TEST(PhaseOracles, O29_RotationFromNoisyCounts) {
  SimulateOptions o = square_geometry();
  o.rotation_deg = 27.5;
  o.transpose = true;
  const std::vector<double> phase = phase_for(o, random_atoms(0.1));
  const std::uint64_t n = o.scan.count();
  std::vector<float> clean(n * o.det.count());
  ASSERT_TRUE(simulate_pixels(
      o, phase, [&](std::uint32_t p, std::span<const double> x) { std::ranges::copy(x, clean.begin() + p * n); }));
  // Electrons a frame, rms error of the oracle over 8 seeds in degrees.
  const std::pair<double, double> rows[] = {{200000, 0.20}, {20000, 1.1}, {5000, 2.0}, {1000, 6.4}};
  for (const auto& [dose, oracle] : rows) {
    double squares = 0;
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      ComSums sums(o);
      parallel_for(o.det.count(), [&](std::uint64_t p) {
        std::vector<double> counts(n);
        UniformPair u{};
        for (std::uint64_t i = 0; i < n; ++i) {
          if (i % 2 == 0) u = uniform_pair(seed, static_cast<std::uint32_t>(p), i / 2, 0);
          counts[i] =
              poisson(dose * clean[p * n + i], i % 2 ? u.second : u.first, seed, static_cast<std::uint32_t>(p), i);
        }
        sums.add(static_cast<std::uint32_t>(p), counts);
      });
      const auto found = find_rotation(in_inverse_A(sums.field(), o), calibrated(o, RotationMethod::fourier));
      ASSERT_TRUE(found);
      EXPECT_TRUE(found->transpose) << dose << " " << seed;
      squares += std::pow(angle_between(found->rotation_deg, 27.5), 2);
    }
    EXPECT_LE(std::sqrt(squares / 8), 1.5 * oracle) << dose;
    std::printf("rotation at %g electrons a frame: rms error %.2f degrees (oracle %.2f)\n", dose,
                std::sqrt(squares / 8), oracle);
  }
}

TEST(PhaseOracles, O30_MirrorServesAScanThatIsNotPeriodic) {
  SimulateOptions o = square_geometry();
  o.scan = {96, 96};
  const std::vector<double> phase = phase_for(o, random_atoms(0.1, kThirty));
  const ComField whole = com_of(o, phase);
  const std::vector<double> blurred = *blur_by_probe(phase, o);
  ComField part;
  part.scan = {64, 64};
  part.valid = BitMask(part.scan.count(), true);
  std::vector<double> truth;
  for (std::uint32_t r = 10; r < 74; ++r)
    for (std::uint32_t c = 7; c < 71; ++c) {
      part.row.push_back(whole.row[r * 96 + c]);
      part.col.push_back(whole.col[r * 96 + c]);
      truth.push_back(blurred[r * 96 + c]);
    }
  const ComField v = in_inverse_A(part, o);
  const Merit mirror = merit(periodic_phase(v, o, Boundary::mirror), truth);
  EXPECT_GE(mirror.corr, 0.99);
  EXPECT_LE(mirror.rmse, 0.11);
  // Two more rows of the table: what the other boundaries cost.
  EXPECT_NEAR(merit(periodic_phase(v, o, Boundary::zeropad), truth).corr, 0.971, 0.002);
  EXPECT_NEAR(merit(periodic_phase(v, o, Boundary::periodic), truth).corr, 0.960, 0.002);
}

// ---- Fixtures: counts = round(2e6 I)

SimulateOptions fixture_s() {
  SimulateOptions o;
  o.scan = {24, 20};
  o.scan_step_A = {0.25, 0.22};
  o.det = {28, 26};
  o.det_step_mrad = {3.0, 2.8};
  o.center_px = Point{13.6, 12.7};
  o.rotation_deg = 20;
  o.transpose = true;
  o.aberrations = {{1, 0, -40, 0}, {1, 2, 12, -8}};
  return o;
}

std::vector<std::uint16_t> rounded_counts(const SimulateOptions& o, const std::vector<double>& phase) {
  std::vector<std::uint16_t> counts(o.scan.count() * o.det.count());
  const auto done = simulate_pixels(o, phase, [&](std::uint32_t p, std::span<const double> x) {
    for (std::uint64_t i = 0; i < x.size(); ++i)
      counts[i * o.det.count() + p] = static_cast<std::uint16_t>(std::nearbyint(2e6 * x[i]));
  });
  EXPECT_TRUE(done);
  return counts;
}

Volume volume_of(const std::vector<std::uint16_t>& counts, const SimulateOptions& o, Representation representation) {
  FromArrayOptions options;
  options.representation = representation;
  options.calibration.voltage_kV.value = o.voltage_kV;
  options.calibration.semiangle_mrad.value = o.semiangle_mrad;
  options.calibration.scan_sampling_A.value = o.scan_step_A;
  options.calibration.det_sampling_mrad.value = o.det_step_mrad;
  const auto volume =
      from_array(*open_device(Backend::cpu),
                 {Dtype::u16, {o.scan.rows, o.scan.cols, o.det.rows, o.det.cols}, counts.data()}, options);
  EXPECT_TRUE(volume) << volume.error().message;
  return *volume;
}

double rms(const std::vector<double>& x) {
  double s = 0;
  for (const double v : x) s += v * v;
  return std::sqrt(s / static_cast<double>(x.size()));
}

void expect_relative(double found, double expected, double tolerance = 1e-6) {
  EXPECT_NEAR(found, expected, std::abs(expected) * tolerance);
}

TEST(PhaseOracles, FixtureS_NumbersOfTheIndependentProgram) {
  const auto counts = vectors_npy<std::uint16_t>("phase/phase_fixture_S_24x20x28x26_u16.npy");
  if (!counts)
    GTEST_SKIP() << "QUANTEM_VECTORS does not name the folder with phase/phase_fixture_S_24x20x28x26_u16.npy";
  const SimulateOptions o = fixture_s();
  ASSERT_EQ(counts->size(), o.scan.count() * o.det.count());
  EXPECT_EQ(std::accumulate(counts->begin(), counts->end(), std::uint64_t{0}), 959989643u);
  EXPECT_EQ(*std::max_element(counts->begin(), counts->end()), 14606);
  const Volume volume = volume_of(*counts, o, Representation::dense);
  const auto sums = moment_sums(volume);
  ASSERT_TRUE(sums);
  EXPECT_EQ(sums->total[0], 1999972u);
  const ComField v = in_inverse_A(*com_field(volume), o);
  expect_relative(v.row[0], 4.102485e-4);
  expect_relative(v.col[0], -2.752931e-3);
  expect_relative(rms(v.row), 1.640417e-3);
  expect_relative(rms(v.col), 1.792506e-3);
  const auto central = find_rotation(v, calibrated(o, RotationMethod::curl));
  ASSERT_TRUE(central);
  EXPECT_NEAR(central->rotation_deg, 19.547, 5e-4);
  EXPECT_TRUE(central->transpose);
  const auto fourier = find_rotation(v, calibrated(o, RotationMethod::fourier));
  ASSERT_TRUE(fourier);
  EXPECT_NEAR(fourier->rotation_deg, 20.090, 5e-4);
  EXPECT_TRUE(fourier->transpose);
  const std::vector<double> phase = periodic_phase(*align(v, 20, true), o);
  expect_relative(phase[0], -3.019750e-3);
  expect_relative(phase[12 * 20 + 10], 3.242024e-3);
  EXPECT_NEAR(merit(phase, *blur_by_probe(phase_for(o, fixture_atoms()), o)).corr, 0.99996, 1e-5);
}

TEST(PhaseOracles, FixtureS_SimulatorMakesTheSameCounts) {
  const auto counts = vectors_npy<std::uint16_t>("phase/phase_fixture_S_24x20x28x26_u16.npy");
  const auto truth = vectors_npy<double>("phase/phase_fixture_S_phi_f64.npy");
  if (!counts || !truth) GTEST_SKIP() << "QUANTEM_VECTORS does not name the folder with phase/*.npy";
  const SimulateOptions o = fixture_s();
  const std::vector<double> phase = phase_for(o, fixture_atoms());
  ASSERT_EQ(phase.size(), truth->size());
  for (std::size_t i = 0; i < phase.size(); ++i) ASSERT_NEAR(phase[i], (*truth)[i], 1e-15);
  const std::vector<std::uint16_t> made = rounded_counts(o, phase);
  std::uint64_t different = 0;
  for (std::size_t i = 0; i < made.size(); ++i) {
    ASSERT_LE(std::abs(int{made[i]} - int{(*counts)[i]}), 1) << i;  // a value on the half rounds either way
    different += made[i] != (*counts)[i];
  }
  EXPECT_LE(different, 2u);
}

TEST(PhaseOracles, FixtureM_NumbersOfTheIndependentProgram) {
  SimulateOptions o = square_geometry();
  o.rotation_deg = -15;
  o.aberrations = kAberrated;
  const std::vector<double> phase = phase_for(o, fixture_atoms());
  const std::vector<std::uint16_t> counts = rounded_counts(o, phase);
  EXPECT_NEAR(static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0})), 8191965516.0, 64);
  const Volume volume = volume_of(counts, o, Representation::dense);
  const ComField v = in_inverse_A(*com_field(volume), o);
  const auto central = find_rotation(v, calibrated(o, RotationMethod::curl));
  EXPECT_NEAR(central->rotation_deg, -15.456, 5e-4);
  EXPECT_FALSE(central->transpose);
  const auto fourier = find_rotation(v, calibrated(o, RotationMethod::fourier));
  EXPECT_NEAR(fourier->rotation_deg, -15.017, 5e-4);
  expect_relative(periodic_phase(*align(v, -15, false), o)[32 * 64 + 32], 2.701193e-3);

  // The same in one call, found angle included, as a user does it.
  DpcOptions options;
  options.units = IdpcUnits::rad;
  options.boundary = Boundary::periodic;
  const auto result = run_dpc(volume, options);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->rotation.method, RotationMethod::fourier);
  EXPECT_EQ(result->rotation.polarity, Polarity::skewness);
  EXPECT_NEAR(result->rotation.rotation_deg, -15.017, 5e-4);
  const std::vector<double> image(result->phase.values.begin(), result->phase.values.end());
  EXPECT_GE(merit(image, *blur_by_probe(phase, o)).corr, 0.9999);
  EXPECT_EQ(result->phase.unit, "rad");
}

}  // namespace
}  // namespace quantem
