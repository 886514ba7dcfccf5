// Every operation on encoded volumes of a CUDA device against the dense reference on the CPU, bit for bit.

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "quantem/detector/masked_sum.h"
#include "quantem/detector/masked_sum_on_device.h"
#include "quantem/detector/mean_pattern.h"
#include "quantem/detector/session.h"
#include "tests/support/volumes.h"

namespace quantem {
namespace {

using support::bytes_of, support::masks_of, support::Twins, support::VolumeCase;

constexpr VolumeCase kSmall[] = {
    {{{1, 1}, {1, 1}}, 1, 3, false, false},           {{{1, 7}, {7, 9}}, 2, 0.6, true, true},
    {{{3, 5}, {33, 40}}, 3, 0.3, true, false},        {{{27, 19}, {5, 3}}, 4, 900, false, true},
    {{{3, 5}, {33, 45}}, 16, 0.9, true, false, true},
};
constexpr VolumeCase kLarge[] = {
    {{{1, 511}, {7, 9}}, 5, 0.6, false, true},       {{{27, 19}, {1, 1}}, 6, 900, false, false},
    {{{3, 5}, {96, 96}}, 7, 0.3, true, false},       {{{2, 3}, {193, 191}}, 8, 2, true, true},
    {{{101, 99}, {33, 40}}, 9, 0.2, true, true},     {{{7, 5}, {1, 64}}, 10, 5, false, false},
    {{{7, 5}, {64, 1}}, 11, 5, true, false},         {{{20, 30}, {40, 72}}, 12, 30, true, false},
    {{{5, 7}, {256, 256}}, 13, 1, false, true},      {{{90, 100}, {16, 24}}, 14, 0.05, false, false},
    {{{200, 201}, {2, 3}}, 15, 3, false, true},      {{{2, 3}, {193, 191}}, 17, 2, true, true, true},
    {{{13, 43}, {96, 96}}, 18, 1, true, true, true},
};

void compare_sums(const Twins& v) {
  const std::vector<Mask> masks = masks_of(v.dense.shape().det);
  const auto together = masked_sums(v.encoded, masks);
  ASSERT_TRUE(together) << together.error().message;
  for (std::size_t m = 0; m < masks.size(); ++m) {
    const auto want = masked_sum_exact(v.dense, masks[m]), got = masked_sum_exact(v.encoded, masks[m]);
    ASSERT_TRUE(want && got);
    EXPECT_EQ(got->provenance.path.rfind("cuda_sliced_", 0), 0u) << got->provenance.path;
    EXPECT_EQ(want->values, got->values) << "mask " << m;
    EXPECT_EQ(want->valid, got->valid);
    const auto one = masked_sum(v.dense, masks[m]), alone = masked_sum(v.encoded, masks[m]);
    EXPECT_EQ(std::memcmp(one->values.data(), (*together)[m].values.data(), one->values.size() * 4), 0) << "mask " << m;
    EXPECT_EQ(std::memcmp(one->values.data(), alone->values.data(), one->values.size() * 4), 0) << "mask " << m;
    const auto stays = masked_sum_on_device(v.encoded, masks[m]);
    ASSERT_TRUE(stays) << stays.error().message;
    const auto host = to_host(*stays);
    ASSERT_TRUE(host) << host.error().message;
    EXPECT_EQ(std::memcmp(alone->values.data(), host->values.data(), alone->values.size() * 4), 0) << "mask " << m;
    EXPECT_EQ(host->valid, alone->valid);
    EXPECT_EQ(host->unit, alone->unit);
    EXPECT_EQ(to_json(host->provenance), to_json(alone->provenance));
  }
}

void compare_moved_masks(const Twins& v) {  // each image may be made from the one before
  const Extent det = v.dense.shape().det;
  auto session = prepare(v.encoded);
  ASSERT_TRUE(session);
  for (int shift = 0; shift < 6; ++shift) {
    const auto mask = disk({0.4 * det.rows, 0.4 * det.cols + shift * shift}, 0.2 * det.cols + 1, det);
    const auto want = masked_sum_exact(v.dense, *mask), got = session->move_exact(*mask);
    ASSERT_TRUE(want && got);
    EXPECT_EQ(want->values, got->values) << "shift " << shift;
  }
}

void compare_moments(const Twins& v) {
  const std::vector<Mask> masks = masks_of(v.dense.shape().det);
  std::vector<const Mask*> all{nullptr};
  for (const Mask& m : masks) all.push_back(&m);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto want = moment_sums(v.dense, all[i]), got = moment_sums(v.encoded, all[i]);
    ASSERT_TRUE(want && got);
    EXPECT_EQ(want->total, got->total) << i;
    EXPECT_EQ(want->row, got->row) << i;
    EXPECT_EQ(want->col, got->col) << i;
  }
}

void compare_weighted(const Twins& v) {
  std::mt19937 random(5);
  std::vector<double> w(v.dense.shape().frame_pixels());
  for (double& x : w) x = static_cast<double>(random()) / 4294967296.0 - 0.4;
  w[0] = 0;
  const auto weights = weights_from(w, v.dense.shape().det);
  const auto want = weighted_sum(v.dense, *weights), got = weighted_sum(v.encoded, *weights);
  ASSERT_TRUE(want && got);
  EXPECT_EQ(std::memcmp(want->values.data(), got->values.data(), want->values.size() * 4), 0);
  const auto m_want = moment_sums_weighted(v.dense, *weights), m_got = moment_sums_weighted(v.encoded, *weights);
  ASSERT_EQ(m_want.ok(), m_got.ok());
  if (!m_want) return;
  EXPECT_EQ(m_want->total, m_got->total);
  EXPECT_EQ(m_want->row, m_got->row);
  EXPECT_EQ(m_want->col, m_got->col);
}

void compare_patterns(const Twins& v) {
  EXPECT_EQ(sum_pattern(v.dense)->values, sum_pattern(v.encoded)->values);
  EXPECT_EQ(mean_pattern(v.dense)->values, mean_pattern(v.encoded)->values);
  EXPECT_EQ(bytes_of(*max_pattern(v.dense)), bytes_of(*max_pattern(v.encoded)));
  const Extent scan = v.dense.shape().scan;
  BitMask scattered(scan.count()), first(scan.count()), part(scan.count());
  first.set(0);
  for (std::uint64_t n = 0; n < scan.count(); ++n) scattered.set(n, n == 0 || (n * 40503 >> 3 & 1));
  for (std::uint64_t n = 0; n < scan.count(); ++n)
    part.set(n, n == 0 || (n / scan.cols > scan.rows / 2 && n % scan.cols < scan.cols / 3 + 1));
  for (const BitMask& members : {scattered, first, part}) {
    const auto set = scan_set(members, scan);
    EXPECT_EQ(region_sum(v.dense, *set)->values, region_sum(v.encoded, *set)->values);
    EXPECT_EQ(bytes_of(*region_max(v.dense, *set)), bytes_of(*region_max(v.encoded, *set)));
  }
}

void compare_frames(const Twins& v) {
  const Shape4& shape = v.dense.shape();
  for (const std::uint64_t n : {std::uint64_t{0}, shape.n_positions() / 2, shape.n_positions() - 1}) {
    const Position at{static_cast<std::uint32_t>(n / shape.scan.cols), static_cast<std::uint32_t>(n % shape.scan.cols)};
    const auto want = frame(v.dense, at), got = frame(v.encoded, at);
    ASSERT_EQ(want.ok(), got.ok());
    EXPECT_TRUE(!want || bytes_of(*want) == bytes_of(*got)) << n;
  }
  const auto want = frame_statistics(v.dense), got = frame_statistics(v.encoded);
  ASSERT_TRUE(want && got);
  EXPECT_EQ(want->total, got->total);
  EXPECT_EQ(want->max, got->max);
  EXPECT_EQ(want->argmax, got->argmax);
  EXPECT_EQ(want->n_nonzero, got->n_nonzero);
  EXPECT_EQ(want->n_saturated, got->n_saturated);
  ReadOptions o;
  o.fill = 7;
  const auto part = [](Extent e) { return Region{e.rows / 3, e.rows, e.cols / 4, e.cols}; };
  const auto inner = [](Extent e) { return Region{0, e.rows / 2 + 1, 0, e.cols / 2 + 1}; };
  const Region scans[] = {whole(shape.scan), part(shape.scan), inner(shape.scan)};
  const Region dets[] = {whole(shape.det), part(shape.det), inner(shape.det)};
  for (int i = 0; i < 3; ++i) {
    const auto dense = read(v.dense, scans[i], dets[i], o), cuda = read(v.encoded, scans[i], dets[i], o);
    ASSERT_TRUE(dense && cuda);
    EXPECT_EQ(cuda->provenance.path, "cuda_sliced_read");
    EXPECT_TRUE(bytes_of(*dense) == bytes_of(*cuda)) << "region " << i;
  }
}

template <class T>
void compare_all(const VolumeCase& row, const Device& device) {
  SCOPED_TRACE(to_string(row.shape) + " " + std::string(dtype_name(dtype_of<T>())));
  const auto v = support::make_twins<T>(row, device);
  ASSERT_TRUE(v) << v.error().message;
  compare_sums(*v);
  compare_moved_masks(*v);
  compare_moments(*v);
  compare_weighted(*v);
  compare_patterns(*v);
  compare_frames(*v);
}

template <class T>
class CudaSmallSliced : public testing::Test {};
template <class T>
class CudaSliced : public testing::Test {};
using Counts = testing::Types<std::uint8_t, std::uint16_t, std::uint32_t>;
TYPED_TEST_SUITE(CudaSmallSliced, Counts);
TYPED_TEST_SUITE(CudaSliced, Counts);

TYPED_TEST(CudaSmallSliced, C80_EveryOperationEqualsTheDenseReference) {
  const auto device = open_device(Backend::cuda);
  if (!device) GTEST_SKIP() << "no CUDA device: " << list_cuda_devices().reason;
  for (const VolumeCase& row : kSmall) compare_all<TypeParam>(row, *device);
}
TYPED_TEST(CudaSliced, C80_EveryOperationEqualsTheDenseReference) {
  const auto device = open_device(Backend::cuda);
  if (!device) GTEST_SKIP() << "no CUDA device: " << list_cuda_devices().reason;
  for (const VolumeCase& row : kLarge) compare_all<TypeParam>(row, *device);
}

TEST(CudaSliced, SumsOfU32PassTwoToThe32) {
  const auto device = open_device(Backend::cuda);
  if (!device) GTEST_SKIP() << "no CUDA device: " << list_cuda_devices().reason;
  const std::vector<std::uint32_t> counts(2 * 192 * 192, 0xFFFFFFFEu);
  const auto v = from_array(*device, {Dtype::u32, {1, 2, 192, 192}, counts.data()});
  ASSERT_TRUE(v);
  const std::uint64_t want = 36864 * std::uint64_t{0xFFFFFFFEu};
  EXPECT_EQ(masked_sum_exact(*v, all_pixels({192, 192}))->values, (std::vector<std::uint64_t>{want, want}));
  Mask chess = all_pixels({192, 192});
  for (std::uint64_t p = 0; p < 36864; p += 2) chess.bits.set(p, false);
  EXPECT_EQ(masked_sum_exact(*v, chess)->values[1], want / 2);
  EXPECT_EQ(moment_sums(*v)->row[0], 0xFFFFFFFEull * 192 * (191 * 192 / 2));
  EXPECT_EQ(sum_pattern(*v)->values[77], 2 * 0xFFFFFFFEull);
}

}  // namespace
}  // namespace quantem
