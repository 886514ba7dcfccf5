// Encoded volumes on a CUDA device: the device encoder makes the same streams as the reference, and moving a volume changes nothing.

#include <gtest/gtest.h>

#include <limits>

#include "quantem/resident/sliced_device.h"
#include "quantem/resident/sliced_device_encode.h"
#include "quantem/resident/sliced_encode.h"
#include "tests/support/same_streams.h"
#include "tests/support/splitmix64.h"

namespace quantem {
namespace {

class Cuda : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto device = open_device(Backend::cuda);
    if (!device) GTEST_SKIP() << "no CUDA device: " << list_cuda_devices().reason;
    device_ = *device;
    const auto context = CudaContext::of(*device_);
    ASSERT_TRUE(context) << context.error().message;
    context_ = *context;
  }
  std::optional<Device> device_;
  CudaContext* context_ = nullptr;
};

// Mostly small counts with a bright middle, some of any size; the last position of each block and a few pixels at the extremes.
template <class T>
std::vector<T> counts_of(Extent det, std::uint64_t n, std::uint64_t seed) {
  std::vector<T> v(det.count() * n);
  for (std::uint64_t i = 0; i < v.size(); ++i) {
    const std::uint64_t x = support::splitmix64(seed * 977 + i), p = i % det.count();
    v[i] = static_cast<T>(x % (p % 7 == 0 ? 19 : 3));
    if (x >> 52 == 0) v[i] = static_cast<T>(x >> 8);
    if (p % 97 == 5) v[i] = 0;
    if (p % 211 == 17) v[i] = static_cast<T>(std::numeric_limits<T>::max() - (x & 1));
  }
  return v;
}

template <class T>
void encode_and_compare(CudaContext& context, Extent det, std::uint64_t n, std::uint32_t slab_blocks,
                        bool tiles_4 = false) {
  SCOPED_TRACE(to_string(det) + " x " + std::to_string(n) + " u" + std::to_string(8 * sizeof(T)));
  std::vector<T> values = counts_of<T>(det, n, det.rows + n);
  SlicedDeviceBuilder::Options options;
  options.layout = SlicedLayout(det, tiles_4);
  options.n_positions = n;
  options.item_bits = 8 * sizeof(T);
  options.slab_blocks = slab_blocks;
  options.valid_pixels = BitMask(det.count(), true);
  if (det.count() > 4) options.valid_pixels.set(det.count() / 2, false);
  options.saturation = static_cast<double>(std::numeric_limits<T>::max());
  auto builder = SlicedDeviceBuilder::make(context, options);
  ASSERT_TRUE(builder) << builder.error().message;
  const std::uint64_t n_blocks = (n + kBlockPositions - 1) / kBlockPositions;
  auto frames = context.allocate(std::uint64_t{slab_blocks} * kBlockPositions * det.count() * sizeof(T), "frames");
  ASSERT_TRUE(frames);
  for (std::uint64_t first = 0, slab = 0; first < n_blocks; first += slab_blocks, ++slab) {
    const auto lane = static_cast<std::uint32_t>(slab % options.n_lanes);
    const auto blocks = static_cast<std::uint32_t>(std::min<std::uint64_t>(slab_blocks, n_blocks - first));
    const auto from = first * kBlockPositions;
    const auto n_frames = static_cast<std::uint32_t>(std::min<std::uint64_t>(blocks * kBlockPositions, n - from));
    ASSERT_TRUE((*builder)->place(lane));
    ASSERT_TRUE(context.copy_up(frames->data(), values.data() + from * det.count(),
                                std::uint64_t{n_frames} * det.count() * sizeof(T)));
    std::vector<std::uint32_t> present(std::size_t{slab_blocks} * 16);
    for (std::uint32_t i = 0; i < n_frames; ++i) present[i / 32] |= 1u << i % 32;
    ASSERT_TRUE(context.copy_up((*builder)->rows(lane).present, present.data(), present.size() * 4));
    ASSERT_TRUE((*builder)->rows_from_values(lane, frames->data(), n_frames));
    ASSERT_TRUE((*builder)->encode(lane, first, blocks));
    ASSERT_TRUE((*builder)->place(lane));  // one frame buffer serves all slabs here
  }
  DeviceAudit audit;
  std::vector<FlaggedSample> flagged;
  auto volume = (*builder)->finish(audit, flagged);
  ASSERT_TRUE(volume) << volume.error().message;
  auto got = download_sliced(context, **volume);
  ASSERT_TRUE(got) << got.error().message;

  DeviceAudit expected;
  std::uint64_t least = ~std::uint64_t{0};
  bool first = true;
  for (std::uint64_t i = 0; i < values.size(); ++i) {
    const auto p = static_cast<std::uint32_t>(i % det.count());
    if (!options.valid_pixels[p]) {
      values[i] = 0;
      continue;
    }
    const std::uint64_t x = values[i];
    expected.n_nonzero += x > 0, expected.n_above_255 += x > 255, expected.n_above_65535 += x > 65535;
    expected.n_saturated += static_cast<double>(x) >= options.saturation;
    least = std::min(least, x);
    if (first || x > expected.count_max)
      expected.count_max = static_cast<std::uint32_t>(x), expected.max_position = i / det.count(),
      expected.max_pixel = p;
    first = false;
  }
  EXPECT_EQ(audit.n_nonzero, expected.n_nonzero);
  EXPECT_EQ(audit.n_above_255, expected.n_above_255);
  EXPECT_EQ(audit.n_above_65535, expected.n_above_65535);
  EXPECT_EQ(audit.n_saturated, expected.n_saturated);
  EXPECT_EQ(audit.count_min, least);
  EXPECT_EQ(audit.count_max, expected.count_max);
  EXPECT_EQ(audit.max_position, expected.max_position);
  EXPECT_EQ(audit.max_pixel, expected.max_pixel);
  const auto want = encode_sliced<T>(options.layout, values, n);
  ASSERT_TRUE(want);
  support::expect_same_streams(*want, *got);

  auto moved = upload_sliced(context, *want);
  ASSERT_TRUE(moved) << moved.error().message;
  auto back = download_sliced(context, **moved);
  ASSERT_TRUE(back);
  support::expect_same_streams(*want, *back);
  EXPECT_EQ((*moved)->mean_planes, (*volume)->mean_planes);
}

TEST_F(Cuda, DeviceEncoderEqualsTheReference_u8) {
  encode_and_compare<std::uint8_t>(*context_, {1, 1}, 1, 2);
  encode_and_compare<std::uint8_t>(*context_, {7, 9}, 511, 2);
  encode_and_compare<std::uint8_t>(*context_, {96, 96}, 1300, 2);
  encode_and_compare<std::uint8_t>(*context_, {7, 9}, 511, 2, true);
}
TEST_F(Cuda, DeviceEncoderEqualsTheReference_u16) {
  encode_and_compare<std::uint16_t>(*context_, {13, 11}, 513, 1);
  encode_and_compare<std::uint16_t>(*context_, {193, 191}, 700, 2);
  encode_and_compare<std::uint16_t>(*context_, {192, 192}, 2100, 2);
  encode_and_compare<std::uint16_t>(*context_, {193, 191}, 513, 2, true);
}
TEST_F(Cuda, DeviceEncoderEqualsTheReference_u32) {
  encode_and_compare<std::uint32_t>(*context_, {64, 1}, 512, 1);
  encode_and_compare<std::uint32_t>(*context_, {1, 64}, 20, 1);
  encode_and_compare<std::uint32_t>(*context_, {33, 40}, 1536, 2);
  encode_and_compare<std::uint32_t>(*context_, {45, 70}, 600, 2, true);
}

}  // namespace
}  // namespace quantem
