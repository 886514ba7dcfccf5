// The verbs as users call them: a simulated acquisition through info, products, dpc and convert; errors and their statuses.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <stop_token>

#include "quantem/cli/npy.h"
#include "quantem/cli/testing.h"
#include "quantem/runtime/device.h"

namespace quantem::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCpu[] = {"--backend", "cpu"};

std::vector<std::string> words(std::initializer_list<std::string> first, bool cpu = true) {
  std::vector<std::string> all = first;
  if (cpu) all.insert(all.end(), std::begin(kCpu), std::end(kCpu));
  return all;
}

// 12x10 positions of 0.25 A, 36x40 pixels, disc radius 6.
Ran simulate_small(const std::string& out, const std::string& dose = "4000") {
  return ran({"simulate", out, "--scan", "12x10", "--detector", "36x40", "--dose", dose, "--scan-step-a", "0.3333,0.4",
              "--json"});
}
// The same acquisition as OUT, simulated once for all tests.
int sample(const std::string& out) {
  static const TemporaryFolder shared("sample");
  static const Ran made = simulate_small(shared / "a.npy");
  if (made.status == 0) fs::copy_file(shared / "a.npy", out);
  return made.status;
}
std::string npy_cube(const std::vector<std::uint16_t>& values, std::vector<std::uint64_t> shape) {
  return npy_of(values, shape);
}

const std::vector<std::string> kKnown = {"--voltage-kv", "300",           "--semiangle-mrad",
                                         "20",           "--scan-step-a", "0.3333,0.4"};

TEST(CliSimulate, SameSeedSameBytesAndTruthBesideIt) {
  const TemporaryFolder folder;
  const Ran first = simulate_small(folder / "a.npy");
  ASSERT_EQ(first.status, 0) << first.err;
  ASSERT_EQ(simulate_small(folder / "b.npy").status, 0);
  EXPECT_EQ(file_bytes(folder / "a.npy"), file_bytes(folder / "b.npy"));
  EXPECT_EQ(read_npy(folder / "a_phase_blurred.npy")->shape, (std::vector<std::uint64_t>{12, 10}));
  EXPECT_TRUE(fs::exists(folder / "a_phase.npy") && fs::exists(folder / "a_simulation.json"));
  const auto result = first.json()["result"];
  EXPECT_EQ(result["schema"], "quantem.gpu.simulation/v1");
  EXPECT_EQ(result["shape"]["detector"], (nlohmann::json{36, 40}));
  const Ran again = simulate_small(folder / "a.npy");
  EXPECT_EQ(again.status, 2);
  EXPECT_TRUE(holds(again.err, "--overwrite")) << again.err;
}

TEST(CliSimulate, RefusesWhatMakesNoSense) {
  const TemporaryFolder folder;
  for (const auto& extra : std::vector<std::vector<std::string>>{
           {"--scan", "0x4"}, {"--seed", "-1"}, {"--dose", "many"}, {"--voltage-kv", "-300"}, {"--dtype", "u4"}}) {
    std::vector<std::string> all = {"simulate", folder / "x.npy"};
    all.insert(all.end(), extra.begin(), extra.end());
    const Ran r = ran(all);
    EXPECT_EQ(r.status, 2) << extra[0];
    EXPECT_TRUE(holds(r.err, extra[0])) << r.err;
  }
  EXPECT_EQ(ran({"simulate", folder / "x.tif"}).status, 2);
  EXPECT_TRUE(folder.names().empty());
}

TEST(CliProducts, EveryProductIsThereAndBfIsTheSumOverItsDisc) {
  const TemporaryFolder folder;
  ASSERT_EQ(sample(folder / "a.npy"), 0);
  std::vector<std::string> all = words({"products", folder / "a.npy", "--out", folder / "out", "--json", "--exact"});
  all.insert(all.end(), kKnown.begin(), kKnown.end());
  const Ran r = ran(all);
  ASSERT_EQ(r.status, 0) << r.err;
  const auto json = r.json();
  EXPECT_EQ(json["schema"], "quantem.gpu.cli/v1");
  EXPECT_EQ(json["command"], "products");
  EXPECT_EQ(json["ok"], true);
  EXPECT_EQ(json["error"], nullptr);
  const auto report = nlohmann::json::parse(file_bytes(folder / "out/report.json"));
  EXPECT_EQ(report["schema"], "quantem.gpu.report/v1");
  for (const char* name : {"bf", "abf", "adf", "haadf", "df", "total", "mean", "max", "com_row", "com_col",
                           "dpc_magnitude", "dpc_direction", "idpc", "fft_bf", "fft_idpc"}) {
    ASSERT_TRUE(report["products"].contains(name)) << name << report["notes"].dump();
    EXPECT_EQ(file_bytes(folder / ("out/" + std::string(name) + ".png")).substr(1, 3), "PNG") << name;
    const auto provenance = nlohmann::json::parse(file_bytes(folder / ("out/" + std::string(name) + ".json")));
    EXPECT_EQ(provenance["schema"], "quantem.gpu.provenance/v1") << name;
    EXPECT_EQ(provenance, report["products"][name]["provenance"]) << name;
  }
  EXPECT_EQ(file_bytes(folder / "out/contact_sheet.png").substr(1, 3), "PNG");
  for (const char* stage : {"device", "inspect", "load", "mean_pattern", "probe", "images", "patterns", "com", "dpc",
                            "fft", "pictures", "contact_sheet", "files", "total"})
    EXPECT_GE(report["timings_s"].value(stage, -1.0), 0.0) << stage;

  // The disc as the report states it, summed in plain loops.
  const auto cube = read_npy(folder / "a.npy"), bf = read_npy(folder / "out/bf.npy"),
             exact = read_npy(folder / "out/bf_exact.npy");
  ASSERT_TRUE(cube && bf && exact);
  const double row = report["probe"]["center"][0], col = report["probe"]["center"][1],
               radius = report["probe"]["radius_px"];
  for (std::size_t n = 0; n < 120; ++n) {
    double sum = 0;
    for (int i = 0; i < 36; ++i)
      for (int j = 0; j < 40; ++j)
        if ((i - row) * (i - row) + (j - col) * (j - col) <= radius * radius)
          sum += cube->values[n * 1440 + i * 40 + j];
    ASSERT_EQ(bf->values[n], sum) << n;
    ASSERT_EQ(exact->values[n], sum) << n;
  }
  // Origins: what was given, what was measured, what follows from both.
  EXPECT_EQ(report["calibration"]["voltage_kV"]["origin"], "caller");
  EXPECT_EQ(report["calibration"]["det_sampling_mrad"]["origin"], "derived");
  EXPECT_EQ(report["probe"]["center_origin"], "measured");
  EXPECT_EQ(report["dpc"]["units"], "rad");
}

TEST(CliProducts, C91_ExistingResultsAreKeptUnlessOverwritten) {
  const TemporaryFolder folder;
  ASSERT_EQ(sample(folder / "a.npy"), 0);
  const auto call = words({"products", folder / "a.npy", "-o", folder / "out", "--mean"});
  ASSERT_EQ(ran(call).status, 0);
  const std::string before = file_bytes(folder / "out/report.json");
  const Ran again = ran(call);
  EXPECT_EQ(again.status, 2);
  EXPECT_TRUE(holds(again.err, "--overwrite"));
  EXPECT_EQ(file_bytes(folder / "out/report.json"), before);
  auto over = call;
  over.push_back("--overwrite");
  EXPECT_EQ(ran(over).status, 0);
}

TEST(CliProducts, U01_NothingIsInventedWithoutCalibration) {
  const TemporaryFolder folder;
  ASSERT_EQ(sample(folder / "a.npy"), 0);
  const Ran r = ran(words({"products", folder / "a.npy", "-o", folder / "out"}));
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_TRUE(holds(r.out, "not calibrated: axes are in pixels")) << r.out;
  const auto report = nlohmann::json::parse(file_bytes(folder / "out/report.json"));
  for (const char* key : {"voltage_kV", "semiangle_mrad", "scan_sampling_A", "det_sampling_mrad"})
    EXPECT_EQ(report["calibration"][key]["value"], nullptr) << key;
  EXPECT_EQ(report["dpc"]["units"], "relative");
  const Ran mrad =
      ran(words({"products", folder / "a.npy", "-o", folder / "b", "--adf", "--inner", "20", "--unit", "mrad"}));
  EXPECT_EQ(mrad.status, 2);
  EXPECT_TRUE(holds(mrad.err, "semiangle_mrad")) << mrad.err;
  const Ran furlong =
      ran(words({"products", folder / "a.npy", "-o", folder / "b", "--adf", "--inner", "20", "--unit", "furlong"}));
  EXPECT_EQ(furlong.status, 2);
  EXPECT_TRUE(holds(furlong.err, "--unit")) << furlong.err;
}

TEST(CliProducts, CallersDiscRingAndMask) {
  const TemporaryFolder folder;
  std::vector<std::uint16_t> cube(2 * 3 * 5 * 5, 1);  // flat: no disc to find
  write_file(folder / "flat.npy", npy_cube(cube, {2, 3, 5, 5}));
  const Ran unknown = ran(words({"products", folder / "flat.npy", "-o", folder / "x", "--bf"}));
  EXPECT_EQ(unknown.status, 2);
  EXPECT_TRUE(holds(unknown.err, "center")) << unknown.err;
  // Everything: the refusals are notes.
  const Ran noted = ran(words({"products", folder / "flat.npy", "-o", folder / "y", "--json"}));
  EXPECT_EQ(noted.status, 0) << noted.err;
  EXPECT_TRUE(holds(noted.json()["result"]["notes"].dump(), "\"bf\""));
  write_file(folder / "mask.npy", npy_of(std::vector<std::uint8_t>{1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                                                   0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1},
                                         std::vector<std::uint64_t>{5, 5}));
  const Ran r = ran(words({"products", folder / "flat.npy", "-o", folder / "z", "--bf", "--adf", "--center", "2,2",
                           "--radius", "1", "--mask", folder / "mask.npy", "--no-pictures"}));
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_EQ(read_npy(folder / "z/bf.npy")->values, std::vector<double>(6, 5));    // r <= 1: 5 pixels
  EXPECT_EQ(read_npy(folder / "z/adf.npy")->values, std::vector<double>(6, 12));  // 1 <= r <= 2, both edges
  EXPECT_EQ(read_npy(folder / "z/masked.npy")->values, std::vector<double>(6, 2));
  EXPECT_FALSE(fs::exists(folder / "z/bf.png"));
  write_file(folder / "wrong.npy", npy_of(std::vector<std::uint8_t>(24, 1), std::vector<std::uint64_t>{4, 6}));
  const Ran wrong =
      ran(words({"products", folder / "flat.npy", "-o", folder / "w", "--mask", folder / "wrong.npy", "--mean"}));
  EXPECT_EQ(wrong.status, 2);
  EXPECT_TRUE(holds(wrong.err, "(5, 5)") && holds(wrong.err, "(4, 6)")) << wrong.err;
}

TEST(CliProducts, G08_LineScanHasImagesAndNoPhase) {
  const TemporaryFolder folder;
  std::vector<std::uint16_t> cube(1 * 7 * 8 * 8, 0);
  for (std::size_t n = 0; n < 7; ++n)
    for (std::size_t p : {18, 19, 20, 26, 27, 28, 34, 35, 36}) cube[n * 64 + p] = static_cast<std::uint16_t>(10 + n);
  write_file(folder / "line.npy", npy_cube(cube, {1, 7, 8, 8}));
  const Ran r = ran(words({"products", folder / "line.npy", "-o", folder / "out", "--json"}));
  ASSERT_EQ(r.status, 0) << r.err;
  const auto result = r.json()["result"];
  EXPECT_TRUE(result["products"].contains("com_row"));
  EXPECT_FALSE(result["products"].contains("idpc"));
  EXPECT_TRUE(holds(result["notes"].dump(), "idpc")) << result["notes"].dump();
}

TEST(CliDpc, KnownRotationGivesThePhaseThatWasPutIn) {
  const TemporaryFolder folder;
  // 0.3 rad: exp(i phase) of a stronger crystal passes the band of this coarse scan, and iDPC then shows less than the blurred
  // phase (0.9992 at 1 rad whatever the dose and the detector, 0.99992 here).
  ASSERT_EQ(ran({"simulate", folder / "a.npy", "--scan", "24x20", "--detector", "36x36", "--dose", "2000000", "--dtype",
                 "uint32", "--phase-max", "0.3", "--scan-step-a", "0.3333,0.4", "--rotation-deg", "20", "--transpose"})
                .status,
            0);
  std::vector<std::string> all =
      words({"dpc", folder / "a.npy", "-o", folder / "out", "--rotation-deg", "20", "--transpose", "yes", "--boundary",
             "periodic", "--truth", folder / "a_phase_blurred.npy", "--truth-at-least", "0.999", "--json"});
  all.insert(all.end(), kKnown.begin(), kKnown.end());
  const Ran r = ran(all);
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_GT(r.json()["result"]["truth"]["correlation"].get<double>(), 0.999);
  EXPECT_EQ(r.json()["result"]["dpc"]["origin"], "caller");
  // Without the exchange the axes are wrong, and the number says so.
  std::replace(all.begin(), all.end(), std::string("yes"), std::string("no"));
  std::replace(all.begin(), all.end(), folder / "out", folder / "other");
  const Ran wrong = ran(all);
  EXPECT_EQ(wrong.status, 7) << wrong.err;
  EXPECT_EQ(wrong.json()["ok"], false);
  EXPECT_LT(wrong.json()["result"]["truth"]["correlation"].get<double>(), 0.9);
}

TEST(CliInfo, SaysWhatAFileHoldsAndWhatIsWrongWithOthers) {
  const TemporaryFolder folder;
  ASSERT_EQ(sample(folder / "a.npy"), 0);
  const Ran r = ran({"info", folder / "a.npy", "--json"});
  ASSERT_EQ(r.status, 0) << r.err;
  const auto file = r.json()["result"]["files"][0];
  EXPECT_EQ(file["ready"], true);
  EXPECT_EQ(file["shape"]["scan"], (nlohmann::json{12, 10}));
  EXPECT_EQ(file["dtype"], "uint16");
  EXPECT_EQ(file["frames"]["stored"], 120);
  EXPECT_GT(file["memory"]["dense"]["resident_bytes"].get<double>(), 120 * 1440);
  const Ran missing = ran({"info", folder / "a.npy", folder / "absent_master.h5", "--json"});
  EXPECT_EQ(missing.status, 3);
  EXPECT_EQ(missing.json()["ok"], false);
  EXPECT_EQ(missing.json()["result"]["files"].size(), 2u);  // the good file is still answered
  EXPECT_TRUE(holds(missing.json()["error"]["message"], "absent_master.h5"));
  EXPECT_TRUE(holds(missing.err, "absent_master.h5"));
}

TEST(CliInfo, L02_ThirtyFiveFramesAskForAScanShape) {
  const TemporaryFolder folder;
  std::vector<std::uint16_t> frames(36 * 64);
  for (std::size_t i = 0; i < frames.size(); ++i) frames[i] = static_cast<std::uint16_t>(i / 64);
  write_file(folder / "36.npy", npy_cube(frames, {36, 8, 8}));
  frames.resize(35 * 64);
  write_file(folder / "35.npy", npy_cube(frames, {35, 8, 8}));
  const Ran guessed = ran({"info", folder / "36.npy", "--json"});
  EXPECT_EQ(guessed.status, 0);
  EXPECT_EQ(guessed.json()["result"]["files"][0]["scan_shape_origin"], "guessed");
  EXPECT_FALSE(guessed.json()["warnings"].empty());
  const Ran undetermined = ran({"info", folder / "35.npy"});
  EXPECT_EQ(undetermined.status, 2);
  EXPECT_TRUE(holds(undetermined.err, "35")) << undetermined.err;
  EXPECT_EQ(ran({"info", folder / "36.npy", "--scan-shape", "4x9"}).status, 0);
  EXPECT_NE(ran({"info", folder / "36.npy", "--scan-shape", "5x7"}).status, 0);
  EXPECT_EQ(ran({"info", folder / "36.npy", "--scan-shape", "5x7", "--extra-frames", "drop"}).status, 0);
}

TEST(CliConvert, RoundTripIsExactAndSaysBothSizes) {
  const TemporaryFolder folder;
  ASSERT_EQ(sample(folder / "a.npy"), 0);
  const Ran out = ran({"convert", folder / "a.npy", folder / "b_master.h5", "--json"});
  ASSERT_EQ(out.status, 0) << out.err;
  EXPECT_EQ(out.json()["result"]["source_bytes"], fs::file_size(folder / "a.npy"));
  EXPECT_LT(out.json()["result"]["stored_bytes"], out.json()["result"]["logical_bytes"]);
  const Ran back = ran({"convert", folder / "b_master.h5", folder / "c.npy", "--scan-shape", "12x10"});
  ASSERT_EQ(back.status, 0) << back.err;
  EXPECT_EQ(file_bytes(folder / "c.npy"), file_bytes(folder / "a.npy"));
  EXPECT_EQ(ran({"convert", folder / "a.npy", folder / "c.npy"}).status, 2);
  EXPECT_EQ(ran({"convert", folder / "a.npy", folder / "c.xyz"}).status, 2);
}

TEST(CliErrors, C82_EachClassHasItsStatus) {
  const TemporaryFolder folder;
  write_file(folder / "text.xyz", "not an array");
  std::vector<std::uint16_t> cube(4 * 4 * 64 * 64, 3);
  write_file(folder / "good.npy", npy_cube(cube, {4, 4, 64, 64}));
  write_file(folder / "cut.npy", npy_cube(cube, {4, 4, 64, 64}).substr(0, 5000));
  write_file(folder / "f8.npy", npy_of(std::vector<double>(64, 0), std::vector<std::uint64_t>{2, 2, 4, 4}));
  const auto status = [&](const std::string& file, std::vector<std::string> extra) {
    std::vector<std::string> all = {"products", file, "-o", folder / "out"};
    all.insert(all.end(), extra.begin(), extra.end());
    const Ran r = ran(all);
    EXPECT_FALSE(r.err.empty());
    EXPECT_EQ(r.out, "");
    EXPECT_FALSE(fs::exists(folder / "out")) << file;
    return r.status;
  };
  EXPECT_EQ(status(folder / "absent.npy", {"--backend", "cpu"}), 3);
  EXPECT_EQ(status(folder / "cut.npy", {"--backend", "cpu"}), 3);
  EXPECT_EQ(status(folder / "text.xyz", {"--backend", "cpu"}), 4);
  EXPECT_EQ(status(folder / "f8.npy", {"--backend", "cpu"}), 4);
  EXPECT_EQ(status(folder / "good.npy", {"--backend", "webgpu"}), 4);
  EXPECT_EQ(status(folder / "good.npy", {"--backend", "cpu", "--memory-limit", "1 kB"}), 5);
  EXPECT_EQ(status(folder / "good.npy", {"--backend", "cpu", "--scan-region", "0:9,0:1"}), 2);
  EXPECT_EQ(status(folder / "good.npy", {"--backend", "cpu", "--det-bin", "65"}), 2);
  EXPECT_EQ(status(folder / "good.npy", {"--backend", "abacus"}), 2);
}

TEST(CliErrors, CancellationIsStatus130AndLeavesNothing) {
  const TemporaryFolder folder;
  ASSERT_EQ(sample(folder / "a.npy"), 0);
  std::stop_source stop;
  stop.request_stop();
  CliHost host;
  host.stop = stop.get_token();
  const Ran r = ran(words({"products", folder / "a.npy", "-o", folder / "out"}), host);
  EXPECT_EQ(r.status, 130) << r.err;
  EXPECT_FALSE(fs::exists(folder / "out"));
  const Ran s = ran({"simulate", folder / "b.npy", "--scan", "12x10", "--detector", "36x40"}, host);
  EXPECT_EQ(s.status, 130) << s.err;
  EXPECT_FALSE(fs::exists(folder / "b.npy"));
}

TEST(CliErrors, QuietIsQuietAndProgressJsonIsJson) {
  const TemporaryFolder folder;
  ASSERT_EQ(sample(folder / "a.npy"), 0);
  EXPECT_EQ(ran(words({"products", folder / "a.npy", "-o", folder / "q", "--quiet"})).err, "");
  const Ran r = ran(words({"products", folder / "a.npy", "-o", folder / "p", "--progress", "json", "--quiet"}));
  ASSERT_EQ(r.status, 0);
  std::istringstream lines(r.err);
  int n = 0;
  for (std::string line; std::getline(lines, line); ++n) {
    const auto json = nlohmann::json::parse(line);
    EXPECT_TRUE(json.contains("stage") && json.contains("done") && json.contains("total") && json.contains("unit"))
        << line;
  }
  EXPECT_GT(n, 0);
}

TEST(CliDevice, M04_NoDeviceIsSaidAndNeverTheCpuInstead) {
  if (!list_cuda_devices().devices.empty()) GTEST_SKIP() << "this machine has a CUDA device";
  const TemporaryFolder folder;
  ASSERT_EQ(sample(folder / "a.npy"), 0);  // no device is needed
  EXPECT_EQ(ran({"info", folder / "a.npy"}).status, 0);
  for (const char* backend : {"auto", "cuda"}) {
    const Ran r = ran({"products", folder / "a.npy", "-o", folder / "out", "--backend", backend});
    EXPECT_EQ(r.status, 6) << backend;
    EXPECT_FALSE(fs::exists(folder / "out")) << backend;
  }
  EXPECT_TRUE(holds(ran({"products", folder / "a.npy", "-o", folder / "out"}).err, "--backend cpu"));
  const Ran required = ran({"doctor", "--require", "cuda", "--json"});
  EXPECT_EQ(required.status, 6);
  EXPECT_EQ(required.json()["error"]["code"], "device");
  EXPECT_EQ(ran(words({"products", folder / "a.npy", "-o", folder / "out"})).status, 0);
}

TEST(CliDoctor, SelfTestEqualsThePlainLoops) {
  const Ran r = ran({"doctor", "--json"});
  ASSERT_EQ(r.status, 0) << r.err << r.out;
  const auto test = r.json()["result"]["self_test"];
  EXPECT_GE(test["checks"].get<int>(), 24);
  EXPECT_TRUE(test["differences"].empty()) << test.dump();
}

// P01 and P02: a path is the user's bytes, through every verb and in every message.
void check_path(const std::string& directory, const std::string& stem) {
  const TemporaryFolder folder(directory);
  const std::string master = folder / (stem + "_master.h5");
  const Ran made = simulate_small(master);
  ASSERT_EQ(made.status, 0) << made.err;
  const std::string other = folder / (stem + ".npy");
  const Ran info = ran({"info", master, "--json", "--scan-shape", "12x10"});
  ASSERT_EQ(info.status, 0) << info.err;
  EXPECT_EQ(info.json()["result"]["files"][0]["file"], master);
  const Ran products =
      ran(words({"products", master, "--out", folder / "[out]", "--scan-shape", "12x10", "--json", "--mean", "--com"}));
  ASSERT_EQ(products.status, 0) << products.err;
  EXPECT_TRUE(fs::exists(folder / "[out]/mean.npy"));
  ASSERT_EQ(ran({"convert", master, other, "--scan-shape", "12x10"}).status, 0);
  const Ran absent = ran({"info", folder / (stem + "_no_master.h5")});
  EXPECT_EQ(absent.status, 3);
  EXPECT_TRUE(holds(absent.err, folder / (stem + "_no_master.h5"))) << absent.err;
}

TEST(CliPaths, P01_NamesOutsideAscii) {
  check_path("тест ü 한글", "Å_1");
}
TEST(CliPaths, P02_SpacesQuotesCommasHashPercentStarBrackets) {
  check_path("a 'b' #1 50% [x]*,y.z", "[q] 1");
}

}  // namespace
}  // namespace quantem::cli
