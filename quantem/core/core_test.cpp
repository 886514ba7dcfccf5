// The words that everyone shares: results, shapes, regions, dtypes, masks, hashes, wavelengths, provenance.

#include <gtest/gtest.h>

#include <regex>

#include "quantem/core/array.h"
#include "quantem/core/bit_mask.h"
#include "quantem/core/calibration.h"
#include "quantem/core/dtype.h"
#include "quantem/core/job.h"
#include "quantem/core/provenance.h"
#include "quantem/core/region.h"
#include "quantem/core/sha256.h"

namespace quantem {
namespace {

Result<int> half_of_even(int n) {
  if (n % 2) return Error{Code::invalid_argument, "n is odd"};
  return n / 2;
}
Result<int> quarter(int n) {
  QUANTEM_TRY_ASSIGN(half, half_of_even(n));
  QUANTEM_TRY(half_of_even(half));
  return half / 2;
}

TEST(Result, CarriesValueOrErrorThroughTry) {
  ASSERT_TRUE(quarter(12));
  EXPECT_EQ(*quarter(12), 3);
  const auto failed = quarter(6);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Code::invalid_argument);
  EXPECT_EQ(with_context("quarter", failed.error()).message, "quarter: n is odd");
  EXPECT_EQ(code_info(Code::corrupt_data).name, "corrupt_data");
  EXPECT_EQ(code_info(Code::cancelled).exit_status, 130);
  EXPECT_EQ(code_info(Code::internal).http_status, 500);
}

TEST(Shape, ProductsAre64Bit) {
  const Shape4 s{{1024, 1024}, {192, 192}};
  EXPECT_EQ(s.n_values(), 38654705664u);
  EXPECT_FALSE(checked_multiply(1ull << 40, 1ull << 24));
  EXPECT_EQ(*checked_multiply(1ull << 39, 1ull << 24), 1ull << 63);
  EXPECT_FALSE(checked_add(~0ull, 1));
  EXPECT_EQ(geometric_center({192, 193}), (Point{95.5, 96}));
}

TEST(Region, C3_NamesTheBoundItsValueAndN) {
  EXPECT_TRUE(check_region({0, 4, 0, 5}, {4, 5}, "scan_region"));
  const auto high = check_region({0, 5, 0, 5}, {4, 5}, "scan_region");
  ASSERT_FALSE(high);
  EXPECT_NE(high.error().message.find("scan_region row_stop is 5, the axis has 4"), std::string::npos);
  const auto empty = check_region({2, 2, 0, 5}, {4, 5}, "scan_region");
  ASSERT_FALSE(empty);
  EXPECT_NE(empty.error().message.find("row_start is 2"), std::string::npos);
}

TEST(Dtype, C20_NamesAndTheAmbiguousOne) {
  EXPECT_EQ(*parse_dtype("uint16"), Dtype::u16);
  EXPECT_EQ(*parse_dtype("u16"), Dtype::u16);
  EXPECT_EQ(*parse_dtype("f32"), Dtype::f32);
  const auto u4 = parse_dtype("u4");
  ASSERT_FALSE(u4);
  EXPECT_EQ(u4.error().message,
            "dtype 'u4' is ambiguous and not supported; omit dtype to keep native counts losslessly");
  EXPECT_FALSE(parse_dtype("float64"));
}

TEST(BitMask, TailBitsStayClear) {
  BitMask m(70, true);
  EXPECT_EQ(m.n_set(), 70u);
  EXPECT_EQ(m.first_unset(), 70u);
  m.set(66, false);
  EXPECT_EQ(m.first_unset(), 66u);
  EXPECT_EQ((~m).n_set(), 1u);
  EXPECT_EQ(BitMask(0).n_set(), 0u);
  // One set bit at index 0 is byte 0x80.
  BitMask one(8);
  one.set(0);
  const unsigned char byte = 0x80;
  EXPECT_EQ(one.sha256(), sha256_hex(&byte, 1));
}

TEST(BitMask, LongMasksByTheirDefinition) {
  for (const std::uint64_t n : {1, 63, 64, 511, 512, 513, 1000, 36864}) {
    BitMask m(n, true);
    EXPECT_EQ(m.first_unset(), n);
    for (const std::uint64_t unset : {n - 1, n / 2, std::uint64_t{0}}) {
      m.set(unset, false);
      EXPECT_EQ(m.first_unset(), unset) << n;
    }
    for (std::uint64_t i = 0; i < n; i += 3) m.set(i, i % 7 == 0);
    std::vector<unsigned char> bytes((n + 7) / 8);
    for (std::uint64_t i = 0; i < n; ++i)
      if (m[i]) bytes[i / 8] = static_cast<unsigned char>(bytes[i / 8] | 0x80 >> i % 8);
    EXPECT_EQ(m.sha256(), sha256_hex(bytes.data(), bytes.size())) << n;
  }
}

TEST(Sha256, KnownAnswer) {
  EXPECT_EQ(sha256_hex("abc", 3), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Calibration, O1_Wavelengths) {
  const std::pair<double, double> known[] = {
      {60, 0.048660605}, {80, 0.041757161}, {120, 0.033492153}, {200, 0.025079340}, {300, 0.019687489}};
  for (const auto& [kV, angstrom] : known) EXPECT_NEAR(electron_wavelength_A(kV), angstrom, 1e-9) << kV;
}

TEST(Calibration, O2_InteractionConstants) {
  EXPECT_NEAR(interaction_constant_rad_per_VA(80), 1.008707e-3, 1e-9);
  EXPECT_NEAR(interaction_constant_rad_per_VA(200), 7.28840e-4, 1e-9);
  EXPECT_NEAR(interaction_constant_rad_per_VA(300), 6.52616e-4, 1e-9);
}

TEST(Job, C90_LastCallHasDoneEqualTotal) {
  std::vector<std::uint64_t> seen;
  const Job job{[&](const Progress& p) { seen.push_back(p.done); }, {}};
  ProgressMeter meter(job, "load", 10, "frames");
  for (int i = 0; i < 10; ++i) meter.add(1);
  meter.finish();
  ASSERT_FALSE(seen.empty());
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  EXPECT_EQ(seen.back(), 10u);
}

TEST(Provenance, NativeIsTheAbsenceOfEvidence) {
  Provenance p;
  EXPECT_NE(to_json(p).find("\"evidence\":[\"native\"]"), std::string::npos);
  p.add_evidence("binned");
  p.add_evidence("binned");
  EXPECT_NE(to_json(p).find("\"evidence\":[\"binned\"]"), std::string::npos);
  EXPECT_NE(to_json(p).find("quantem.gpu.provenance/v1"), std::string::npos);
}

TEST(Provenance, C71_NamesTheVersionAndTheCommit) {
  const std::string revision = software_revision();
  EXPECT_TRUE(std::regex_match(revision, std::regex(R"(\d+\.\d+\.\d+(\+g[0-9a-f]{9,}(-dirty)?)?)"))) << revision;
}

TEST(Buffer, IsAlignedAndRefusesWhatIsNotThere) {
  const Buffer b(100);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b.data()) % 64, 0u);
  EXPECT_EQ(b.n_bytes(), 100u);
  EXPECT_FALSE(allocate_buffer(~0ull, "test"));
}

}  // namespace
}  // namespace quantem
