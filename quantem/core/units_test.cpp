#include "quantem/core/units.h"

#include <gtest/gtest.h>

namespace quantem {
namespace {

TEST(Units, U02_SpellingsMeanOneThing) {
  // What value 1 becomes. "Å" in UTF-8 is C3 85; the angstrom sign E2 84 AB.
  const std::pair<const char*, Quantity> known[] = {{"A^-1", {1, "1/A"}},
                                                    {"\xC3\x85\xE2\x81\xBB\xC2\xB9", {1, "1/A"}},
                                                    {"1/\xC3\x85", {1, "1/A"}},
                                                    {"1/\xE2\x84\xAB", {1, "1/A"}},
                                                    {"1/nm", {0.1, "1/A"}},
                                                    {"nm^-1", {0.1, "1/A"}},
                                                    {"mrad", {1, "mrad"}},
                                                    {"\xC3\x85", {1, "A"}},
                                                    {"A", {1, "A"}},
                                                    {"\xC5", {1, "A"}},
                                                    {"nm", {10, "A"}},
                                                    {" \xC2\xB5m ", {1e4, "A"}},
                                                    {"rad", {1000, "mrad"}},
                                                    {"keV", {1, "kV"}},
                                                    {"volts", {1e-3, "kV"}},
                                                    {"micrometers", {1e4, "A"}},
                                                    {"microseconds", {1, "us"}},
                                                    {"pixels", {1, "px"}},
                                                    {"ms", {1000, "us"}}};
  for (const auto& [text, expected] : known) EXPECT_EQ(to_base(1, text), expected) << text;
}

TEST(Units, U02_UnknownStaysTextAndIsNotConverted) {
  for (const char* text : {"", "None", "furlong", "1/furlong", "A^-2", "counts", "mm^-1", "-1", "1/"}) {
    EXPECT_EQ(to_base(1, text), (Quantity{1, text})) << text;
    EXPECT_EQ(canonical_unit(text), text);
    EXPECT_FALSE(is_known_unit(text)) << text;
  }
  EXPECT_EQ(convert(1, "furlong", "A").error().code, Code::invalid_argument);
}

TEST(Units, U02_AnglesAndReciprocalLengthsNeedTheWavelength) {
  EXPECT_NEAR(*convert(20, "mrad", "1/A", 300), 1.0159, 5e-5);
  EXPECT_NEAR(*convert(1.0159, "A^-1", "mrad", 300), 20, 1e-3);
  EXPECT_NEAR(*convert(1, "1/nm", "1/A"), 0.1, 1e-16);
  EXPECT_NEAR(*convert(180, "deg", "rad"), 3.14159265358979, 1e-13);
  const auto refused = convert(20, "mrad", "1/A");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("voltage_kV"), std::string::npos);
  EXPECT_FALSE(convert(1, "nm", "mrad", 300));
}

}  // namespace
}  // namespace quantem
