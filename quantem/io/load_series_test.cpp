// A series from files: order, what is left out, one budget for all.

#include "quantem/io/load_series.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "quantem/io/save.h"

namespace quantem {
namespace {

namespace fs = std::filesystem;

struct Folder {
  fs::path path = fs::temp_directory_path() / ("quantem_series_" + std::to_string(::getpid()));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
};

// Scan (4, 5) of frames (6, 7), every count `value`, as .npy.
SeriesSource source_of(const Folder& folder, const std::string& name, std::uint16_t value, Extent det = {6, 7}) {
  const std::vector<std::uint16_t> counts(20 * det.count(), value);
  const fs::path path = folder.path / (name + ".npy");
  EXPECT_TRUE(write_npy(path, {Dtype::u16, {4, 5, det.rows, det.cols}, counts.data()}));
  return {name, path, {}};
}

TEST(LoadSeries, LoadsInOrderAndListsWhatItSkips) {
  const Folder folder;
  std::vector<SeriesSource> sources{source_of(folder, "one", 1),
                                    source_of(folder, "wide", 2, {6, 8}),
                                    {"absent", folder.path / "absent.npy", {}},
                                    source_of(folder, "three", 3)};
  const Device cpu = *open_device(Backend::cpu);
  SeriesOptions options;
  const auto strict = load_series(cpu, sources, options);
  ASSERT_FALSE(strict);
  EXPECT_EQ(strict.error().message.rfind("series: wide: ", 0), 0u) << strict.error().message;
  options.on_error = OnError::skip;
  const auto series = load_series(cpu, sources, options);
  ASSERT_TRUE(series) << series.error().message;
  EXPECT_EQ(series->names(), (std::vector<std::string>{"one", "three"}));
  EXPECT_EQ(series->volumes()[1].audit().count_max, 3);
  ASSERT_EQ(series->skipped().size(), 2u);
  EXPECT_EQ(series->skipped()[1].name, "absent");
  EXPECT_NE(series->skipped()[1].error.message.find("absent.npy"), std::string::npos);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(load_series(cpu, sources, options, {{}, stop.get_token()}).error().code, Code::cancelled);
}

TEST(LoadSeries, OneBudgetHoldsForAllTogether) {
  const Folder folder;
  std::vector<SeriesSource> sources;
  for (std::uint16_t i = 0; i < 4; ++i)
    sources.push_back(source_of(folder, "t" + std::to_string(i), static_cast<std::uint16_t>(i + 1)));
  const Device cpu = *open_device(Backend::cpu);
  const auto e = estimate(cpu, *inspect(sources[0].path));
  const auto one = load(cpu, *inspect(sources[0].path));
  ASSERT_TRUE(e && one);
  SeriesOptions options;
  options.on_error = OnError::skip;
  // Room for one load beside two that are there; the fourth would be beside three.
  options.memory_limit_bytes =
      e->resident_bytes + e->work_bytes + 2 * one->resident_bytes() + one->resident_bytes() / 2;
  const auto series = load_series(cpu, sources, options);
  ASSERT_TRUE(series) << series.error().message;
  EXPECT_EQ(series->n_acquisitions(), 3u);
  ASSERT_EQ(series->skipped().size(), 1u);
  EXPECT_EQ(series->skipped()[0].error.code, Code::out_of_memory);
  EXPECT_LE(series->resident_bytes(), options.memory_limit_bytes);
  options.on_error = OnError::fail;
  EXPECT_EQ(load_series(cpu, sources, options).error().code, Code::out_of_memory);
}

}  // namespace
}  // namespace quantem
