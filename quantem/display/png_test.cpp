// PNG files, read back with libpng.

#include "quantem/display/png.h"

#include <gtest/gtest.h>
#include <png.h>

#include <cstring>
#include <fstream>

namespace quantem {
namespace {

Rgba noise(Extent extent, bool opaque) {
  Rgba picture(extent);
  std::uint32_t state = 12345;
  for (std::uint8_t& byte : picture.bytes)
    byte = static_cast<std::uint8_t>((state = state * 1664525u + 1013904223u) >> 24);
  if (opaque)
    for (std::uint64_t i = 3; i < picture.bytes.size(); i += 4) picture.bytes[i] = 255;
  return picture;
}

std::vector<std::uint8_t> decode(const std::vector<std::uint8_t>& file, Extent expected, bool* has_alpha) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  EXPECT_TRUE(png_image_begin_read_from_memory(&image, file.data(), file.size())) << image.message;
  EXPECT_EQ(image.width, expected.cols);
  EXPECT_EQ(image.height, expected.rows);
  *has_alpha = image.format & PNG_FORMAT_FLAG_ALPHA;
  image.format = PNG_FORMAT_RGBA;
  std::vector<std::uint8_t> bytes(PNG_IMAGE_SIZE(image));
  EXPECT_TRUE(png_image_finish_read(&image, nullptr, bytes.data(), 0, nullptr)) << image.message;
  return bytes;
}

TEST(Png, ReadsBackByteForByte) {
  for (const Extent extent : {Extent{1, 1}, Extent{1, 7}, Extent{13, 1}, Extent{37, 41}})
    for (const bool opaque : {true, false}) {
      const Rgba picture = noise(extent, opaque);
      const auto file = encode_png(picture);
      ASSERT_TRUE(file);
      bool has_alpha = false;
      EXPECT_EQ(decode(*file, extent, &has_alpha), picture.bytes);
      EXPECT_EQ(has_alpha, !opaque);
      EXPECT_EQ(*encode_png(picture), *file) << "the same picture gives the same bytes";
    }
}

// Compressed in bands: many rows in one, one row in several KiB, more than 32 KiB in one row, a band that ends with the picture.
TEST(Png, PicturesOfSeveralBandsReadBackByteForByte) {
  for (const Extent extent :
       {Extent{700, 401}, Extent{5, 90000}, Extent{256, 341}, Extent{90000, 2}, Extent{3, 300000}})
    for (const bool opaque : {true, false}) {
      Rgba picture = noise(extent, opaque);
      for (std::uint64_t i = 0; i < picture.bytes.size() / 2; ++i)
        if (i % 4 != 3) picture.bytes[i] = static_cast<std::uint8_t>(i / 4096);  // one half repeats itself
      const auto file = encode_png(picture);
      ASSERT_TRUE(file);
      bool has_alpha = false;
      EXPECT_EQ(decode(*file, extent, &has_alpha), picture.bytes) << to_string(extent);
    }
}

TEST(Png, CarriesTextAndNoTime) {
  const std::string text = R"({"unit": "Å⁻¹"})";
  const auto file = encode_png(noise({3, 3}, true), {.texts = {{"quantem.provenance", text}}});
  ASSERT_TRUE(file);
  const std::string bytes(file->begin(), file->end());
  EXPECT_NE(bytes.find("iTXtquantem.provenance"), std::string::npos);
  EXPECT_NE(bytes.find(text), std::string::npos);
  EXPECT_EQ(bytes.find("tIME"), std::string::npos);
  EXPECT_FALSE(encode_png(noise({3, 3}, true), {.texts = {{"", text}}}));
}

TEST(Png, RefusesWhatIsNoPicture) {
  EXPECT_FALSE(encode_png(Rgba{}));
  Rgba broken({4, 4});
  broken.bytes.pop_back();
  const auto refused = encode_png(broken);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("64"), std::string::npos);
  EXPECT_NE(refused.error().message.find("63"), std::string::npos);
}

TEST(Png, WritesWholeFilesOrNone) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "quantem_png";
  std::filesystem::create_directories(folder);
  const Rgba picture = noise({5, 6}, true);
  ASSERT_TRUE(write_png(folder / "a.png", picture));
  std::ifstream file(folder / "a.png", std::ios::binary);
  const std::vector<std::uint8_t> bytes{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(bytes, *encode_png(picture));
  EXPECT_FALSE(std::filesystem::exists(folder / "a.png.part"));
  const auto refused = write_png(folder / "absent" / "a.png", picture);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::io);
  EXPECT_NE(refused.error().message.find("absent"), std::string::npos);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace quantem
