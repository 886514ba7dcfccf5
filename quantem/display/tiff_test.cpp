// TIFF files read back field by field, as the specification lays them out.

#include "quantem/display/tiff.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

namespace quantem {
namespace {

struct Field {
  std::uint32_t type, count, value;
};
struct Read {
  std::map<std::uint32_t, Field> fields;
  std::vector<std::uint8_t> bytes;
  [[nodiscard]] std::uint32_t u32_at(std::size_t at) const {
    return bytes[at] | bytes[at + 1] << 8 | bytes[at + 2] << 16 | static_cast<std::uint32_t>(bytes[at + 3]) << 24;
  }
  [[nodiscard]] std::uint32_t u16_at(std::size_t at) const {
    return static_cast<std::uint32_t>(bytes[at] | bytes[at + 1] << 8);
  }
  [[nodiscard]] double ratio(std::uint32_t tag) const {
    const std::uint32_t at = fields.at(tag).value;
    return static_cast<double>(u32_at(at)) / u32_at(at + 4);
  }
  [[nodiscard]] std::vector<float> values() const {
    std::vector<float> v(fields.at(279).value / 4);
    std::memcpy(v.data(), bytes.data() + fields.at(273).value, fields.at(279).value);
    return v;
  }
};

Read read_back(std::vector<std::uint8_t> bytes) {
  Read read{{}, std::move(bytes)};
  EXPECT_EQ(std::string(read.bytes.begin(), read.bytes.begin() + 2), "II");
  EXPECT_EQ(read.u16_at(2), 42u);
  const std::size_t directory = read.u32_at(4);
  std::uint32_t last = 0;
  for (std::size_t i = 0; i < read.u16_at(directory); ++i) {
    const std::size_t at = directory + 2 + 12 * i;
    const std::uint32_t tag = read.u16_at(at), type = read.u16_at(at + 2);
    EXPECT_GT(tag, last) << "tags ascend";
    last = tag;
    read.fields[tag] = {type, read.u32_at(at + 4), type == 3 ? read.u16_at(at + 8) : read.u32_at(at + 8)};
  }
  EXPECT_EQ(read.u32_at(directory + 2 + 12 * read.fields.size()), 0u) << "one image";
  return read;
}

Grid<float> picture() {
  Grid<float> image;
  image.extent = {3, 5};
  for (int i = 0; i < 15; ++i) image.values.push_back(static_cast<float>(i) * 0.3f - 1e9f);
  return image;
}

TEST(Tiff, FloatsComeBackBitForBit) {
  const auto bytes = encode_tiff(picture(), {"BF, counts; step 0.25 \xC3\x85", Pair{0.5, 0.25}});
  ASSERT_TRUE(bytes);
  const Read read = read_back(*bytes);
  EXPECT_EQ(read.fields.at(256).value, 5u);  // width: columns
  EXPECT_EQ(read.fields.at(257).value, 3u);
  EXPECT_EQ(read.fields.at(258).value, 32u);
  EXPECT_EQ(read.fields.at(259).value, 1u);
  EXPECT_EQ(read.fields.at(339).value, 3u);
  EXPECT_EQ(read.fields.at(296).value, 3u);
  EXPECT_DOUBLE_EQ(read.ratio(282), 4e8);  // x is the column: 0.25 A, 4e8 pixels in a centimetre
  EXPECT_DOUBLE_EQ(read.ratio(283), 2e8);
  const auto got = read.values(), want = picture().values;
  ASSERT_EQ(got.size(), want.size());
  EXPECT_EQ(std::memcmp(got.data(), want.data(), 4 * want.size()), 0);
  EXPECT_EQ(read.fields.at(273).value + read.fields.at(279).value, bytes->size());
  const char* text = reinterpret_cast<const char*>(bytes->data()) + read.fields.at(270).value;
  EXPECT_STREQ(text, "BF, counts; step 0.25 ??");
  EXPECT_EQ(*encode_tiff(picture()), *encode_tiff(picture()));
}

TEST(Tiff, U01_NoSizeIsWrittenWhereNoneIsKnown) {
  const auto bytes = encode_tiff(picture());
  ASSERT_TRUE(bytes);
  const Read read = read_back(*bytes);
  for (const std::uint32_t tag : {282u, 283u, 296u}) EXPECT_EQ(read.fields.count(tag), 0u);
  EXPECT_EQ(read.values().size(), 15u);
}

TEST(Tiff, C17_PixelsWithoutAValueAreNotNumbers) {
  Grid<float> image = picture();
  image.valid = BitMask(15, true);
  image.valid.set(7, false);
  const auto values = read_back(*encode_tiff(image)).values();
  for (std::size_t i = 0; i < 15; ++i) EXPECT_EQ(std::isnan(values[i]), i == 7) << i;
}

TEST(Tiff, AnImageThatIsNoneIsRefused) {
  Grid<float> image = picture();
  image.values.pop_back();
  const auto refused = encode_tiff(image);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::invalid_argument);
  EXPECT_FALSE(encode_tiff(Grid<float>{}));
}

}  // namespace
}  // namespace quantem
