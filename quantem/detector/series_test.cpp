// masked_sum_series against masked_sum of each volume, bit for bit.

#include "quantem/detector/series.h"

#include <gtest/gtest.h>

#include <cstring>

#include "quantem/detector/masked_sum.h"
#include "tests/support/volumes.h"

namespace quantem {
namespace {

using support::VolumeCase;

// Scans of several shapes over one detector; with and without bad pixels, so that not all can be answered together.
constexpr VolumeCase kCases[] = {{{{1, 511}, {33, 40}}, 1, 0.6, false, true},
                                 {{{27, 19}, {33, 40}}, 2, 4, false, false},
                                 {{{1, 1}, {33, 40}}, 3, 900, false, false},
                                 {{{3, 5}, {33, 40}}, 4, 0.3, true, true},
                                 {{{1, 513}, {33, 40}}, 5, 0.6, false, false}};

void expect_images(const std::vector<Volume>& asked, const std::vector<Volume>& reference, std::string_view path) {
  for (const Mask& mask : support::masks_of({33, 40})) {
    const auto got = masked_sum_series(asked, mask);
    ASSERT_TRUE(got) << got.error().message;
    ASSERT_EQ(got->size(), asked.size());
    for (std::size_t i = 0; i < asked.size(); ++i) {
      const auto want = masked_sum(reference[i], mask);
      ASSERT_TRUE(want);
      ASSERT_EQ((*got)[i].values.size(), want->values.size());
      EXPECT_EQ(std::memcmp((*got)[i].values.data(), want->values.data(), 4 * want->values.size()), 0) << i;
      EXPECT_EQ((*got)[i].extent, want->extent);
      EXPECT_EQ((*got)[i].valid, want->valid);
      EXPECT_TRUE(path.empty() || (*got)[i].provenance.path == path) << (*got)[i].provenance.path;
    }
  }
}

template <class T>
void compare(const Device& device, std::size_t n_volumes, std::string_view path) {
  std::vector<Volume> asked, reference;
  for (std::size_t i = 0; i < n_volumes; ++i) {
    VolumeCase row = kCases[i % std::size(kCases)];
    row.seed += static_cast<std::uint32_t>(10 * (i / std::size(kCases)));
    const auto v = support::make_twins<T>(row, device);
    ASSERT_TRUE(v) << v.error().message;
    asked.push_back(v->encoded);
    reference.push_back(v->dense);
  }
  expect_images(asked, reference, path);
}

TEST(Series, EqualsEachVolumeAlone) {
  compare<std::uint16_t>(*open_device(Backend::cpu), 5, "");
  const auto none = masked_sum_series({}, all_pixels({3, 3}));
  ASSERT_TRUE(none);
  EXPECT_TRUE(none->empty());
}
TEST(Series, AVolumeThatDoesNotFitIsNamedByItsPlace) {
  const auto cpu = open_device(Backend::cpu);
  const auto v = support::make_twins<std::uint16_t>(kCases[3], *cpu);
  const auto other = support::make_twins<std::uint16_t>({{{2, 2}, {7, 9}}, 1, 3, false, false}, *cpu);
  ASSERT_TRUE(v && other);
  const auto refused = masked_sum_series(std::vector<Volume>{v->encoded, v->dense, other->dense}, all_pixels({33, 40}));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::invalid_argument);
  EXPECT_EQ(refused.error().message.rfind("volume 2 of 3: ", 0), 0u) << refused.error().message;
}
TEST(CudaSmallSeries, EqualsEachVolumeAlone) {
  const auto device = open_device(Backend::cuda);
  if (!device) GTEST_SKIP() << "no CUDA device: " << list_cuda_devices().reason;
  compare<std::uint16_t>(*device, 5, "cuda_sliced_series_sum");
}
TEST(CudaSeries, EqualsEachVolumeAloneBeyondOneLaunch) {
  const auto device = open_device(Backend::cuda);
  if (!device) GTEST_SKIP() << "no CUDA device: " << list_cuda_devices().reason;
  compare<std::uint8_t>(*device, 43, "cuda_sliced_series_sum");
  compare<std::uint32_t>(*device, 7, "cuda_sliced_series_sum");
}

}  // namespace
}  // namespace quantem
