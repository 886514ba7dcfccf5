// The grammar: help of every verb, strict values, usage errors, environment, progress.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "quantem/cli/parse.h"
#include "quantem/cli/progress.h"
#include "quantem/cli/testing.h"

namespace quantem::cli {
namespace {

TEST(CliHelp, EveryVerbExplainsItselfWithExamplesOnStdout) {
  for (const std::string verb : {"doctor", "info", "products", "dpc", "simulate", "convert"}) {
    const Ran r = ran({verb, "--help"});
    EXPECT_EQ(r.status, 0) << verb;
    EXPECT_TRUE(holds(r.out, "Examples:\n  quantem-gpu " + verb)) << r.out;
    EXPECT_TRUE(holds(r.out, "--json")) << verb;
    EXPECT_EQ(r.err, "") << verb;
  }
  const Ran all = ran({"--help"});
  EXPECT_EQ(all.status, 0);
  for (const char* verb : {"doctor", "info", "products", "dpc", "simulate", "convert"})
    EXPECT_TRUE(holds(all.out, verb));
  EXPECT_EQ(ran({"--version"}).status, 0);
}

TEST(CliUsage, C82_WrongUseIsStatus2AndSaysWhereTheHelpIs) {
  const std::vector<std::vector<std::string>> wrong = {{},
                                                       {"develop"},
                                                       {"info"},
                                                       {"products", "a.npy"},
                                                       {"doctor", "--nonsense"},

                                                       {"doctor", "--require", "abacus"},
                                                       {"doctor", "--progress", "fast"}};
  for (const auto& arguments : wrong) {
    const Ran r = ran(arguments);
    EXPECT_EQ(r.status, 2) << (arguments.empty() ? "" : arguments[0]) << r.err;
    EXPECT_EQ(r.out, "");
    EXPECT_TRUE(r.err.starts_with("quantem-gpu")) << r.err;
  }
  EXPECT_TRUE(holds(ran({"info"}).err, "quantem-gpu info --help"));
}

TEST(CliUsage, AFileMayHaveTheNameOfAVerb) {
  const Ran r = ran({"info", "doctor"});
  EXPECT_EQ(r.status, 3);
  EXPECT_TRUE(holds(r.err, "doctor: no such file")) << r.err;
}

TEST(CliUsage, JsonHoldsForUsageErrorsToo) {
  const Ran r = ran({"doctor", "--nonsense", "--json"});
  EXPECT_EQ(r.status, 2);
  const auto json = nlohmann::json::parse(r.out);
  EXPECT_EQ(json["schema"], "quantem.gpu.cli/v1");
  EXPECT_EQ(json["command"], "doctor");
  EXPECT_EQ(json["ok"], false);
  EXPECT_EQ(json["result"], nullptr);
  EXPECT_EQ(json["error"]["code"], "invalid_argument");
}

TEST(CliUsage, MessagesSayWhatIsWrongOnceAndWithItsName) {
  const Ran verb = ran({"bogus", "x.h5"});
  EXPECT_EQ(verb.status, 2);
  EXPECT_TRUE(holds(verb.err, "'bogus' is none of doctor, info, products")) << verb.err;
  const Ran twice = ran({"simulate", "never_written.npy", "--dose", "-3"});
  EXPECT_EQ(twice.status, 2);
  EXPECT_TRUE(twice.err.starts_with("quantem-gpu simulate: dose is -3")) << twice.err;
  const Ran polarity = ran({"dpc", "x.npy", "-o", "never_written", "--polarity", "defocus"});
  EXPECT_EQ(polarity.status, 4);
  EXPECT_TRUE(holds(polarity.err, "--polarity")) << polarity.err;
}

TEST(CliEnvironment, BadValueIsAnErrorThatNamesTheVariable) {
  const std::pair<const char*, const char*> bad[] = {
      {"QUANTEM_GPU_BACKEND", "abacus"}, {"QUANTEM_GPU_DEVICE", "-1"},  {"QUANTEM_GPU_MEMORY_LIMIT", "eight"},
      {"QUANTEM_GPU_THREADS", "0"},      {"QUANTEM_GPU_PROGRESS", "x"}, {"QUANTEM_GPU_LOG", "loud"},
      {"QUANTEM_GPU_WORK_BYTES", "1 XB"}};
  for (const auto& [name, value] : bad) {
    CliHost host;
    host.environment[name] = value;
    const Ran r = ran({"doctor"}, host);
    EXPECT_EQ(r.status, 2) << name;
    EXPECT_TRUE(holds(r.err, name)) << r.err;
  }
}

TEST(CliEnvironment, UnknownVariableIsAWarning) {
  CliHost host;
  host.environment["QUANTEM_GPU_SPEED"] = "11";
  const Ran r = ran({"doctor", "--json"}, host);
  EXPECT_EQ(r.status, 0);
  EXPECT_TRUE(holds(r.err, "QUANTEM_GPU_SPEED"));
  EXPECT_TRUE(holds(nlohmann::json::parse(r.out)["warnings"].dump(), "QUANTEM_GPU_SPEED"));
}

TEST(CliParse, FormsAreReadWhole) {
  EXPECT_EQ(*parse_extent("512x256", "o"), (Extent{512, 256}));
  EXPECT_EQ(*parse_region("0:64,8:72", "o"), (Region{0, 64, 8, 72}));
  EXPECT_EQ(*parse_bin("2,3", "o"), (Extent{2, 3}));
  EXPECT_EQ(*parse_bin("4", "o"), (Extent{4, 4}));
  EXPECT_EQ(*parse_point("-1.5,96", "o"), (Point{-1.5, 96}));
  EXPECT_EQ(*parse_step("0.2", "o"), (Pair{0.2, 0.2}));
  EXPECT_EQ(*parse_bytes("8 GB", "o"), 8'000'000'000u);
  EXPECT_EQ(*parse_bytes("512MiB", "o"), 536'870'912u);
  EXPECT_EQ(*parse_bytes("123", "o"), 123u);
  const auto raw = parse_raw(">u16,192x128,1024,16", "o");
  ASSERT_TRUE(raw);
  EXPECT_TRUE(raw->big_endian && raw->dtype == Dtype::u16 && raw->det == (Extent{192, 128}));
  EXPECT_EQ(raw->offset_bytes, 1024u);
  EXPECT_EQ(raw->gap_bytes, 16u);
}

TEST(CliParse, AnythingElseIsRefusedWithTheOptionsName) {
  for (const char* text : {"512", "0x5", "5x0", "5x5x5", "-5x5", "5 x5", "99999999999x1", "", "x"})
    EXPECT_FALSE(parse_extent(text, "--scan-shape")) << text;
  for (const char* text : {"0:64", "0:64,", "a:b,c:d", "0:64,8:72,1:2", "-1:5,0:5"})
    EXPECT_FALSE(parse_region(text, "--scan-region")) << text;
  for (const char* text : {"0", "2,0", "1,2,3", "-2", "1.5"}) EXPECT_FALSE(parse_bin(text, "--det-bin")) << text;
  for (const char* text : {"nan,1", "1", "1,inf", "1,2,3"}) EXPECT_FALSE(parse_point(text, "--center")) << text;
  for (const char* text : {"GB", "-1 GB", "1e400 GB", "8 gigs", "99999999999 TB"})
    EXPECT_FALSE(parse_bytes(text, "--memory-limit")) << text;
  for (const char* text : {"u16", "u4,8x8", "u16,8", "u16,8x8,-1", "u16,8x8,1,2,3"})
    EXPECT_FALSE(parse_raw(text, "--raw"));
  EXPECT_EQ(parse_extent("12", "--scan-shape").error().message,
            "--scan-shape: expected ROWSxCOLS, as 512x256, found '12'");
}

TEST(CliParse, MessagesOfTheLibraryNameTheOptions) {
  EXPECT_EQ(with_option_names("35 frames are not a square: give scan_shape"),
            "35 frames are not a square: give scan_shape (--scan-shape)");
  EXPECT_TRUE(with_option_names("no disc: pass center=(row, col) and radius=").ends_with(" (--center, --radius)"));
  for (const char* untouched : {"/data/scan_shape.h5 not found", "--scan-shape: expected scan_shape", "fine"})
    EXPECT_EQ(with_option_names(untouched), untouched);
  EXPECT_EQ(format_count(1208081), "1208081");
}

TEST(CliProgress, BarHasRateAndTimeLeft) {
  const std::string text = progress_text({"load", 1'000'000'000, 4'000'000'000, "bytes"}, 0.5, 80, true);
  EXPECT_TRUE(holds(text, " 25 %") && holds(text, "2.00 GB/s") && holds(text, "2 s left") && holds(text, "#")) << text;
  EXPECT_LE(text.size(), 80u);
  EXPECT_TRUE(holds(progress_text({"simulate", 30, 60, "frames"}, 2, 80, false), "15 frames/s"));
  EXPECT_LE(progress_text({"load", 1, 4, "bytes"}, 0.5, 5, true).size(), 60u);  // no room for a bar: none
}

TEST(CliProgress, PipeGetsPlainLinesAndJsonGetsObjects) {
  std::ostringstream lines, json, bar;
  ProgressPrinter a(lines, ProgressStyle::lines, 80), b(json, ProgressStyle::json, 80), c(bar, ProgressStyle::bar, 80);
  for (ProgressPrinter* printer : {&a, &b, &c}) {
    for (const std::uint64_t done : {1, 2, 3}) printer->report({"load", done, 3, "frames"});
    printer->close();
  }
  EXPECT_FALSE(holds(lines.str(), "\r")) << lines.str();
  EXPECT_TRUE(lines.str().starts_with("load 100 %")) << lines.str();
  std::istringstream in(json.str());
  int n = 0;
  for (std::string line; std::getline(in, line); ++n) EXPECT_EQ(nlohmann::json::parse(line)["done"], n + 1);
  EXPECT_EQ(n, 3);
  EXPECT_TRUE(holds(bar.str(), "\r") && bar.str().ends_with("\n"));
}

TEST(CliDoctor, SaysWhatThereIsAndWhatIsNot) {
  const Ran r = ran({"doctor", "--json"});
  EXPECT_EQ(r.status, 0) << r.err;
  const auto result = nlohmann::json::parse(r.out)["result"];
  EXPECT_EQ(result["devices"][0]["backend"], "cpu");
  EXPECT_TRUE(holds(result["devices"][0]["runtime"], "SIMD"));
  EXPECT_TRUE(result["libraries"].contains("HDF5"));
}

}  // namespace
}  // namespace quantem::cli
