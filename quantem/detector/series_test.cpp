// masked_sum_series against masked_sum of each volume, bit for bit.

#include "quantem/detector/series.h"

#include <gtest/gtest.h>

#include <cstring>

#include "quantem/detector/masked_sum.h"
#include "quantem/detector/mean_pattern.h"
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
// Three acquisitions with the disc of radius 6 at other places; dense and encoded, other scans.
Volume with_disc(double row, double col, Representation representation, Extent scan) {
  const Extent det{33, 40};
  std::vector<std::uint16_t> counts(scan.count() * det.count(), 1);
  const Mask disc = *disk({row, col}, 6, det);
  for (std::uint64_t i = 0; i < counts.size(); ++i)
    if (disc.bits[i % det.count()]) counts[i] = static_cast<std::uint16_t>(90 + i % 7);
  FromArrayOptions o;
  o.representation = representation;
  return *from_array(*open_device(Backend::cpu), {Dtype::u16, {scan.rows, scan.cols, 33, 40}, counts.data()}, o);
}
Series three_discs() {
  Series series;
  EXPECT_TRUE(series.add("a", with_disc(16, 20, Representation::encoded, {3, 4})));
  EXPECT_TRUE(series.add("b", with_disc(13, 22, Representation::dense, {5, 2})));
  EXPECT_TRUE(series.add("c", with_disc(18, 17, Representation::encoded, {1, 9})));
  return series;
}

TEST(Series, OneDiscForAllOrEachItsOwn) {
  const Series series = three_discs();
  for (const SeriesProbe which : {SeriesProbe::first, SeriesProbe::each}) {
    const auto answer = band(series, Band::bf, which);
    ASSERT_TRUE(answer) << answer.error().message;
    ASSERT_EQ(answer->images.size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) {
      const Volume& volume = series.volumes()[i];
      const Volume& from = series.volumes()[which == SeriesProbe::first ? 0 : i];
      const auto probe = auto_probe(*mean_pattern(from), from.valid_pixels());
      ASSERT_TRUE(probe);
      EXPECT_EQ(answer->probes[i].center.row, probe->center.row);
      const auto want = masked_sum(volume, *band(Band::bf, *probe, {33, 40}));
      EXPECT_EQ(answer->images[i].values, want->values) << i;
      ASSERT_TRUE(answer->images[i].provenance.probe);
      EXPECT_EQ(answer->images[i].provenance.probe->center.col, probe->center.col);
    }
  }
  const auto given = band(series, Band::bf, SeriesProbe::each, {Point{1, 2}, 3.0});
  ASSERT_TRUE(given);
  EXPECT_EQ(given->probes[2].center_origin, Origin::caller);
  const std::vector<std::uint16_t> flat(4 * 33 * 40, 5);
  Series with_flat = series;
  ASSERT_TRUE(with_flat.add("flat", from_array(*open_device(Backend::cpu), {Dtype::u16, {2, 2, 33, 40}, flat.data()})));
  const auto none = band(with_flat, Band::bf, SeriesProbe::each);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::undetermined);
  EXPECT_EQ(none.error().message.rfind("series: flat: ", 0), 0u) << none.error().message;
  EXPECT_TRUE(band(with_flat, Band::bf, SeriesProbe::first));
}

TEST(Series, EveryQueryAnswersInTheOrderOfTheSeries) {
  const Series series = three_discs();
  const std::vector<Mask> masks = support::masks_of({33, 40});
  const auto images = masked_sums(series, masks);
  const auto patterns = mean_patterns(series);
  ASSERT_TRUE(images && patterns);
  ASSERT_EQ(images->size(), masks.size());
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t m = 0; m < masks.size(); ++m)
      EXPECT_EQ((*images)[m][i].values, masked_sum(series.volumes()[i], masks[m])->values);
    EXPECT_EQ((*patterns)[i].values, mean_pattern(series.volumes()[i])->values);
  }
  const auto one = masked_sum(series, masks[0]);
  ASSERT_TRUE(one);
  EXPECT_EQ((*one)[1].values, (*images)[0][1].values);
  const Series empty;
  EXPECT_TRUE(masked_sum(empty, masks[0])->empty());
  EXPECT_TRUE(band(empty, Band::bf, SeriesProbe::first)->images.empty());
}

TEST(Series, CountsItsAcquisitionsAndCanBeStopped) {
  const Series series = three_discs();
  std::vector<Progress> seen;
  ASSERT_TRUE(masked_sum(series, all_pixels({33, 40}), {[&](const Progress& p) { seen.push_back(p); }, {}}));
  ASSERT_FALSE(seen.empty());
  EXPECT_STREQ(seen.back().unit, "acquisitions");
  EXPECT_EQ(seen.back().done, 3u);
  EXPECT_EQ(seen.back().total, 3u);
  std::stop_source stop;
  stop.request_stop();
  const Job stopped{{}, stop.get_token()};
  EXPECT_EQ(masked_sum(series, all_pixels({33, 40}), stopped).error().code, Code::cancelled);
  EXPECT_EQ(mean_patterns(series, stopped).error().code, Code::cancelled);
  EXPECT_EQ(band(series, Band::bf, SeriesProbe::each, {}, stopped).error().code, Code::cancelled);
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
