// Field cases of group 1, layout: which frames there are, where they lie, what is missing. Inputs are written here, with the values
// of the cases page.

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/hdf5_writer.h"
#include "tests/support/open.h"

namespace quantem {
namespace {
using namespace support;

fs::path write_l01(const fs::path& folder, const ArinaForm& form = {}) {
  return write_arina_set(folder, const_frames(25, 8, 8), {10, 10, 5}, 8, 8, form);
}

TEST(Layout, L00_WhatTheDetectorWrites) {
  const Folder folder("L00");
  std::vector<std::uint32_t> frames(12 * 192 * 192);
  Sums sums(12);
  for (std::uint32_t k = 0; k < 12; ++k) {
    std::int64_t sum = 0;
    for (std::uint32_t r = 0; r < 192; ++r)
      for (std::uint32_t c = 0; c < 192; ++c) {
        const std::int64_t dr = std::int64_t{r} - 96, dc = std::int64_t{c} - 90;
        std::uint32_t v = dr * dr + dc * dc <= 900 ? 3 + k + (r + c) % 5 : (r * c + k) % 97 == 0 ? 1 : 0;
        if (k == 5 && r == 96 && c == 90) v = 8352;
        frames[(k * 192 + r) * 192 + c] = v;
        sum += v;
      }
    sums[k] = sum;
  }
  const fs::path master = write_arina_set(folder.path(), frames, {12}, 192, 192,
                                          {.dataset = {.fill = 0xffffffffu}, .genuine = true, .side = std::pair(3, 4)});
  const Container c = open(master);
  ASSERT_FALSE(c.not_ready) << c.not_ready->message;
  EXPECT_EQ(c.shape, (Shape4{{3, 4}, {192, 192}}));
  EXPECT_EQ(c.dtype, Dtype::u32);
  EXPECT_EQ(c.scan_shape_origin, Origin::side_file);
  EXPECT_EQ(c.n_stored, 12u);
  EXPECT_EQ(c.n_missing, 0u);
  EXPECT_EQ(sum_image(c), sums);
  EXPECT_EQ(read_positions(c)[5].values[96 * 192 + 90], 8352);
  EXPECT_EQ(c.calibration.voltage_kV.value, 300.0);
  EXPECT_EQ(c.calibration.voltage_kV.origin, Origin::file);
  EXPECT_EQ(c.saturation_value, 8352u);
  EXPECT_TRUE(c.has_pixel_mask);
  EXPECT_TRUE(c.valid_pixels.all());
  EXPECT_FALSE(c.calibration.center_px) << "0.0 is unknown";
  EXPECT_FALSE(c.calibration.camera_length_mm) << "0.0 is unknown";
  EXPECT_DOUBLE_EQ(*c.calibration.dwell_us.value, 99.6);
  const auto metadata = nlohmann::json::parse(c.metadata_json);
  EXPECT_EQ(metadata["master"]["/entry/instrument/detector/description"], "Dectris ARINA CZT");
  EXPECT_EQ(metadata["master"]["/entry/instrument/detector/detectorSpecific/ntrigger"], 12);
  EXPECT_EQ(metadata["pixel_mask"]["bad_pixels"], 0);
}

TEST(Layout, L01_AnAcquisitionIsAllOfItsParts) {
  const Folder folder("L01");
  const fs::path master = write_l01(folder.path());
  const Container c = open(master, scan(5, 5));
  EXPECT_EQ(c.shape, (Shape4{{5, 5}, {8, 8}}));
  EXPECT_EQ(c.n_stored, 25u);
  EXPECT_EQ(c.n_expected, 25u);
  EXPECT_EQ(c.parts.size(), 3u);
  EXPECT_TRUE(c.parts[0].one_frame_per_chunk());
  const Sums sums = ready_sums(master, scan(5, 5));
  EXPECT_EQ(sums, ramp_sums(25));
  std::int64_t total = 0;
  for (const auto& s : sums) total += s.value_or(0);
  EXPECT_EQ(total, 19200);
  EXPECT_EQ(read_positions(c)[10].values, std::vector<std::int64_t>(64, 10));
  // Other dtypes, a start number that is not 1, no numbers at all.
  for (const bool numbers : {true, false}) {
    const Folder other("L01");
    const auto path = write_arina_set(other.path(), const_frames<std::uint8_t>(25, 8, 8), {10, 10, 5}, 8, 8,
                                      {.numbers = numbers, .first_number = 4001});
    EXPECT_EQ(ready_sums(path, scan(5, 5)), ramp_sums(25));
  }
}

TEST(Layout, L01_PartsAreOrderedByImageNumber) {
  // The links are named against the image numbers: the numbers decide, and that is said.
  const Folder folder("L01");
  write_part(folder / "a.h5", const_frames(10, 8, 8, 10), 10, 8, 8, 11, {});
  write_part(folder / "b.h5", const_frames(10, 8, 8), 10, 8, 8, 1, {});
  {
    Writer f(folder / "x_master.h5");
    f.external_link("/entry/data/data_000001", "a.h5", "/entry/data/data");
    f.external_link("/entry/data/data_000002", "b.h5", "/entry/data/data");
  }
  const Container c = open(folder / "x_master.h5", scan(4, 5));
  EXPECT_EQ(sum_image(c), ramp_sums(20));
  EXPECT_TRUE(warns(c, "image_nr_low"));
  // Numbers that overlap order nothing: the names do, and the overlap is said with its number.
  write_part(folder / "a.h5", const_frames(10, 8, 8), 10, 8, 8, 1, {});
  write_part(folder / "b.h5", const_frames(10, 8, 8, 10), 10, 8, 8, 1, {});
  const Container overlap = open(folder / "x_master.h5", scan(4, 5));
  EXPECT_EQ(sum_image(overlap), ramp_sums(20));
  EXPECT_TRUE(warns(overlap, "overlap at 1"));
}

TEST(Layout, L02_AShapeIsKnownGivenOrSaidToBeAGuess) {
  const Folder folder("L02");
  const auto n36 = write_arina_set(folder / "n36", const_frames(36, 8, 8), {36}, 8, 8);
  const auto n35 = write_arina_set(folder / "n35", const_frames(35, 8, 8), {35}, 8, 8);
  const Container guess = open(n36);
  EXPECT_EQ(guess.shape.scan, (Extent{6, 6}));
  EXPECT_EQ(guess.scan_shape_origin, Origin::guessed);
  EXPECT_TRUE(warns(guess, "guess"));
  EXPECT_EQ(sum_image(guess), ramp_sums(36));
  const Error undetermined = refusal(n35);
  EXPECT_EQ(undetermined.code, Code::undetermined);
  for (const char* part : {"35 frames", "give scan_shape", "5x7", "7x5", "1x35"})
    EXPECT_HOLDS(undetermined.message, part);
  const Container given = open(n36, scan(4, 9));
  EXPECT_EQ(given.shape.scan, (Extent{4, 9}));
  EXPECT_TRUE(given.warnings.empty());
  EXPECT_EQ(sum_image(given), ramp_sums(36));
  const Error wrong = refusal(n36, scan(5, 7));
  EXPECT_EQ(wrong.code, Code::invalid_argument);
  for (const char* part : {"36", "35", "extra_frames"}) EXPECT_HOLDS(wrong.message, part);
  // A scan_shape attribute is believed; two that differ are an error.
  const auto stated = write_arina_set(folder / "stated", const_frames(36, 8, 8), {36}, 8, 8, {.extra = [](Writer& f) {
                                        f.attribute<std::uint32_t>("/entry/data", "scan_shape", {4, 9});
                                      }});
  EXPECT_EQ(open(stated).shape.scan, (Extent{4, 9}));
  EXPECT_EQ(open(stated).scan_shape_origin, Origin::file);
  const auto twice = write_arina_set(folder / "twice", const_frames(36, 8, 8), {36}, 8, 8, {.extra = [](Writer& f) {
                                       f.attribute<std::uint32_t>("/entry/data", "scan_shape", {4, 9});
                                       f.attribute<std::uint32_t>("/", "scan_shape", {9, 4});
                                     }});
  EXPECT_EQ(refusal(twice).code, Code::corrupt_data);
}

TEST(Layout, L03_AbsenceIsAState) {
  const Folder folder("L03");
  const fs::path master = write_l01(folder.path());
  fs::remove(folder / "x_data_000003.h5");
  const Error strict = refusal(master, scan(5, 5));
  EXPECT_EQ(strict.code, Code::missing_data);
  for (const char* part : {"x_data_000003.h5 not found", "20 of 25 frames present", "first missing (4, 0)"})
    EXPECT_HOLDS(strict.message, part);
  EXPECT_HOLDS(strict.message, folder.path().string());
  const Container c = open(master, scan(5, 5, Missing::mark));
  EXPECT_FALSE(c.not_ready);
  EXPECT_EQ(c.n_missing, 5u);
  EXPECT_EQ(c.n_stored, 20u);
  const Sums sums = sum_image(c);
  EXPECT_EQ(sums, ramp_sums(20, 64, 0, 5));
  EXPECT_EQ(sums[19], 1216);
  EXPECT_EQ(c.part_of(20), nullptr);
  EXPECT_EQ(c.part_of(19), &c.parts[1]);
}

TEST(Layout, L03_AnAbsentPartInTheMiddleKeepsItsPlace) {
  for (const bool numbers : {true, false}) {
    for (const char* gone : {"x_data_000001.h5", "x_data_000002.h5"}) {
      const Folder folder("L03");
      const fs::path master = write_l01(folder.path(), {.numbers = numbers});
      fs::remove(folder / gone);
      const Container c = open(master, scan(5, 5, Missing::mark));
      const std::size_t first = gone == std::string("x_data_000001.h5") ? 0 : 10;
      const Sums sums = sum_image(c);
      ASSERT_EQ(sums.size(), 25u);
      for (std::size_t k = 0; k < 25; ++k)
        EXPECT_EQ(sums[k], k >= first && k < first + 10 ? std::nullopt : std::optional<std::int64_t>(64 * k))
            << gone << k;
    }
  }
}

TEST(Layout, L03_WhatIsOnlyAnnouncedTakesNoTime) {
  const auto start = std::chrono::steady_clock::now();
  const Folder folder("L03");
  const fs::path master =
      write_arina_set(folder.path(), const_frames(9, 8, 8), {5, 4}, 8, 8, {.ntrigger = std::uint64_t{1} << 40});
  fs::remove(folder / "x_data_000002.h5");
  const Container c = open(master);
  EXPECT_EQ(c.shape.scan, (Extent{1u << 20, 1u << 20}));
  EXPECT_EQ(c.n_missing, (std::uint64_t{1} << 40) - 5);
  OpenOptions wide = scan(1, 4294967295u, Missing::mark);
  wide.extra_frames = ExtraFrames::drop;
  const Container row = open(master, wide);
  EXPECT_EQ(row.n_missing, 4294967290u);
  EXPECT_TRUE(warns(row, "first missing (0, 5)"));
  OpenOptions serpentine = scan(2, 4, Missing::mark);
  serpentine.scan_order = ScanOrder::serpentine;
  serpentine.flyback_cols = 1;
  serpentine.extra_frames = ExtraFrames::drop;
  const Container back = open(master, serpentine);  // frames 0 to 3, a flyback, then 5 to 8 of the absent file
  EXPECT_EQ(back.n_missing, 4u);
  serpentine.flyback_cols = 0;
  const Container zigzag = open(master, serpentine);  // frame 4 is the last column of the second row
  EXPECT_EQ(zigzag.n_missing, 3u);
  EXPECT_TRUE(warns(zigzag, "first missing (1, 0)"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST(Layout, L04_AnAbsurdDetectorIsNotBelieved) {
  const Folder folder("L04");
  const std::string detector = "/entry/instrument/detector/";
  const auto announce = [&](Writer& f) {
    f.dataset<std::int32_t>(detector + "module/data_size", {1 << 24, 1 << 24}, {2}, {.codec = "contiguous"});
    f.scalar<std::uint64_t>(detector + "detectorSpecific/x_pixels_in_detector", 1 << 23);
    f.scalar<std::uint64_t>(detector + "detectorSpecific/y_pixels_in_detector", 1 << 23);
  };
  const fs::path master = write_arina_set(folder.path(), const_frames(4, 8, 8), {4}, 8, 8, {.extra = announce});
  fs::remove(folder / "x_data_000001.h5");
  EXPECT_EQ(open(master).shape.det, (Extent{8, 8})) << "of the mask";
}

TEST(Layout, L04_ABrokenLinkNamesWhatItWanted) {
  const Folder folder("L04");
  const fs::path master = write_arina_set(folder.path(), const_frames(9, 8, 8), {5, 4}, 8, 8, {.genuine = true});
  fs::remove(folder / "x_data_000001.h5");
  fs::remove(folder / "x_data_000002.h5");
  const Error error = refusal(master);
  EXPECT_EQ(error.code, Code::missing_data);
  EXPECT_HOLDS(error.message, "x_data_000001.h5 not found in " + folder.path().string());
  const Container c = open(master);
  EXPECT_EQ(c.n_expected, 9u);
  EXPECT_EQ(c.n_stored, 0u);
  EXPECT_EQ(c.shape.det, (Extent{8, 8}));
  EXPECT_EQ(c.calibration.voltage_kV.value, 300.0);
  EXPECT_TRUE(c.has_pixel_mask && c.valid_pixels.all());
}

TEST(Layout, L06_ADamagedPartDamagesItselfOnly) {
  const Folder folder("L06");
  const fs::path master = write_l01(folder.path()), cut = folder / "x_data_000003.h5";
  const std::uint64_t whole = fs::file_size(cut);
  fs::resize_file(cut, whole * 6 / 10);
  const Error strict = refusal(master, scan(5, 5));
  EXPECT_EQ(strict.code, Code::missing_data);
  EXPECT_HOLDS(strict.message, "x_data_000003.h5 is cut off");
  EXPECT_HOLDS(strict.message, std::to_string(whole));
  EXPECT_HOLDS(strict.message, std::to_string(whole * 6 / 10));
  EXPECT_EQ(sum_image(open(master, scan(5, 5, Missing::mark))), ramp_sums(20, 64, 0, 5));
  // Not HDF5 at all, and empty: the same.
  for (const char* text : {"no longer a data file", ""}) {
    std::ofstream(cut, std::ios::trunc) << text;
    EXPECT_HOLDS(refusal(master, scan(5, 5)).message, "x_data_000003.h5");
    EXPECT_EQ(sum_image(open(master, scan(5, 5, Missing::mark))), ramp_sums(20, 64, 0, 5));
  }
}

TEST(Layout, L07_ACopyThatStoppedAt2To31) {
  const Folder folder("L07");
  const fs::path path = folder / "x.h5";
  {
    Writer f(path);
    f.group("/entry/data");
    const hid_t made = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_alloc_time(made, H5D_ALLOC_TIME_EARLY);
    H5Pset_fill_time(made, H5D_FILL_TIME_NEVER);
    const hsize_t dims[] = {2100, 1024, 1024};
    const hid_t space = H5Screate_simple(3, dims, nullptr);
    H5Dclose(H5Dcreate2(f.id(), "/entry/data/data", H5T_STD_U8LE, space, H5P_DEFAULT, made, H5P_DEFAULT));
    H5Sclose(space);
    H5Pclose(made);
  }
  const std::uint64_t whole = fs::file_size(path);
  ASSERT_GT(whole, 2202009600u);
  EXPECT_EQ(refusal(path, scan(1, 2100)).code, Code::internal) << "whole: ready";
  fs::resize_file(path, 2147483647);
  const Error error = refusal(path, scan(1, 2100));
  EXPECT_EQ(error.code, Code::missing_data);
  EXPECT_HOLDS(error.message, "2147483647");
  EXPECT_HOLDS(error.message, std::to_string(whole));
}

TEST(Layout, L09_ADescriptionIsCheckedAgainstTheThing) {
  const Folder folder("L09");
  {
    Writer source(folder / "src.h5");
    source.dataset<std::uint16_t>("/d", const_frames(2, 1, 2), {2, 2}, {.codec = "contiguous"});
    source.dataset<std::uint16_t>("/frames", const_frames(4, 3, 3), {4, 3, 3}, {.codec = "contiguous"});
    Writer f(folder / "x_master.h5");
    f.virtual_dataset("/entry/data/data", H5T_STD_U16LE, {3, 3},
                      {{"src.h5", "/d", {3, 3}, {0, 0}, {0, 0}, {3, 3}, {}}});
    Writer g(folder / "y_master.h5");  // more frames than the source has
    g.virtual_dataset("/entry/data/data", H5T_STD_U16LE, {6, 3, 3},
                      {{"src.h5", "/frames", {6, 3, 3}, {0, 0, 0}, {0, 0, 0}, {6, 3, 3}, {}}});
  }
  const auto start = std::chrono::steady_clock::now();
  const Error error = refusal(folder / "x_master.h5");
  EXPECT_EQ(error.code, Code::unsupported);
  EXPECT_HOLDS(error.message, "(2, 2)");
  EXPECT_HOLDS(error.message, "(3, 3)");
  EXPECT_EQ(refusal(folder / "y_master.h5").code, Code::unsupported);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
}

TEST(Layout, L10_AnAxisIsWhatTheFileSaysItIs) {
  const Folder folder("L10");
  std::vector<std::uint16_t> values(6 * 2 * 16);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint16_t>(100 * (i / 16 % 2) + i / 32);
  const auto write = [&](const std::string& name, const DatasetForm& form, bool slice) {
    Writer source(folder / (name + "_src.h5"));
    source.dataset("/d", values, {6, 2, 4, 4}, form);
    Writer f(folder / (name + "_master.h5"));
    f.virtual_dataset("/entry/data/data", H5T_STD_U16LE, {6, 2, 4, 4},
                      {{name + "_src.h5", "d", {6, 2, 4, 4}, {0, 0, 0, 0}, {0, 0, 0, 0}, {6, 2, 4, 4}, {}}});
    f.text("/entry/instrument/detector/channel_names", {"threshold_1", "threshold_2"});
    if (slice) f.text_attribute("/entry/data", "default_slice", {".", "threshold_2", ".", "."});
    return folder / (name + "_master.h5");
  };
  OpenOptions second = scan(2, 3), number = second, wrong = second;
  second.channel = "threshold_2";
  number.channel = "1";
  wrong.channel = "threshold_9";
  int i = 0;
  for (const DatasetForm& form :
       {DatasetForm{.codec = "contiguous"}, DatasetForm{.codec = "bslz4"},
        DatasetForm{.codec = "gzip", .chunk = {4, 2, 4, 4}}, DatasetForm{.codec = "lz4", .chunk = {1, 1, 3, 4}}}) {
    const fs::path path = write("x" + std::to_string(i++), form, false);
    const Container c = open(path, scan(2, 3));
    EXPECT_EQ(c.shape, (Shape4{{2, 3}, {4, 4}}));
    EXPECT_EQ(ready_sums(path, scan(2, 3)), ramp_sums(6, 16));
    EXPECT_EQ(ready_sums(path, second), ramp_sums(6, 16, 100));
    EXPECT_EQ(ready_sums(path, number), ramp_sums(6, 16, 100));
    EXPECT_HOLDS(refusal(path, wrong).message, "threshold_1, threshold_2");
  }
  EXPECT_EQ(ready_sums(write("s", {.codec = "none"}, true), scan(2, 3)), ramp_sums(6, 16, 100)) << "@default_slice";
}

TEST(Layout, L10_AVirtualDatasetOfSeveralFiles) {
  const Folder folder("L10");
  for (int part = 0; part < 3; ++part)
    write_part(folder / ("p" + std::to_string(part) + ".h5"), const_frames(5, 8, 8, 5 * part), 5, 8, 8, 1, {});
  {
    Writer f(folder / "x_master.h5");
    std::vector<Writer::Piece> pieces;
    for (std::uint64_t part = 0; part < 3; ++part)
      pieces.push_back({"p" + std::to_string(part) + ".h5",
                        "/entry/data/data",
                        {5, 8, 8},
                        {1, 0, 0},
                        {4 * part, 0, 0},
                        {4, 8, 8},
                        {}});
    f.virtual_dataset("/entry/data/data", H5T_STD_U16LE, {13, 8, 8}, pieces);  // the last frame has no source
  }
  const Container c = open(folder / "x_master.h5", scan(1, 13, Missing::mark));
  EXPECT_EQ(c.n_missing, 1u);
  Sums expected;
  for (int k = 0; k < 12; ++k) expected.emplace_back(64 * (k + k / 4 + 1));
  expected.emplace_back();
  EXPECT_EQ(sum_image(c), expected);
  fs::remove(folder / "p1.h5");
  EXPECT_HOLDS(refusal(folder / "x_master.h5", scan(1, 13)).message, "p1.h5 not found");
  for (std::size_t k = 4; k < 8; ++k) expected[k].reset();
  EXPECT_EQ(sum_image(open(folder / "x_master.h5", scan(1, 13, Missing::mark))), expected);
}

TEST(Layout, L11_WhereTheFramesLieDoesNotChangeTheAnswer) {
  for (const char* name : {"data_000001", "data", "data_1"}) {
    const Folder folder("L11");
    const auto path =
        write_arina_set(folder.path(), std::vector<std::uint16_t>(), {}, 8, 8,
                        {.ntrigger = 25, .extra = [&](Writer& f) {
                           f.dataset(std::string("/entry/data/") + name, const_frames(25, 8, 8), {25, 8, 8});
                         }});
    EXPECT_EQ(ready_sums(path, scan(5, 5)), ramp_sums(25)) << name;
    EXPECT_EQ(open(path, scan(5, 5)).shape, (Shape4{{5, 5}, {8, 8}}));
  }
  // Soft and hard links to a dataset elsewhere in the master.
  const Folder folder("L11");
  const auto path = write_arina_set(folder.path(), std::vector<std::uint16_t>(), {}, 8, 8,
                                    {.ntrigger = 25, .extra = [&](Writer& f) {
                                       f.dataset("/elsewhere/frames", const_frames(25, 8, 8), {25, 8, 8});
                                       f.soft_link("/entry/data/data_000001", "../../elsewhere/frames");
                                     }});
  EXPECT_EQ(refusal(path, scan(5, 5)).code, Code::missing_data) << "HDF5 has no '..'";
  {
    const hid_t f = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    H5Ldelete(f, "/entry/data/data_000001", H5P_DEFAULT);
    H5Lcreate_soft("/elsewhere/frames", f, "/entry/data/data_000001", H5P_DEFAULT, H5P_DEFAULT);
    H5Fclose(f);
  }
  EXPECT_EQ(ready_sums(path, scan(5, 5)), ramp_sums(25));
}

TEST(Layout, L24_TheSideFileIsNotTheAcquisition) {
  const Folder folder("L24");
  write_side(folder / "x.h5", 5, 5, 0.1, 1);
  EXPECT_HOLDS(refusal(folder / "x.h5").message, "open the _master.h5 file");
  {
    Writer f(folder / "images.h5");  // with the images that the microscope showed
    f.group("/STEM Metadata");
    for (const char* path : {"/x [BF]", "/x [ADF]"}) f.dataset(path, const_frames(1, 5, 5), {5, 5});
  }
  EXPECT_HOLDS(refusal(folder / "images.h5").message, "open the _master.h5 file");
  OpenOptions named;
  named.dataset_path = "/x [BF]";
  EXPECT_EQ(refusal(folder / "images.h5", named).message, "ready");
}

TEST(Layout, L24_OptionalIsOptional) {
  const Folder folder("L24");
  const auto no_mask = write_l01(folder / "a", {.mask = std::nullopt});
  const Container c = open(no_mask, scan(5, 5));
  EXPECT_FALSE(c.not_ready);
  EXPECT_FALSE(c.has_pixel_mask);
  EXPECT_TRUE(c.valid_pixels.all());
  EXPECT_EQ(sum_image(c), ramp_sums(25));
  const auto nothing = write_l01(folder / "b", {.instrument = false});
  const Container bare = open(nothing, scan(5, 5));
  EXPECT_FALSE(bare.not_ready);
  EXPECT_FALSE(bare.calibration.voltage_kV);
  EXPECT_FALSE(bare.saturation_value);
  EXPECT_EQ(bare.n_expected, 25u);
  EXPECT_EQ(sum_image(bare), ramp_sums(25));
}

TEST(Layout, C11_AMaskMarksPixelsAndMustFit) {
  const Folder folder("C11");
  std::vector<std::uint32_t> mask(64, 0);
  mask[0] = 1;
  mask[9] = 2 | 256;
  mask[63] = 0x80000000u;
  const Container c = open(write_l01(folder / "a", {.mask = mask}), scan(5, 5));
  EXPECT_EQ(c.valid_pixels.n_set(), 61u);
  EXPECT_FALSE(c.valid_pixels[0] || c.valid_pixels[9] || c.valid_pixels[63]);
  const auto bits = nlohmann::json::parse(c.metadata_json)["pixel_mask"]["pixels_with_bit"];
  EXPECT_EQ(bits, (nlohmann::json{{"0", 1}, {"1", 1}, {"8", 1}, {"31", 1}}));
  const auto wrong = write_l01(folder / "b", {.mask = std::nullopt, .extra = [](Writer& f) {
                                                f.dataset<std::uint32_t>(
                                                    "/entry/instrument/detector/detectorSpecific/pixel_mask",
                                                    std::vector<std::uint32_t>(72), {9, 8}, {.codec = "contiguous"});
                                              }});
  EXPECT_EQ(refusal(wrong, scan(5, 5)).code, Code::corrupt_data);
  EXPECT_HOLDS(refusal(wrong, scan(5, 5)).message, "(9, 8)");
}

TEST(Layout, L30_AnAxisOfLengthOneMayBeLeftOut) {
  const Folder folder("L30");
  std::vector<std::uint16_t> frame(192 * 192);
  for (std::size_t i = 0; i < frame.size(); ++i) frame[i] = static_cast<std::uint16_t>(i % 7);
  {
    Writer f(folder / "x_master.h5");
    f.dataset("/entry/data/data", frame, {192, 192}, {.codec = "contiguous"});
  }
  const Container c = open(folder / "x_master.h5");
  ASSERT_FALSE(c.not_ready) << c.not_ready->message;
  EXPECT_EQ(c.shape, (Shape4{{1, 1}, {192, 192}}));
  std::int64_t sum = 0;
  for (const auto v : frame) sum += v;
  EXPECT_EQ(sum_image(c), Sums{sum});
}

}  // namespace
}  // namespace quantem
