// Transforms on the device against those of the host.

#include "quantem/runtime/device_fft.h"

#include <gtest/gtest.h>

#include <random>

#include "quantem/core/fft.h"

namespace quantem {
namespace {

using Complex = std::complex<double>;

std::vector<Complex> noise(std::uint64_t n, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Complex> values(n);
  const auto next = [&] { return static_cast<double>(random()) / 4294967296.0 - 0.5; };
  for (Complex& v : values) v = {next(), next()};
  return values;
}

double largest_difference(const std::vector<Complex>& a, const std::vector<Complex>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

class CudaSmallFft : public testing::Test {
 protected:
  void SetUp() override {
    const auto device = open_device(Backend::cuda);
    if (!device) GTEST_SKIP() << device.error().message;
    if (const auto found = find_cufft(); !found) GTEST_SKIP() << found.error().message;
    context = *CudaContext::of(*device);
  }
  template <class T>
  DeviceMemory up(const std::vector<T>& values) {
    DeviceMemory memory = *context->allocate(values.size() * sizeof(T), "test");
    EXPECT_TRUE(context->copy_up(memory.data(), values.data(), values.size() * sizeof(T)));
    return memory;
  }
  template <class T>
  std::vector<T> down(const DeviceMemory& memory, std::uint64_t n) {
    std::vector<T> values(n);
    EXPECT_TRUE(context->synchronize("test"));
    EXPECT_TRUE(context->copy_down(values.data(), memory.data(), n * sizeof(T)));
    return values;
  }
  CudaContext* context = nullptr;
};

constexpr Extent kExtents[] = {{1, 1}, {2, 2}, {7, 1}, {1, 31}, {8, 6}, {37, 41}, {45, 63}, {64, 2}, {101, 16}};

TEST_F(CudaSmallFft, ComplexTransformsEqualTheHostsForAnySize) {
  for (const Extent e : kExtents) {
    std::vector<Complex> values = noise(e.count(), e.rows);
    const auto lock = context->query_lock();
    const auto plan = DeviceFft::of(*context, DeviceFft::Kind::complex, e);
    ASSERT_TRUE(plan) << plan.error().message;
    const DeviceMemory memory = up(values);
    ASSERT_TRUE(plan->forward(memory.as<Complex>(), memory.as<Complex>()));
    std::vector<Complex> spectrum = values;
    Fft2(e).forward(spectrum);
    EXPECT_LT(largest_difference(down<Complex>(memory, e.count()), spectrum), 1e-11) << to_string(e);
    ASSERT_TRUE(plan->inverse(memory.as<Complex>(), memory.as<Complex>()));
    std::vector<Complex> back = down<Complex>(memory, e.count());
    for (Complex& v : back) v /= static_cast<double>(e.count());
    EXPECT_LT(largest_difference(back, values), 1e-13) << to_string(e);
  }
}

TEST_F(CudaSmallFft, RealTransformsKeepHalfOfTheSpectrum) {
  for (const Extent e : kExtents) {
    std::vector<Complex> spectrum = noise(e.count(), e.cols);
    std::vector<double> values;
    for (Complex& v : spectrum) values.push_back(v.real()), v = v.real();
    Fft2(e).forward(spectrum);
    const std::uint64_t half = e.cols / 2 + 1;
    const auto lock = context->query_lock();
    const auto forward = DeviceFft::of(*context, DeviceFft::Kind::real_forward, e);
    const auto inverse = DeviceFft::of(*context, DeviceFft::Kind::real_inverse, e);
    ASSERT_TRUE(forward && inverse);
    const DeviceMemory real = up(values), bins = up(std::vector<Complex>(e.rows * half));
    ASSERT_TRUE(forward->forward(real.as<double>(), bins.as<Complex>()));
    const std::vector<Complex> got = down<Complex>(bins, e.rows * half);
    for (std::uint64_t r = 0; r < e.rows; ++r)
      for (std::uint64_t c = 0; c < half; ++c)
        EXPECT_LT(std::abs(got[r * half + c] - spectrum[r * e.cols + c]), 1e-11) << to_string(e);
    ASSERT_TRUE(inverse->inverse(bins.as<Complex>(), real.as<double>()));
    const std::vector<double> back = down<double>(real, e.count());
    for (std::uint64_t i = 0; i < e.count(); ++i)
      EXPECT_NEAR(back[i] / static_cast<double>(e.count()), values[i], 1e-13) << to_string(e);
  }
}

TEST_F(CudaSmallFft, MorePlansThanAreKept) {
  const auto lock = context->query_lock();
  for (std::uint32_t n = 2; n < 40; ++n) {
    const auto plan = DeviceFft::of(*context, DeviceFft::Kind::complex, {n, 3});
    ASSERT_TRUE(plan) << plan.error().message;
    const DeviceMemory memory = up(std::vector<Complex>(n * 3, Complex(1, 0)));
    ASSERT_TRUE(plan->forward(memory.as<Complex>(), memory.as<Complex>()));
    EXPECT_NEAR(down<Complex>(memory, 1)[0].real(), 3.0 * n, 1e-12);
  }
}

TEST(DeviceFft, WithoutTheLibraryTheErrorSaysHowToGetIt) {
  const auto found = find_cufft();
  if (found) GTEST_SKIP() << "cuFFT is here";
  EXPECT_EQ(found.error().code, Code::unsupported);
  EXPECT_NE(found.error().message.find("cuFFT"), std::string::npos) << found.error().message;
}

TEST_F(CudaSmallFft, EmptySidesAreRefused) {
  const auto lock = context->query_lock();
  const auto plan = DeviceFft::of(*context, DeviceFft::Kind::complex, {0, 4});
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, Code::invalid_argument);
}

}  // namespace
}  // namespace quantem
