// Laws of bit-sliced-v1 that need no reference: what every block looks like, whatever the counts.

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <random>

#include "quantem/resident/sliced_encode.h"

namespace quantem {
namespace {

std::uint32_t bits_of_plane(const SlicedBlock& block, std::uint32_t stream, std::uint32_t plane) {
  const auto* words = reinterpret_cast<const std::uint32_t*>(block.stream_planes(stream)) + 16 * plane;
  std::uint32_t n = 0;
  for (int k = 0; k < 16; ++k) n += static_cast<std::uint32_t>(std::popcount(words[k]));
  return n;
}

// Counts whose density differs from pixel to pixel, so that every width and list length occurs; every fifth
// pixel would list about 450 bits.
std::vector<std::uint32_t> mixed_counts(const SlicedLayout& layout, std::uint32_t n_positions, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::uint32_t> values(std::uint64_t{n_positions} * layout.n_pixels);
  for (std::uint64_t i = 0; i < values.size(); ++i) {
    const auto p = static_cast<std::uint32_t>(i % layout.n_pixels);
    for (std::uint32_t bit = 0; bit < 32; ++bit)
      if (random() % 512 < (p % 5 == 0 ? 14 : (p * 7 + bit * 13) % 61)) values[i] |= 1u << bit;
  }
  return values;
}

TEST(SlicedLaws, WidthsAndListsFollowTheRule) {
  for (const Extent det : {Extent{9, 17}, Extent{33, 5}, Extent{1, 1}}) {
    const SlicedLayout layout(det);
    BlockWriter writer;
    const auto encoded = encode_block<std::uint32_t>(layout, mixed_counts(layout, 512, det.cols), 512, writer);
    ASSERT_TRUE(encoded);
    const SlicedBlock& b = encoded->block;
    std::uint64_t planes_at = 0, n_raised = 0;
    for (std::uint32_t s = 0; s < layout.n_streams; ++s) {
      ASSERT_EQ(static_cast<std::uint64_t>(b.stream_planes(s) - b.planes), planes_at);  // no gaps, stream order
      planes_at += std::uint64_t{b.width(s)} * kPlaneBytes;
      std::uint32_t listed = 0, last = 0;
      std::uint32_t per_plane[32] = {};
      for (const std::uint16_t* e = b.list_begin(s); e != b.list_stop(s); ++e, ++listed) {
        const std::uint32_t place = listed_plane(*e) * 512 + listed_position(*e);
        ASSERT_TRUE(listed == 0 || place > last) << "ordered by plane, then position, none twice";
        ASSERT_GE(listed_plane(*e), b.width(s));
        ++per_plane[listed_plane(*e)];
        last = place;
      }
      ASSERT_LE(listed, kMaxListed);
      for (const std::uint32_t n : per_plane) ASSERT_LT(n, kListThreshold);
      if (b.width(s) == 0) continue;
      const std::uint32_t top = bits_of_plane(b, s, b.width(s) - 1);  // stored because it had to be
      const bool raised = listed + top > kMaxListed;
      ASSERT_TRUE(top >= kListThreshold || raised || (b.width(s) > 32 && top > 0)) << "stream " << s;
      n_raised += raised && top < kListThreshold;
    }
    ASSERT_EQ(reinterpret_cast<const std::byte*>(b.entry) - b.planes, static_cast<std::ptrdiff_t>(planes_at));
    EXPECT_TRUE(layout.n_pixels == 1 || n_raised > 0) << "the rule of 255 never applied: the counts test nothing";
  }
}

TEST(SlicedLaws, StreamsWithoutCountsCostNothingBesideTheDirectory) {
  const SlicedLayout layout({192, 192});
  BlockWriter writer;
  const std::vector<std::uint32_t> values(std::uint64_t{2} * layout.n_pixels);
  const auto encoded = encode_block<std::uint32_t>(layout, values, 2, writer);
  ASSERT_TRUE(encoded);
  EXPECT_EQ(encoded->bytes.n_bytes(), 6 * layout.n_streams + 4 * ((layout.n_streams + 63) / 64));
}

// u32 sources of small counts (genuine masters) cost what u8 ones cost: the same bytes.
TEST(SlicedLaws, WidthOfTheSourceDoesNotMatter) {
  const SlicedLayout layout({20, 23});
  std::mt19937 random(4);
  std::vector<std::uint8_t> small(std::uint64_t{300} * layout.n_pixels);
  for (std::uint8_t& v : small) v = static_cast<std::uint8_t>(random() % 9 == 0 ? random() % 256 : random() % 3);
  const std::vector<std::uint16_t> middle(small.begin(), small.end());
  const std::vector<std::uint32_t> large(small.begin(), small.end());
  BlockWriter writer;
  const auto a = encode_block<std::uint8_t>(layout, small, 300, writer);
  const auto b = encode_block<std::uint16_t>(layout, middle, 300, writer);
  const auto c = encode_block<std::uint32_t>(layout, large, 300, writer);
  ASSERT_TRUE(a && b && c);
  ASSERT_EQ(a->bytes.n_bytes(), b->bytes.n_bytes());
  ASSERT_EQ(a->bytes.n_bytes(), c->bytes.n_bytes());
  EXPECT_EQ(std::memcmp(a->bytes.data(), b->bytes.data(), a->bytes.n_bytes()), 0);
  EXPECT_EQ(std::memcmp(a->bytes.data(), c->bytes.data(), a->bytes.n_bytes()), 0);
}

TEST(SlicedLaws, C87_TheSameBytesForEveryNumberOfThreads) {
  const Extent det{11, 13};
  std::mt19937 random(6);
  std::vector<std::uint16_t> values(std::uint64_t{1100} * det.count());
  for (std::uint16_t& v : values) v = static_cast<std::uint16_t>(random() % 5);
  const auto one = encode_sliced<std::uint16_t>(det, values, 1100, 1);
  const auto two = encode_sliced<std::uint16_t>(det, values, 1100, 2);
  ASSERT_TRUE(one && two);
  ASSERT_EQ(one->n_blocks(), 3u);
  for (std::uint64_t b = 0; b < 3; ++b) {
    ASSERT_EQ(one->block_bytes[b].n_bytes(), two->block_bytes[b].n_bytes());
    EXPECT_EQ(std::memcmp(one->block_bytes[b].data(), two->block_bytes[b].data(), one->block_bytes[b].n_bytes()), 0);
  }
}

}  // namespace
}  // namespace quantem
