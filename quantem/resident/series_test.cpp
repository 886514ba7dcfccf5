// Which acquisitions a series takes, which it leaves out, and what it holds.

#include "quantem/resident/series.h"

#include <gtest/gtest.h>

namespace quantem {
namespace {

Volume volume_of(Extent scan, Extent det) {
  const std::vector<std::uint16_t> counts(scan.count() * det.count(), 3);
  return *from_array(*open_device(Backend::cpu),
                     {Dtype::u16, {scan.rows, scan.cols, det.rows, det.cols}, counts.data()});
}

TEST(ResidentSeries, KeepsOrderNamesAndBytes) {
  const Volume a = volume_of({2, 3}, {7, 9}), b = volume_of({1, 40}, {7, 9});
  Series series;
  EXPECT_EQ(series.detector(), (Extent{0, 0}));
  ASSERT_TRUE(series.add("tilt -10", a) && series.add("tilt 0", b) && series.add("again", a));
  EXPECT_EQ(series.n_acquisitions(), 3u);
  EXPECT_EQ(series.names(), (std::vector<std::string>{"tilt -10", "tilt 0", "again"}));
  EXPECT_EQ(series.volumes()[1].shape(), b.shape());
  EXPECT_EQ(series.detector(), (Extent{7, 9}));
  EXPECT_EQ(series.resident_bytes(), a.resident_bytes() + b.resident_bytes());  // the counts of `a` are there once
  series.close();
  EXPECT_TRUE(series.empty());
  EXPECT_EQ(series.resident_bytes(), 0u);
}

TEST(ResidentSeries, AFailureEndsItOrIsListed) {
  for (const OnError on_error : {OnError::fail, OnError::skip}) {
    Series series(on_error);
    ASSERT_TRUE(series.add("a", volume_of({2, 3}, {7, 9})));
    Volume closed = volume_of({2, 3}, {7, 9});
    closed.close();
    const auto other = series.add("other", volume_of({2, 3}, {9, 7}));
    const auto absent = series.add("absent", Error{Code::io, "absent_master.h5: no such file"});
    const auto shut = series.add("closed", closed);
    EXPECT_EQ(series.n_acquisitions(), 1u);
    if (on_error == OnError::skip) {
      ASSERT_TRUE(other && absent && shut);
      ASSERT_EQ(series.skipped().size(), 3u);
      EXPECT_EQ(series.skipped()[0].name, "other");
      EXPECT_EQ(series.skipped()[0].error.code, Code::invalid_argument);
      EXPECT_EQ(series.skipped()[1].error.message, "absent_master.h5: no such file");
      EXPECT_EQ(series.skipped()[2].error.code, Code::closed);
    } else {
      ASSERT_FALSE(other || absent || shut);
      EXPECT_NE(other.error().message.find("series: other: its detector is (9, 7)"), std::string::npos)
          << other.error().message;
      EXPECT_EQ(absent.error().code, Code::io);
      EXPECT_EQ(shut.error().code, Code::closed);
      EXPECT_TRUE(series.skipped().empty());
    }
    // A mistake of the caller, and the user's stop, are never passed over.
    EXPECT_EQ(series.add("a", volume_of({2, 3}, {7, 9})).error().code, Code::invalid_argument);
    EXPECT_EQ(series.add("", volume_of({2, 3}, {7, 9})).error().code, Code::invalid_argument);
    EXPECT_EQ(series.add("late", Error{Code::cancelled, "load cancelled"}).error().code, Code::cancelled);
    EXPECT_TRUE(series.add("b", volume_of({1, 1}, {7, 9})));
  }
  EXPECT_EQ(*parse_on_error("skip"), OnError::skip);
  EXPECT_FALSE(parse_on_error("ignore"));
}

}  // namespace
}  // namespace quantem
