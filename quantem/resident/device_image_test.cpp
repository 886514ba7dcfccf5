// Images on a CUDA device: a copy there and back changes no bit, elements without a value are NaN there, handles keep the memory.

#include "quantem/resident/device_image.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "tests/support/splitmix64.h"

namespace quantem {
namespace {

// Any bits, NaN with payloads and both zeros among them.
Image<float> image_of(Extent extent, std::uint64_t seed) {
  Image<float> image;
  image.extent = extent, image.unit = "counts", image.provenance.operation = "a test";
  for (std::uint64_t i = 0; i < extent.count(); ++i)
    image.values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(support::splitmix64(seed + i))));
  image.values[0] = -0.0f;
  return image;
}

std::vector<std::uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<std::uint32_t> out;
  for (const float x : values) out.push_back(std::bit_cast<std::uint32_t>(x));
  return out;
}

TEST(DeviceImage, WhatCannotGoToADeviceIsRefused) {
  const auto cpu = open_device(Backend::cpu);
  const auto refused = to_device(*cpu, image_of({2, 3}, 1));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::invalid_argument);
  EXPECT_NE(refused.error().message.find("open_device"), std::string::npos) << refused.error().message;
  Image<float> wrong = image_of({2, 3}, 1);
  wrong.values.pop_back();
  EXPECT_NE(to_device(*cpu, wrong).error().message.find("5 values"), std::string::npos);
  wrong = image_of({2, 3}, 1);
  wrong.valid = BitMask(7, true);
  EXPECT_NE(to_device(*cpu, wrong).error().message.find("7 valid bits"), std::string::npos);
  EXPECT_FALSE(to_device(*cpu, Image<float>{}));
}

TEST(DeviceImage, ACopyThereAndBackChangesNoBit) {
  const auto device = open_device(Backend::cuda);
  if (!device) GTEST_SKIP() << "no CUDA device: " << list_cuda_devices().reason;
  for (const Extent extent : {Extent{1, 1}, Extent{1, 63}, Extent{64, 1}, Extent{37, 41}, Extent{300, 257}}) {
    Image<float> image = image_of(extent, extent.rows);
    const auto there = to_device(*device, image);
    ASSERT_TRUE(there) << there.error().message;
    EXPECT_EQ(there->extent(), extent);
    EXPECT_EQ(there->unit(), "counts");
    ASSERT_TRUE(finish(*there));
    const auto back = to_host(*there);
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(bits_of(back->values), bits_of(image.values)) << to_string(extent);
    EXPECT_EQ(back->provenance.operation, "a test");
    EXPECT_EQ(back->valid.count(), 0u);
  }
}

TEST(DeviceImage, C17_WhatHasNoValueIsTheQuietNaN) {
  const auto device = open_device(Backend::cuda);
  if (!device) GTEST_SKIP() << "no CUDA device: " << list_cuda_devices().reason;
  for (const Extent extent : {Extent{1, 1}, Extent{1, 63}, Extent{64, 1}, Extent{37, 41}}) {
    Image<float> image = image_of(extent, 7);
    image.valid = BitMask(extent.count(), true);
    for (std::uint64_t i = 0; i < extent.count(); i += 3) image.valid.set(i, false);
    image.valid.set(extent.count() - 1, false);
    const auto there = to_device(*device, image);
    ASSERT_TRUE(there) << there.error().message;
    const auto back = to_host(*there);
    ASSERT_TRUE(back);
    EXPECT_EQ(back->valid, image.valid);
    std::vector<std::uint32_t> want = bits_of(image.values);
    for (std::uint64_t i = 0; i < extent.count(); ++i)
      if (!image.valid[i]) want[i] = 0x7FC00000u;
    EXPECT_EQ(bits_of(back->values), want) << to_string(extent);
  }
}

TEST(DeviceImage, HandlesShareTheMemoryAndTheNextImageTakesIt) {
  const auto device = open_device(Backend::cuda);
  if (!device) GTEST_SKIP() << "no CUDA device: " << list_cuda_devices().reason;
  const Image<float> a = image_of({50, 60}, 1), b = image_of({50, 60}, 2);
  std::optional<DeviceImage> first = *to_device(*device, a);
  const DeviceImage copy = *first;
  first.reset();
  const DeviceImage second = *to_device(*device, b);
  EXPECT_NE(copy.data(), second.data());  // the copy still holds it
  EXPECT_EQ(bits_of(to_host(copy)->values), bits_of(a.values));
  EXPECT_EQ(bits_of(to_host(second)->values), bits_of(b.values));
  const float* was_at = nullptr;
  {
    const DeviceImage short_lived = *to_device(*device, a);
    was_at = short_lived.data();
  }
  EXPECT_EQ(to_device(*device, b)->data(), was_at);
}

}  // namespace
}  // namespace quantem
