// Field cases of paths (group 6), of scans that do not fit their frames (G04, G05, G07) and of calibration beside a file (U01).

#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tests/support/hdf5_writer.h"
#include "tests/support/open.h"

namespace quantem {
namespace {
using namespace support;

fs::path write_l01(const fs::path& folder, const ArinaForm& form = {}) {
  return write_arina_set(folder, const_frames(25, 8, 8), {10, 10, 5}, 8, 8, form);
}

TEST(Paths, P01_APathIsTheUsersBytes) {
  const Folder folder("P01");
  const std::string name = "\xd1\x82\xd0\xb5\xd1\x81\xd1\x82 \xc3\xbc \xed\x95\x9c\xea\xb8\x80";
  const fs::path master = write_l01(folder / name, {.stem = "\xc3\x85_1"});
  EXPECT_EQ(ready_sums(master, scan(5, 5)), ramp_sums(25));
  fs::remove(folder / name / "\xc3\x85_1_data_000002.h5");
  EXPECT_HOLDS(refusal(master, scan(5, 5)).message,
               "\xc3\x85_1_data_000002.h5 not found in " + (folder / name).string());
}

TEST(Paths, P02_APathIsNoPattern) {
  const Folder folder("P02");
  const fs::path master = write_l01(folder / "a 'b' #1 50% [x]*,y.z");
  EXPECT_EQ(ready_sums(master, scan(5, 5)), ramp_sums(25));
}

TEST(Paths, P03_LinksStartAtTheRealMaster) {
  const Folder folder("P03");
  const fs::path master = write_l01(folder / "data", {.side = std::pair(5, 5)});
  fs::create_directories(folder / "elsewhere");
  fs::create_symlink(master, folder / "elsewhere/link_master.h5");
  const Container c = open(folder / "elsewhere/link_master.h5");
  EXPECT_EQ(sum_image(c), ramp_sums(25));
  EXPECT_EQ(c.scan_shape_origin, Origin::side_file);
  const fs::path here = fs::current_path();
  fs::current_path(folder / "elsewhere");
  EXPECT_EQ(ready_sums("../data/x_master.h5"), ramp_sums(25));
  fs::current_path(folder / "data");
  EXPECT_EQ(ready_sums("x_master.h5"), ramp_sums(25));
  // Neither the environment's prefix nor the current directory is searched.
  fs::rename(folder / "data/x_data_000002.h5", folder / "elsewhere/x_data_000002.h5");
  fs::current_path(folder / "elsewhere");
  ::setenv("HDF5_EXT_PREFIX", (folder / "elsewhere").c_str(), 1);
  EXPECT_EQ(refusal(master).code, Code::missing_data);
  ::unsetenv("HDF5_EXT_PREFIX");
  fs::current_path(here);
  EXPECT_HOLDS(refusal("~/x_master.h5").message, "~ is not expanded");
  EXPECT_EQ(refusal("~/x_master.h5").code, Code::io);
}

TEST(Paths, C75_AChangedFileIsStale) {
  const Folder folder("C75");
  const fs::path master = write_l01(folder.path());
  const Container c = open(master, scan(5, 5));
  ASSERT_EQ(c.files.size(), 4u);
  ASSERT_EQ(c.identity.size(), 4u);
  EXPECT_TRUE(check_unchanged(c));
  fs::resize_file(folder / "x_data_000002.h5", fs::file_size(folder / "x_data_000002.h5") + 1);
  const auto changed = check_unchanged(c);
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().code, Code::stale_source);
  EXPECT_HOLDS(changed.error().message, "x_data_000002.h5");
}

TEST(Scans, G04_WhatIsStoredBeatsWhatIsClaimed) {
  const Folder folder("G04");
  const fs::path master = write_arina_set(folder.path(), const_frames(15, 8, 8), {15}, 8, 8, {.side = std::pair(4, 4)});
  const Container given = open(master, scan(3, 5));
  ASSERT_FALSE(given.not_ready) << given.not_ready->message;
  EXPECT_EQ(given.scan_shape_origin, Origin::caller);
  EXPECT_EQ(sum_image(given), ramp_sums(15));
  const Error error = refusal(master);
  EXPECT_HOLDS(error.message, "15 of 16");
  // More frames than the side file says: the numbers, and the ways out.
  const fs::path more = write_arina_set(folder / "more", const_frames(20, 8, 8), {20}, 8, 8, {.side = std::pair(4, 4)});
  for (const char* part : {"20 frames", "16 positions", "x.h5", "extra_frames"})
    EXPECT_HOLDS(refusal(more).message, part);
}

TEST(Scans, G05_FramesOfNoPosition) {
  const Folder folder("G05");
  const fs::path master = write_arina_set(folder.path(), const_frames(24, 2, 2), {24}, 2, 2);
  OpenOptions flyback = scan(4, 5);
  flyback.flyback_cols = 1;
  Sums expected;
  for (int r = 0; r < 4; ++r)
    for (int k = 0; k < 5; ++k) expected.emplace_back(4 * (6 * r + k));
  const Container c = open(master, flyback);
  EXPECT_FALSE(c.not_ready);
  EXPECT_EQ(sum_image(c), expected);
  EXPECT_EQ(c.n_ignored_frames, 4u);
  const Error error = refusal(master, scan(4, 5));
  for (const char* part : {"24 frames", "20 positions", "flyback_cols=1", "skip_frames=4", "extra_frames"})
    EXPECT_HOLDS(error.message, part);
  OpenOptions front = scan(2, 11), end = scan(2, 11);
  front.skip_frames = 2;
  end.extra_frames = ExtraFrames::drop;
  EXPECT_EQ(ready_sums(master, front), ramp_sums(22, 4, 2));
  EXPECT_EQ(open(master, front).n_ignored_frames, 2u);
  EXPECT_EQ(ready_sums(master, end), ramp_sums(22, 4));
  EXPECT_EQ(open(master, end).n_ignored_frames, 2u);
  // Flyback may be absent after the last row.
  const fs::path short_end = write_arina_set(folder / "b", const_frames(23, 2, 2), {23}, 2, 2);
  EXPECT_EQ(ready_sums(short_end, flyback), expected);
  EXPECT_EQ(open(short_end, flyback).n_ignored_frames, 3u);
  // C6: odd rows in reverse.
  OpenOptions serpentine = flyback;
  serpentine.scan_order = ScanOrder::serpentine;
  const Sums turned = ready_sums(master, serpentine);
  EXPECT_EQ(turned[5], 4 * 10);
  EXPECT_EQ(turned[9], 4 * 6);
  EXPECT_EQ(turned[10], 4 * 12);
}

TEST(Scans, G07_AScanThatStoppedEarly) {
  const Folder folder("G07");
  const fs::path master = write_arina_set(folder.path(), const_frames(23, 2, 2, 1), {23}, 2, 2, {.ntrigger = 25});
  const Container c = open(master, scan(5, 5, Missing::mark));
  EXPECT_FALSE(c.not_ready);
  EXPECT_EQ(c.n_missing, 2u);
  const Sums sums = sum_image(c);
  EXPECT_EQ(sums, ramp_sums(23, 4, 1, 2));
  EXPECT_EQ(sums[22], 92);
  const Error strict = refusal(master, scan(5, 5));
  EXPECT_EQ(strict.code, Code::missing_data);
  EXPECT_HOLDS(strict.message, "23 of 25 frames present, first missing (4, 3)");
  EXPECT_EQ(open(master).shape.scan, (Extent{5, 5})) << "25 were announced: a guess, marked";
}

TEST(Scans, U01_NotCalibratedTravelsWithTheNumber) {
  const Folder folder("U01");
  const Container without = open(write_arina_set(folder / "a", const_frames(16, 8, 8), {16}, 8, 8, {.genuine = true}));
  EXPECT_FALSE(without.calibration.scan_sampling_A);
  EXPECT_FALSE(without.calibration.rotation_deg);
  const Container with = open(
      write_arina_set(folder / "b", const_frames(16, 8, 8), {16}, 8, 8, {.genuine = true, .side = std::pair(4, 4)}));
  ASSERT_TRUE(with.calibration.scan_sampling_A);
  EXPECT_DOUBLE_EQ(with.calibration.scan_sampling_A.value->row, 1.3915206);
  EXPECT_EQ(with.calibration.scan_sampling_A.note, "uncalibrated");
  EXPECT_EQ(with.calibration.scan_sampling_A.origin, Origin::side_file);
  EXPECT_EQ(with.calibration.rotation_deg.value, 0.0);
  EXPECT_EQ(with.calibration.voltage_kV.value, 300.0);
  EXPECT_EQ(with.scan_shape_origin, Origin::side_file);
  const auto metadata = nlohmann::json::parse(with.metadata_json);
  EXPECT_EQ(metadata["side_file"]["NumPixelsX"], 4);
}

}  // namespace
}  // namespace quantem
