// Phase images of volumes that are encoded on a CUDA device against the host's of the same counts.

#include "quantem/dpc/device_dpc.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <thread>

#include "quantem/runtime/device_fft.h"
#include "tests/support/volumes.h"

namespace quantem {
namespace {

using support::Twins, support::VolumeCase;

// Even, odd and prime sides, less and more than a tile of the kernels; bad pixels, missing positions; moments of more than 32 bits.
constexpr VolumeCase kCases[] = {
    {{{8, 9}, {7, 9}}, 1, 3, false, false},    {{{17, 13}, {16, 16}}, 2, 0.6, true, true},
    {{{3, 5}, {33, 40}}, 3, 0.3, true, false}, {{{37, 41}, {7, 9}}, 4, 30, false, true},
    {{{16, 32}, {5, 64}}, 5, 2, true, true},   {{{45, 10}, {9, 7}}, 6, 900, false, false},
    {{{3, 67}, {8, 8}}, 7, 4, false, true},    {{{64, 3}, {5, 5}}, 8, 9, true, false},
};

Calibration calibrated() {
  Calibration c;
  c.voltage_kV.value = 300, c.semiangle_mrad.value = 15;
  c.scan_sampling_A.value = Pair{0.3, 0.25}, c.det_sampling_mrad.value = Pair{1.7, 1.5};
  return c;
}

class CudaSmallDpc : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = open_device(Backend::cuda);
    if (!opened) GTEST_SKIP() << opened.error().message;
    if (const auto found = find_cufft(); !found) GTEST_SKIP() << found.error().message;
    device = *opened;
  }
  [[nodiscard]] Twins twins_of(const VolumeCase& c) const {
    switch (c.seed % 3) {
      case 0:
        return *make<std::uint8_t>(c);
      case 1:
        return *make<std::uint16_t>(c);
      default:
        return *make<std::uint32_t>(c);
    }
  }
  template <class T>
  [[nodiscard]] Result<Twins> make(const VolumeCase& c) const {
    return support::make_twins<T>(c, device);
  }
  Device device = *open_device(Backend::cpu);
};

double largest_of(const std::vector<float>& values) {
  double largest = 0;
  for (const float v : values)
    if (!std::isnan(v)) largest = std::max(largest, std::abs(static_cast<double>(v)));
  return largest;
}

// Within `bound`, no value at the same places; a direction of 180 degrees is one of -180.
void expect_map(const Image<float>& want, const Image<float>& got, double bound, const std::string& what) {
  ASSERT_EQ(want.values.size(), got.values.size()) << what;
  EXPECT_EQ(want.unit, got.unit) << what;
  EXPECT_EQ(want.valid, got.valid) << what;
  const double turn = want.unit == "deg" ? 360 : 0;
  double worst = 0;
  for (std::size_t i = 0; i < want.values.size(); ++i) {
    ASSERT_EQ(std::isnan(want.values[i]), std::isnan(got.values[i])) << what << " at " << i;
    if (std::isnan(want.values[i])) continue;
    const double difference = std::abs(static_cast<double>(want.values[i]) - static_cast<double>(got.values[i]));
    worst = std::max(worst, turn > 0 ? std::min(difference, turn - difference) : difference);
  }
  EXPECT_LE(worst, bound) << what;
}

std::vector<std::string> names_of(const Parameters& parameters) {
  std::vector<std::string> names;
  for (const auto& [name, value] : parameters) names.push_back(name);
  return names;
}

void expect_same(const DpcResult& want, const DpcResult& got, const std::string& what) {
  EXPECT_EQ(got.provenance.path, "cuda_cufft_idpc") << what;
  EXPECT_EQ(want.rotation.transpose, got.rotation.transpose) << what;
  EXPECT_NEAR(want.rotation.rotation_deg, got.rotation.rotation_deg, 1e-6 * 57.29) << what;
  EXPECT_EQ(want.rotation.method, got.rotation.method) << what;
  EXPECT_EQ(want.rotation.polarity, got.rotation.polarity) << what;
  EXPECT_NEAR(want.rotation.skewness, got.rotation.skewness, 1e-6) << what;
  EXPECT_EQ(want.rotation.ambiguous, got.rotation.ambiguous) << what;
  if (!want.rotation_given) {
    EXPECT_NEAR(want.rotation.curl_fraction, got.rotation.curl_fraction, 1e-9) << what;
  }
  EXPECT_EQ(want.rotation_given, got.rotation_given) << what;
  EXPECT_EQ(want.valid, got.valid) << what;
  EXPECT_EQ(want.filled, got.filled) << what;
  // C59's bound is 1e-5 max(1, max |phi|); these are doubles rounded once, so much less is found.
  expect_map(want.phase, got.phase, 1e-6 * largest_of(want.phase.values), what + ": phase");
  const std::pair<const Image<float> DpcResult::*, const char*> maps[] = {
      {&DpcResult::com_row, "com_row"},
      {&DpcResult::com_col, "com_col"},
      {&DpcResult::com_row_aligned, "com_row_aligned"},
      {&DpcResult::com_col_aligned, "com_col_aligned"},
      {&DpcResult::magnitude, "magnitude"},
      {&DpcResult::direction_deg, "direction_deg"},
      {&DpcResult::divergence, "divergence"},
      {&DpcResult::curl, "curl"}};
  for (const auto& [map, name] : maps)
    expect_map(want.*map, got.*map, 1e-6 * std::max(largest_of((want.*map).values), 1e-6), what + ": " + name);
  EXPECT_EQ(names_of(want.provenance.parameters), names_of(got.provenance.parameters)) << what;
  EXPECT_EQ(want.provenance.warnings.size(), got.provenance.warnings.size()) << what;
  EXPECT_EQ(want.provenance.evidence, got.provenance.evidence) << what;
  EXPECT_EQ(want.provenance.mask.sha256, got.provenance.mask.sha256) << what;
}

void compare(const Twins& v, const DpcOptions& options, const std::string& what) {
  const auto want = run_dpc(v.dense, options), got = run_dpc(v.encoded, options);
  ASSERT_EQ(want.ok(), got.ok()) << what << ": " << (want ? got.error().message : want.error().message);
  if (want)
    expect_same(*want, *got, what);
  else
    EXPECT_EQ(want.error().message, got.error().message) << what;
}

std::string name_of(const VolumeCase& c) {
  return to_string(c.shape.scan) + " of " + to_string(c.shape.det);
}

TEST_F(CudaSmallDpc, C59_EveryBoundaryOnEveryShape) {
  bool transposed[2] = {};
  for (const VolumeCase& c : kCases) {
    const Twins v = twins_of(c);
    for (const Boundary boundary : {Boundary::periodic, Boundary::mirror, Boundary::zeropad}) {
      DpcOptions options;
      options.boundary = boundary;
      compare(v, options, name_of(c) + " " + std::string(boundary_name(boundary)));
    }
    transposed[run_dpc(v.dense)->rotation.transpose] = true;
  }
  EXPECT_TRUE(transposed[0] && transposed[1]);  // the cases find both handednesses
}

TEST_F(CudaSmallDpc, PreparedOnAnotherThreadItIsTheSame) {
  const Twins v = twins_of(kCases[0]);
  DpcOptions options;
  options.boundary = Boundary::zeropad;
  std::jthread other([&] { prepare_dpc(device, kCases[0].shape.scan, options); });
  compare(v, options, "beside");
  other.join();
  prepare_dpc(device, kCases[0].shape.scan, options);
  compare(v, options, "after");
  prepare_dpc(device, {}, options);                          // nothing to prepare
  prepare_dpc(*open_device(Backend::cpu), {3, 3}, options);  // nor here
}

TEST_F(CudaSmallDpc, C57_CalibratedVolumesAreSearchedByFourierAndSkewness) {
  bool turned[2] = {};
  for (const VolumeCase& c : kCases) {
    Twins v = twins_of(c);
    v = {v.dense.with_calibration(calibrated()), v.encoded.with_calibration(calibrated())};
    DpcOptions options;
    options.units = IdpcUnits::rad;
    compare(v, options, name_of(c) + " rad");
    if (const auto found = run_dpc(v.dense, options)) turned[std::abs(found->rotation.rotation_deg) > 90] = true;
    options.method = RotationMethod::curl;
    compare(v, options, name_of(c) + " rad, curl");
    options.polarity = Polarity::defocus, options.known_C10_A = -50, options.fitted_C10_A = 48;
    compare(v, options, name_of(c) + " rad, defocus");
    options = {};
    options.units = IdpcUnits::gradient;
    compare(v, options, name_of(c) + " gradient");
  }
  EXPECT_TRUE(turned[0] && turned[1]);  // either sign of the skewness
}

TEST_F(CudaSmallDpc, C55_DescanMasksGivenAnglesAndFilters) {
  for (const VolumeCase& c : kCases) {
    const Twins v = twins_of(c);
    DpcOptions options;
    const Mask disc = *disk({0.4 * c.shape.det.rows, 0.6 * c.shape.det.cols}, 0.3 * c.shape.det.cols + 1, c.shape.det);
    options.mask = &disc;
    options.boundary = Boundary::mirror;
    compare(v, options, name_of(c) + " masked");
    options.descan.kind = Descan::Kind::fixed, options.descan.fixed = {1.5, 2.25};
    options.rotation_deg = 33, options.transpose = true, options.sign = -1;
    compare(v, options, name_of(c) + " fixed, given");
    options.descan.kind = Descan::Kind::none;
    options.highpass = 0.05, options.lowpass = 0.3, options.order = 3, options.epsilon = 0.01;
    for (const Boundary boundary : {Boundary::periodic, Boundary::mirror, Boundary::zeropad}) {
      options.boundary = boundary;
      compare(v, options, name_of(c) + " filtered " + std::string(boundary_name(boundary)));
    }
  }
}

TEST_F(CudaSmallDpc, C53_CentreOfMassIsTheHostsBitForBit) {
  DpcOptions options;
  options.descan.kind = Descan::Kind::none, options.rotation_deg = 0;
  for (const VolumeCase& c : kCases) {
    const Twins v = twins_of(c);
    const auto want = center_of_mass(v.dense);
    const auto got = run_dpc(v.encoded, options);
    ASSERT_TRUE(want && got);
    const std::size_t n_bytes = want->row.values.size() * sizeof(float);
    EXPECT_EQ(std::memcmp(want->row.values.data(), got->com_row.values.data(), n_bytes), 0) << name_of(c);
    EXPECT_EQ(std::memcmp(want->col.values.data(), got->com_col.values.data(), n_bytes), 0) << name_of(c);
  }
}

TEST_F(CudaSmallDpc, WhatTheDeviceDoesNotDoRunsOnTheHostAndSaysSo) {
  const Twins v = twins_of(kCases[1]);
  DpcOptions options;
  options.descan.kind = Descan::Kind::plane;
  const auto want = run_dpc(v.dense, options), got = run_dpc(v.encoded, options);
  ASSERT_TRUE(want && got);
  EXPECT_EQ(want->phase.values, got->phase.values);  // from the same integers
  EXPECT_EQ(got->provenance.path, "cpu_idpc_fft_f64");
  EXPECT_NE(to_json(got->provenance).find("dpc: on the host, from sums of the device: descan=plane"),
            std::string::npos);
  EXPECT_EQ(to_json(want->provenance).find("on the host"), std::string::npos);
  const auto refused = run_dpc_on_device(v.encoded, options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::unsupported);
  options = {};
  options.method = RotationMethod::grid;
  EXPECT_EQ(run_dpc(v.encoded, options)->provenance.path, "cpu_idpc_fft_f64");
}

TEST_F(CudaSmallDpc, ThePhaseStaysOnTheDeviceAndTwoRunsAreEqual) {
  for (const VolumeCase& c : {kCases[1], kCases[3]}) {
    const Twins v = twins_of(c);
    DpcOptions options;
    options.boundary = Boundary::mirror;
    const auto maps = run_dpc(v.encoded, options);
    const auto stays = run_dpc_on_device(v.encoded, options), again = run_dpc_on_device(v.encoded, options);
    ASSERT_TRUE(maps && stays && again);
    const auto host = to_host(stays->phase), host_again = to_host(again->phase);
    ASSERT_TRUE(host && host_again);
    EXPECT_EQ(host->values, maps->phase.values);
    EXPECT_EQ(host->values, host_again->values);
    EXPECT_EQ(to_json(host->provenance), to_json(maps->phase.provenance));
    EXPECT_EQ(host->unit, maps->phase.unit);
    EXPECT_EQ(stays->rotation.rotation_deg, maps->rotation.rotation_deg);
    EXPECT_EQ(stays->filled, maps->filled);
  }
}

TEST_F(CudaSmallDpc, C58_ErrorsAreTheHosts) {
  const Twins small = twins_of({{{2, 2}, {7, 9}}, 9, 3, false, false});
  compare(small, {}, "2x2: too small for a search");
  DpcOptions given;
  given.rotation_deg = 20;
  for (const Boundary boundary : {Boundary::periodic, Boundary::mirror, Boundary::zeropad}) {
    given.boundary = boundary;
    compare(small, given, "2x2, given");
  }
  compare(twins_of({{{1, 9}, {7, 9}}, 10, 3, false, false}), {}, "1x9");
  const Twins v = twins_of(kCases[0]);
  const Mask nothing = *disk({-99, 0}, 1, v.dense.shape().det), one = *rectangle({3, 4, 3, 4}, v.dense.shape().det);
  DpcOptions options;
  options.mask = &nothing;
  compare(v, options, "an empty mask");
  options.mask = &one;
  compare(v, options, "one pixel: no deflection anywhere");
  options = {};
  options.units = IdpcUnits::rad;
  compare(v, options, "no voltage");
  options = {};
  options.transpose = true;
  compare(v, options, "transpose without an angle");
  options.rotation_deg = std::numeric_limits<double>::infinity();
  compare(v, options, "an angle that is none");
  const auto refused = run_dpc_on_device(v.dense);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::unsupported);
}

TEST(Rotation, C57_OneStencilFitsBothHandednessesAndIsPlain) {
  ComField field;
  field.scan = {3, 3};
  field.valid = BitMask(9, true);
  for (int i = 0; i < 9; ++i) field.row.push_back(i * 7 % 5 / 3.0), field.col.push_back(i * i % 7 / 5.0);
  for (int shift = 0; shift < 20; ++shift) {  // whatever rounding says of curls that are 0 both ways
    field.row[1] += 0.137;
    const auto found = find_rotation(field);
    ASSERT_TRUE(found);
    EXPECT_FALSE(found->transpose) << shift;
  }
}

TEST(CudaDpc, WithoutCufftTheHostIntegratesAndSaysWhy) {
  const auto device = open_device(Backend::cuda);
  if (!device) GTEST_SKIP() << device.error().message;
  if (find_cufft()) GTEST_SKIP() << "cuFFT is here";
  const auto v = support::make_twins<std::uint16_t>(kCases[0], *device);
  ASSERT_TRUE(v);
  const auto want = run_dpc(v->dense), got = run_dpc(v->encoded);
  ASSERT_TRUE(want && got);
  EXPECT_EQ(want->phase.values, got->phase.values);
  EXPECT_NE(to_json(got->provenance).find("on the host, from sums of the device: cuFFT 12 was not found"),
            std::string::npos);
  const auto refused = run_dpc_on_device(v->encoded);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::unsupported);
}

TEST(DeviceDpc, OnlyVolumesOnADeviceStayThere) {
  const VolumeCase c{{{4, 5}, {7, 9}}, 1, 3, false, false};
  const auto v = support::make_twins<std::uint16_t>(c, *open_device(Backend::cpu));
  ASSERT_TRUE(v);
  const auto refused = run_dpc_on_device(v->encoded);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::unsupported);
  EXPECT_NE(refused.error().message.find("encoded on 'cpu'"), std::string::npos) << refused.error().message;
  EXPECT_EQ(run_dpc(v->encoded)->provenance.path, "cpu_idpc_fft_f64");
  EXPECT_EQ(to_json(run_dpc(v->encoded)->provenance).find("on the host"), std::string::npos);
}

}  // namespace
}  // namespace quantem
