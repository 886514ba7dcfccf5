// Windows, histograms and colours of images on a CUDA device equal those of the CPU, bit for bit.

#include "quantem/display/device_display.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "quantem/runtime/device_fft.h"

namespace quantem {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

enum class Kind { counts, wide, special, signed_zeros, flat, infinite, nothing, tiny };
constexpr Kind kKinds[] = {Kind::counts, Kind::wide,     Kind::special, Kind::signed_zeros,
                           Kind::flat,   Kind::infinite, Kind::nothing, Kind::tiny};
constexpr Extent kExtents[] = {{1, 1}, {1, 2}, {1, 7}, {13, 1}, {37, 41}, {64, 64}, {91, 97}};

float value_of(Kind kind, std::mt19937& random) {
  const auto bits = static_cast<std::uint32_t>(random());
  switch (kind) {
    case Kind::counts:
      return static_cast<float>(1000 + bits % 97);
    case Kind::wide: {  // any finite value, of either sign
      const float x = std::bit_cast<float>(bits);
      return std::isfinite(x) ? x : 1.5f;
    }
    case Kind::special:
      return bits % 7 == 0   ? kNaN
             : bits % 7 == 1 ? kInf
             : bits % 7 == 2 ? -kInf
             : bits % 7 == 3 ? -0.0f
                             : static_cast<float>(static_cast<int>(bits % 41) - 20);
    case Kind::signed_zeros:
      return bits % 2 ? 0.0f : -0.0f;
    case Kind::flat:
      return -3.25f;
    case Kind::infinite:
      return bits % 2 ? kInf : -kInf;
    case Kind::nothing:
      return kNaN;
    case Kind::tiny:  // denormals
      return std::bit_cast<float>((bits & 0x80000000u) | bits % 1000);
  }
  return 0;
}

Image<float> image_of(Kind kind, Extent extent, bool with_invalid) {
  std::mt19937 random(extent.rows * 1000 + extent.cols + static_cast<unsigned>(kind));
  Image<float> image;
  image.extent = extent;
  for (std::uint64_t i = 0; i < extent.count(); ++i) image.values.push_back(value_of(kind, random));
  if (with_invalid) {
    image.valid = BitMask(extent.count(), true);
    for (std::uint64_t i = 0; i < extent.count(); ++i)
      if (random() % 5 == 0) image.valid.set(i, false), image.values[i] = 1e30f;
  }
  return image;
}

void expect_same(const Result<Window>& got, const Result<Window>& want) {
  ASSERT_TRUE(got) << got.error().message;
  ASSERT_TRUE(want) << want.error().message;
  EXPECT_EQ(std::bit_cast<std::uint32_t>(got->lo), std::bit_cast<std::uint32_t>(want->lo)) << got->lo << want->lo;
  EXPECT_EQ(std::bit_cast<std::uint32_t>(got->hi), std::bit_cast<std::uint32_t>(want->hi)) << got->hi << want->hi;
  EXPECT_EQ((std::bit_cast<std::array<std::uint32_t, 255>>(got->edges)),
            (std::bit_cast<std::array<std::uint32_t, 255>>(want->edges)));
}

class DeviceDisplay : public testing::Test {
 protected:
  void SetUp() override {
    const auto device = open_device(Backend::cuda);
    if (!device) GTEST_SKIP() << "no CUDA device: " << list_cuda_devices().reason;
    device_ = *device;
  }
  // Calls test(image, the same on the device) for images of every kind and extent.
  template <class F>
  void for_all(F&& test) const {
    for (const Kind kind : kKinds)
      for (const Extent extent : kExtents)
        for (const bool with_invalid : {false, true}) {
          SCOPED_TRACE("kind " + std::to_string(static_cast<int>(kind)) + " " + to_string(extent) +
                       (with_invalid ? " with invalid ones" : ""));
          const Image<float> image = image_of(kind, extent, with_invalid);
          const auto there = to_device(*device_, image);
          ASSERT_TRUE(there) << there.error().message;
          test(image, *there);
        }
  }
  std::optional<Device> device_;
};

TEST_F(DeviceDisplay, C64_WindowsEqualThoseOfTheCpu) {
  for_all([](const Image<float>& image, const DeviceImage& there) {
    for (const Percentiles p : {Percentiles{}, kMinMax, Percentiles{25, 25}, Percentiles{1, 2}, Percentiles{99.9, 100}})
      expect_same(window(there, p), window(image, p));
    expect_same(window(there, {2, 98}, Transform::log), window(image, {2, 98}, Transform::log));
    expect_same(window(there, {}, Transform::power, 0.3), window(image, {}, Transform::power, 0.3));
    for (const double p : {0.0, 50.0, 99.5, 100.0}) expect_same(symmetric_window(there, p), symmetric_window(image, p));
  });
}

TEST_F(DeviceDisplay, C65_HistogramsEqualThoseOfTheCpu) {
  for_all([](const Image<float>& image, const DeviceImage& there) {
    for (const Window& w : {*window(image), *manual_window(-10, 1050, Transform::log), *manual_window(0, 0),
                            *manual_window(-3.25, -3.25), *manual_window(5, -5)}) {
      const auto got = histogram(there, w), want = histogram(image, w);
      ASSERT_TRUE(got) << got.error().message;
      EXPECT_EQ(got->bins, want->bins);
      EXPECT_EQ(got->below, want->below);
      EXPECT_EQ(got->above, want->above);
      EXPECT_EQ(got->invalid, want->invalid);
    }
  });
}

TEST_F(DeviceDisplay, C66_ColoursEqualThoseOfTheCpu) {
  for_all([](const Image<float>& image, const DeviceImage& there) {
    for (const Window& w : {*window(image), *manual_window(-10, 1050, Transform::power), *manual_window(2, 2)}) {
      const auto got = colorize(there, w, "turbo", {1, 2, 3, 4}), want = colorize(image, w, "turbo", {1, 2, 3, 4});
      ASSERT_TRUE(got) << got.error().message;
      EXPECT_EQ(got->extent, image.extent);
      EXPECT_EQ(got->bytes, want->bytes);
    }
  });
}

TEST_F(DeviceDisplay, C62_EdgesThemselvesBelongToTheLevelAbove) {
  const Window w = *manual_window(-7, 1e4, Transform::log);
  Image<float> image;
  for (const float e : w.edges)
    for (const float x : {std::nextafterf(e, -kInf), e, std::nextafterf(e, kInf)}) image.values.push_back(x);
  image.extent = {3, 255};
  const DeviceImage there = *to_device(*device_, image);
  EXPECT_EQ(colorize(there, w, "viridis")->bytes, colorize(image, w, "viridis")->bytes);
}

TEST_F(DeviceDisplay, APictureStaysOnTheDeviceUntilItIsAskedFor) {
  const Image<float> image = image_of(Kind::counts, {37, 41}, true);
  const DeviceImage there = *to_device(*device_, image);
  const Window w = *window(there);
  const auto picture = colorize_on_device(there, w, "magma");
  ASSERT_TRUE(picture) << picture.error().message;
  const auto other = colorize_on_device(there, w, "gray");  // memory of its own
  EXPECT_NE(picture->data(), other->data());
  EXPECT_EQ(to_host(*picture)->bytes, colorize(image, w, "magma")->bytes);
  EXPECT_EQ(to_host(*other)->bytes, colorize(image, w, "gray")->bytes);
}

TEST_F(DeviceDisplay, RefusesWhatTheCpuRefuses) {
  const DeviceImage there = *to_device(*device_, image_of(Kind::counts, {3, 4}, false));
  EXPECT_EQ(window(there, {50, 20}).error().code, Code::invalid_argument);
  EXPECT_EQ(symmetric_window(there, -1).error().code, Code::invalid_argument);
  EXPECT_EQ(window(there, {}, Transform::power, 5).error().code, Code::invalid_argument);
  EXPECT_EQ(colorize(there, *window(there), "jet").error().code, Code::invalid_argument);
}

TEST_F(DeviceDisplay, C67_FftMagnitudesAreThoseOfTheCpu) {
  if (const auto found = find_cufft(); !found) GTEST_SKIP() << found.error().message;
  for (const Extent extent : {Extent{1, 1}, Extent{1, 7}, Extent{11, 1}, Extent{2, 2}, Extent{8, 6}, Extent{7, 13},
                              Extent{12, 9}, Extent{17, 16}, Extent{37, 41}})
    for (const bool with_invalid : {false, true})
      for (const FftOptions options : {FftOptions{}, FftOptions{false, Taper::none}, FftOptions{false, Taper::hann}}) {
        SCOPED_TRACE(to_string(extent));
        Image<float> image = image_of(Kind::counts, extent, with_invalid);
        image.unit = "counts", image.provenance.operation = "a test";
        if (extent.count() > 20) image.values[3] = kNaN, image.values[5] = -kInf;
        const auto want = fft_magnitude(image, options);
        const auto stays = fft_magnitude(*to_device(*device_, image), options);
        ASSERT_EQ(want.ok(), stays.ok());
        if (!want) {  // a 1x1 image that is invalid
          EXPECT_EQ(stays.error().code, want.error().code);
          continue;
        }
        const auto got = to_host(*stays);
        ASSERT_TRUE(got) << got.error().message;
        EXPECT_EQ(got->extent, extent);
        EXPECT_EQ(got->unit, want->unit);
        EXPECT_EQ(got->provenance.operation, "a test");
        const std::uint64_t zero = std::uint64_t{extent.rows / 2} * extent.cols + extent.cols / 2;
        float largest = 0;
        for (std::uint64_t i = 0; i < extent.count(); ++i)
          if (i != zero) largest = std::max(largest, want->values[i]);
        for (std::uint64_t i = 0; i < extent.count(); ++i) {
          const float bound = i == zero ? want->values[zero] : largest;
          ASSERT_NEAR(got->values[i], want->values[i], 1e-5 * bound) << i;
        }
      }
  const auto flat = fft_magnitude(*to_device(*device_, image_of(Kind::flat, {9, 10}, false)), {.log = false});
  const Image<float> flat_host = *to_host(*flat);
  for (const float m : flat_host.values) EXPECT_TRUE(m <= 1e-12 * 90 * 3.25 || m == 90 * 3.25f) << m;
  const auto none = fft_magnitude(*to_device(*device_, image_of(Kind::infinite, {4, 5}, false)));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::missing_data);
}

TEST(Window, C64_ALimitOfZeroIsPositiveZero) {
  Image<float> image;
  image.extent = {1, 4}, image.values = {-0.0f, 0.0f, -0.0f, -0.0f};
  EXPECT_FALSE(std::signbit(window(image)->lo));
  EXPECT_FALSE(std::signbit(window(image, kMinMax)->hi));
}

}  // namespace
}  // namespace quantem
