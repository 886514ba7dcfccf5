// What products, dpc and info offer beside the default: several files, TIFF, frame statistics, weights, hashes.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

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
