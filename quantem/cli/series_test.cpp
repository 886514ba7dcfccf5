// What products, dpc and info offer beside the default: several files, TIFF, frame statistics, weights, hashes.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "quantem/cli/comparison.h"
#include "quantem/cli/npy.h"
#include "quantem/cli/testing.h"
#include "quantem/core/sha256.h"

namespace quantem::cli {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

// 3x4 positions of 6x8 pixels, values i * 31 % 97 + offset.
std::vector<std::uint16_t> counts(std::uint16_t offset = 0) {
  std::vector<std::uint16_t> values(12 * 48);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint16_t>(i * 31 % 97 + offset);
  return values;
}
void write_cube(const std::string& path, const std::vector<std::uint16_t>& values) {
  write_file(path, npy_of(values, std::vector<std::uint64_t>{3, 4, 6, 8}));
}
Ran on_cpu(Words words) {
  words.insert(words.end(), {"--backend", "cpu", "--json"});
  return ran(words);
}

TEST(CliSeries, SeveralFilesAreAFolderEach) {
  const TemporaryFolder folder;
  write_cube(folder / "a.npy", counts());
  write_cube(folder / "b.npy", counts(5));
  const Ran r =
      on_cpu({"products", folder / "a.npy", folder / "b.npy", "-o", folder / "out", "--total", "--no-pictures"});
  ASSERT_EQ(r.status, 0) << r.err;
  const auto series = r.json()["result"]["series"];
  ASSERT_EQ(series.size(), 2u);
  EXPECT_EQ(series[1]["folder"], folder / "out/b");
  const auto a = read_npy(folder / "out/a/total.npy"), b = read_npy(folder / "out/b/total.npy");
  ASSERT_TRUE(a && b);
  for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(b->values[i], a->values[i] + 5 * 48);
  EXPECT_TRUE(fs::exists(folder / "out/a/report.json") && fs::exists(folder / "out/b/report.json"));
  EXPECT_FALSE(fs::exists(folder / "out/report.json"));
}

// A program that ends after the call gives back memory and device while pictures are drawn; what it writes does not depend on it.
TEST(CliSeries, AProgramThatEndsWritesTheSameFiles) {
  const TemporaryFolder folder;
  write_cube(folder / "a.npy", counts());
  write_cube(folder / "b.npy", counts(5));
  CliHost ending;
  ending.ends = true;
  const auto call = [&](const std::string& out) {
    return std::vector<std::string>{"products",
                                    folder / "a.npy",
                                    folder / "b.npy",
                                    "-o",
                                    folder / out,
                                    "--center",
                                    "1,1",
                                    "--radius",
                                    "1",
                                    "--backend",
                                    "cpu"};
  };
  ASSERT_EQ(ran(call("stays")).status, 0);
  const Ran r = ran(call("ends"), ending);
  ASSERT_EQ(r.status, 0) << r.err;
  std::size_t n_files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder / "stays")) {
    if (!entry.is_regular_file() || entry.path().filename() == "report.json") continue;
    const std::string name = fs::relative(entry.path(), folder / "stays").string();
    EXPECT_EQ(file_bytes(folder / ("ends/" + name)), file_bytes(entry.path().string())) << name;
    ++n_files;
  }
  EXPECT_GT(n_files, 40u);
}

TEST(CliSeries, TheFileThatFailsIsNamedAndWarningsStayWithTheirFile) {
  const TemporaryFolder folder;
  // 12 frames without a scan axis: a guess is not possible, 16 are guessed 4x4 with a warning.
  std::vector<std::uint16_t> frames(16 * 48, 2);
  write_file(folder / "guess.npy", npy_of(frames, std::vector<std::uint64_t>{16, 6, 8}));
  write_cube(folder / "fine.npy", counts());
  const Ran both =
      on_cpu({"products", folder / "guess.npy", folder / "fine.npy", "-o", folder / "out", "--total", "--no-pictures"});
  ASSERT_EQ(both.status, 0) << both.err;
  EXPECT_EQ(both.json()["result"]["series"][0]["warnings"].size(), 1u);
  EXPECT_EQ(both.json()["result"]["series"][1]["warnings"].size(), 0u);
  const Ran absent = on_cpu({"dpc", folder / "fine.npy", folder / "absent.npy", "-o", folder / "dpc", "--no-pictures",
                             "--rotation-deg", "+10", "--transpose", "no", "--sign", "+1"});
  EXPECT_EQ(absent.status, 3);
  EXPECT_TRUE(holds(absent.err, "absent.npy") && holds(absent.err, "2 of 2")) << absent.err;
  EXPECT_TRUE(fs::exists(folder / "dpc/fine/report.json"));  // what is complete stays
  fs::create_directory(folder / "other");
  fs::copy_file(folder / "fine.npy", folder / "other/fine.npy");
  const Ran twice = on_cpu({"dpc", folder / "fine.npy", folder / "other/fine.npy", "-o", folder / "twice"});
  EXPECT_EQ(twice.status, 2);
  EXPECT_FALSE(fs::exists(folder / "twice"));
}

TEST(CliSeries, OnePictureComparesAllOfThem) {
  const TemporaryFolder folder;
  Words words{"products"};
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g", "h", "i"}) {
    write_cube(folder / (std::string(name) + ".npy"), counts(static_cast<std::uint16_t>(name[0])));
    words.push_back(folder / (std::string(name) + ".npy"));
  }
  words.insert(words.end(), {"-o", folder / "out", "--total", "--write", "png", "--center", "3,4", "--radius", "2",
                             "--compare", "total", "--tilts-deg", "-8,-6,-4,-2,0,2,4,6,8"});
  const Ran r = on_cpu(words);
  ASSERT_EQ(r.status, 0) << r.err;
  const auto compare = r.json()["result"]["compare"];
  EXPECT_EQ(compare["product"], "total");
  EXPECT_EQ(compare["window"], "common");
  EXPECT_EQ(compare["pictures"], (Json{"compare.png", "compare_2.png"}));
  ASSERT_EQ(compare["acquisitions"].size(), 9u);
  EXPECT_EQ(compare["acquisitions"][1]["name"], "b");
  EXPECT_EQ(compare["acquisitions"][1]["tilt_deg"], -6);
  EXPECT_EQ(compare["acquisitions"][1]["radius_px"], 2);
  EXPECT_EQ(compare["acquisitions"][1]["provenance"]["operation"], "masked_sum");
  for (const char* name : {"compare.png", "compare_2.png", "compare.json"})
    EXPECT_TRUE(fs::exists(folder / (std::string("out/") + name))) << name;
  EXPECT_EQ(Json::parse(file_bytes(folder / "out/compare.json"))["acquisitions"].size(), 9u);
  const auto status = [&](Words more) {
    Words w{"products", folder / "a.npy", folder / "b.npy", "-o", folder / "x", "--total"};
    w.insert(w.end(), more.begin(), more.end());
    return on_cpu(w).status;
  };
  EXPECT_EQ(status({"--compare", "bf"}), 2);  // not made
  EXPECT_EQ(status({"--compare-window", "best"}), 2);
  EXPECT_EQ(status({"--tilts-deg", "1,2,3"}), 2);
  EXPECT_EQ(status({"--on-error", "ignore"}), 2);
  EXPECT_FALSE(fs::exists(folder / "x"));
  EXPECT_EQ(status({"--compare", "none"}), 0);
  EXPECT_FALSE(fs::exists(folder / "x/compare.png"));
  // A picture that is there already is found before any work.
  fs::create_directory(folder / "y");
  write_file(folder / "y/compare.png", "mine");
  const Ran taken = on_cpu({"products", folder / "a.npy", folder / "b.npy", "-o", folder / "y", "--total"});
  EXPECT_EQ(taken.status, 2) << taken.err;
  EXPECT_FALSE(fs::exists(folder / "y/a"));
}

TEST(CliSeries, WhatCannotBeLoadedIsSkippedWhereThatIsAskedFor) {
  const TemporaryFolder folder;
  write_cube(folder / "a.npy", counts());
  write_cube(folder / "c.npy", counts(9));
  write_file(folder / "b.npy", "\x93NUMPY, but no more");
  const Words words{"products", folder / "a.npy", folder / "b.npy", folder / "c.npy", folder / "d.npy",
                    "-o",       folder / "out",   "--total"};
  EXPECT_EQ(on_cpu(words).status, 4);  // no file that can be opened
  Words skipping = words;
  skipping.insert(skipping.end(), {"--on-error", "skip", "--overwrite"});
  const Ran r = on_cpu(skipping);
  ASSERT_EQ(r.status, 0) << r.err;
  const auto result = r.json()["result"];
  ASSERT_EQ(result["series"].size(), 2u);
  EXPECT_EQ(result["series"][1]["folder"], folder / "out/c");
  ASSERT_EQ(result["skipped"].size(), 2u);
  EXPECT_EQ(result["skipped"][0]["file"], folder / "b.npy");
  EXPECT_TRUE(holds(result["skipped"][1]["message"].get<std::string>(), "d.npy")) << result["skipped"].dump();
  EXPECT_EQ(r.json()["warnings"].size(), 2u);
  EXPECT_EQ(result["compare"]["acquisitions"].size(), 2u);
  const Ran none = on_cpu({"products", folder / "b.npy", folder / "d.npy", "-o", folder / "z", "--on-error", "skip"});
  EXPECT_EQ(none.status, 4);
  EXPECT_TRUE(holds(none.err, "no acquisition of the series could be loaded")) << none.err;
}

TEST(CliSeries, NamesAndTiltsOfPanels) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(short_names({"a_1", "a_2"}), (Names{"a_1", "a_2"}));
  EXPECT_EQ(short_names({"experiment_20261201_tilt_-10", "experiment_20261201_tilt_-5"}),
            (Names{"\u2026-10", "\u2026-5"}));
  EXPECT_EQ(short_names({"one_very_long_name_indeed_a", "other"}), (Names{"one_very_long_name_indeed_a", "other"}));
  EXPECT_EQ(stem_of("/data/scan_7_master.h5"), "scan_7");
  EXPECT_EQ(tilt_of(R"({"stage": {"stage_alpha_deg": -12.5}})"), -12.5);
  EXPECT_EQ(tilt_of(R"({"tilt": 3, "x": {"tilt_deg": "3"}})"), std::nullopt);  // no unit; no number
  EXPECT_EQ(tilt_of("not json"), std::nullopt);
}

TEST(CliMissing, L04_WithoutASingleFrameThereIsNothingToShow) {
  const TemporaryFolder folder;
  write_cube(folder / "a.npy", counts());
  ASSERT_EQ(ran({"convert", folder / "a.npy", folder / "b_master.h5"}).status, 0);
  fs::remove(folder / "b_data_000001.h5");
  const Ran strict = on_cpu({"products", folder / "b_master.h5", "-o", folder / "x"});
  EXPECT_EQ(strict.status, 3);
  EXPECT_TRUE(holds(strict.err, "b_data_000001.h5 not found")) << strict.err;
  const Ran tolerant = on_cpu({"products", folder / "b_master.h5", "-o", folder / "x", "--tolerate-missing"});
  EXPECT_EQ(tolerant.status, 3);
  EXPECT_TRUE(holds(tolerant.err, "none of the 12 scan positions has a frame")) << tolerant.err;
  EXPECT_FALSE(fs::exists(folder / "x"));
}

TEST(CliDpc, C58_AnUnknownSignIsSaidWithTheOptionThatSettlesIt) {
  const TemporaryFolder folder;
  write_cube(folder / "a.npy", counts());
  const Ran r = on_cpu({"dpc", folder / "a.npy", "-o", folder / "out", "--no-pictures"});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_TRUE(holds(r.json()["warnings"].dump(), "--polarity")) << r.json()["warnings"].dump();
}

TEST(CliWrite, TiffHoldsTheSameFloatsAndOnlyWhatWasAskedForIsWritten) {
  const TemporaryFolder folder;
  write_cube(folder / "a.npy", counts());
  const Ran r = on_cpu({"products", folder / "a.npy", "-o", folder / "out", "--total", "--write", "tiff"});
  ASSERT_EQ(r.status, 0) << r.err;
  const auto entry = r.json()["result"]["products"]["total"];
  EXPECT_EQ(entry["array"], nullptr);
  EXPECT_EQ(entry["tiff"], "total.tif");
  EXPECT_EQ(entry["picture"], nullptr);
  EXPECT_FALSE(fs::exists(folder / "out/total.npy") || fs::exists(folder / "out/contact_sheet.png"));
  const std::string bytes = file_bytes(folder / "out/total.tif");
  ASSERT_GT(bytes.size(), 48u);
  const auto values = counts();
  for (std::size_t n = 0; n < 12; ++n) {  // the strip lies at the end
    float found = 0, sum = 0;
    std::memcpy(&found, bytes.data() + bytes.size() - 48 + 4 * n, 4);
    for (std::size_t p = 0; p < 48; ++p) sum += values[n * 48 + p];
    EXPECT_EQ(found, sum) << n;
  }
  EXPECT_EQ(on_cpu({"products", folder / "a.npy", "-o", folder / "x", "--write", "jpeg"}).status, 2);
  EXPECT_FALSE(fs::exists(folder / "x"));
}

TEST(CliStats, C50_EveryFrameIsDescribedExactly) {
  const TemporaryFolder folder;
  auto values = counts();
  values[5 * 48 + 19] = 65535;                                                    // frame 5, pixel (2, 3)
  std::fill(values.begin() + 7 * 48, values.begin() + 8 * 48, std::uint16_t{0});  // frame 7
  write_cube(folder / "a.npy", values);
  const Ran r = on_cpu({"products", folder / "a.npy", "-o", folder / "out", "--stats"});
  ASSERT_EQ(r.status, 0) << r.err;
  const auto map = [&](const char* name) { return read_npy(folder / (std::string("out/") + name + ".npy")); };
  for (std::size_t n = 0; n < 12; ++n) {
    const auto* frame = values.data() + n * 48;
    const auto* top = std::max_element(frame, frame + 48);
    EXPECT_EQ(map("frame_max")->values[n], *top);
    EXPECT_EQ(map("frame_argmax_row")->values[n], (top - frame) / 8);
    EXPECT_EQ(map("frame_argmax_col")->values[n], (top - frame) % 8);
    EXPECT_EQ(map("frame_nonzero")->values[n], 48 - std::count(frame, frame + 48, 0));
    EXPECT_EQ(map("frame_saturated")->values[n], n == 5);
  }
  const auto result = r.json()["result"];
  EXPECT_EQ(result["statistics"]["n_zero_frames"], 1);
  EXPECT_EQ(result["statistics"]["total_min"], 0);
  EXPECT_EQ(result["products"]["frame_total"]["dtype"], "uint64");
  EXPECT_FALSE(result["products"].contains("bf"));
}

TEST(CliMask, C37_C38_AnyNumbersButZerosAndOnesAreWeights) {
  const TemporaryFolder folder;
  write_cube(folder / "a.npy", counts());
  std::vector<double> weights(48);
  for (std::size_t p = 0; p < 48; ++p) weights[p] = static_cast<double>(p % 9) / 8 - 0.25;
  write_file(folder / "w.npy", npy_of(weights, std::vector<std::uint64_t>{6, 8}));
  const Ran r = on_cpu(
      {"products", folder / "a.npy", "-o", folder / "out", "--total", "--mask", folder / "w.npy", "--no-pictures"});
  ASSERT_EQ(r.status, 0) << r.err;
  const auto image = read_npy(folder / "out/masked.npy");
  const auto values = counts();
  for (std::size_t n = 0; n < 12; ++n) {
    double sum = 0;
    for (std::size_t p = 0; p < 48; ++p) sum += weights[p] * values[n * 48 + p];
    EXPECT_EQ(image->values[n], sum) << n;  // multiples of 1/8: exact
  }
  EXPECT_EQ(r.json()["result"]["products"]["masked"]["provenance"]["operation"], "weighted_sum");
  std::vector<double> ramp(48);  // weight = row: the weighted centre is sum r^2 I / sum r I
  for (std::size_t p = 0; p < 48; ++p) ramp[p] = static_cast<double>(p / 8);
  write_file(folder / "ramp.npy", npy_of(ramp, std::vector<std::uint64_t>{6, 8}));
  const Ran d = on_cpu({"dpc", folder / "a.npy", "-o", folder / "dpc", "--mask", folder / "ramp.npy", "--no-pictures",
                        "--rotation-deg", "0", "--transpose", "no"});
  ASSERT_EQ(d.status, 0) << d.err;
  const auto row = read_npy(folder / "dpc/com_row.npy");
  for (std::size_t n = 0; n < 12; ++n) {
    double total = 0, moment = 0;
    for (std::size_t p = 0; p < 48; ++p)
      total += ramp[p] * values[n * 48 + p], moment += ramp[p] * ramp[p] * values[n * 48 + p];
    EXPECT_EQ(row->values[n], static_cast<double>(static_cast<float>(moment / total))) << n;
  }
  const Ran absent =
      on_cpu({"products", folder / "a.npy", "-o", folder / "y", "--mask", folder / "absent.npy", "--total"});
  EXPECT_EQ(absent.status, 3);
  EXPECT_TRUE(holds(absent.err, "absent.npy"));
}

TEST(CliConvert, C14_MarkersAreCopiedAsTheyAre) {
  const TemporaryFolder folder;
  std::vector<std::uint32_t> values(12 * 48);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint32_t>(i * 31 % 97);
  values[3 * 48 + 7] = 4294967295u;  // "no value", in one frame only
  write_file(folder / "a.npy", npy_of(values, std::vector<std::uint64_t>{3, 4, 6, 8}));
  ASSERT_EQ(ran({"convert", folder / "a.npy", folder / "b_master.h5"}).status, 0);
  ASSERT_EQ(ran({"convert", folder / "b_master.h5", folder / "c.npy"}).status, 0);
  EXPECT_EQ(file_bytes(folder / "c.npy"), file_bytes(folder / "a.npy"));
  ASSERT_EQ(ran({"convert", folder / "a.npy", folder / "z.npy", "--flagged", "zero"}).status, 0);
  EXPECT_EQ(read_npy(folder / "z.npy")->values[3 * 48 + 7], 0);
  EXPECT_EQ(ran({"convert", folder / "a.npy", folder / "e.npy", "--flagged", "error"}).status, 2);
}

TEST(CliInfo, C75_HashIsThatOfTheFiles) {
  const TemporaryFolder folder;
  write_cube(folder / "a.npy", counts());
  const std::string bytes = file_bytes(folder / "a.npy");
  const Ran r = ran({"info", folder / "a.npy", "--hash", "--json"});
  ASSERT_EQ(r.status, 0) << r.err;
  const auto identity = r.json()["result"]["files"][0]["identity"];
  ASSERT_EQ(identity.size(), 1u);
  EXPECT_EQ(identity[0]["sha256"], sha256_hex(bytes.data(), bytes.size()));
  EXPECT_EQ(identity[0]["bytes"], bytes.size());
  EXPECT_TRUE(holds(ran({"info", folder / "a.npy", "--hash"}).out, identity[0]["sha256"].get<std::string>()));
  EXPECT_EQ(ran({"info", folder / "a.npy", "--json"}).json()["result"]["files"][0]["identity"][0]["sha256"], nullptr);
}

}  // namespace
}  // namespace quantem::cli
