// Storage of counts: layout, the reference encoder, volumes from arrays, reading back.

#include <gtest/gtest.h>

#include <cstring>

#include "quantem/resident/sliced_encode.h"
#include "quantem/resident/volume.h"
#include "tests/support/random_counts.h"

namespace quantem {
namespace {

Device cpu() {
  return *open_device(Backend::cpu);
}

std::vector<std::uint64_t> stream_values(const SlicedBlock& block, std::uint32_t stream) {
  std::vector<std::uint64_t> out(kBlockPositions);
  decode_stream(block, stream, std::span<std::uint64_t, kBlockPositions>(out));
  return out;
}

TEST(Layout, TileOrderCutAtTheEdge) {
  const SlicedLayout l({7, 9});
  EXPECT_EQ(l.tiles8, (Extent{1, 2}));
  EXPECT_EQ(l.tiles32, (Extent{1, 1}));
  EXPECT_EQ(l.n_streams, 63u + 2 + 3);
  EXPECT_EQ(l.pixel_of_stream[8], 9u);   // second row of the first tile
  EXPECT_EQ(l.pixel_of_stream[56], 8u);  // first pixel of the second tile
  EXPECT_EQ(l.pixel_of_stream[62], 62u);
  EXPECT_EQ(l.tile8_region(1), (Region{0, 7, 8, 9}));
  for (std::uint32_t p = 0; p < 63; ++p) EXPECT_EQ(l.pixel_of_stream[l.stream_of_pixel[p]], p);
}

TEST(Writer, PlanesBelowTheThresholdAreListed) {
  BlockWriter writer;
  const SlicedLayout layout({1, 1});  // 1 + 1 + 3 streams
  std::vector<std::uint16_t> values(kBlockPositions);
  for (std::uint32_t i = 0; i < 24; ++i) values[i] = 1;
  for (std::uint32_t i = 100; i < 123; ++i) values[i] = 2;
  values[511] = 0x8004;
  const auto block = encode_block<std::uint16_t>(layout, values, kBlockPositions, writer);
  ASSERT_TRUE(block);
  EXPECT_EQ(block->block.width(0), 1u);
  const std::vector<std::uint16_t> list(block->block.list_begin(0), block->block.list_stop(0));
  ASSERT_EQ(list.size(), 25u);
  EXPECT_EQ(list.front(), listed_bit(100, 1));
  EXPECT_EQ(list[23], listed_bit(511, 2));
  EXPECT_EQ(list[24], listed_bit(511, 15));
  const auto back = stream_values(block->block, 0);
  for (std::uint32_t i = 0; i < kBlockPositions; ++i) EXPECT_EQ(back[i], values[i]);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block->block.planes) % 64, 0u);
}

TEST(Writer, MoreThan255ListedBitsRaiseTheWidth) {
  const SlicedLayout layout({1, 1});
  std::vector<std::uint32_t> values(kBlockPositions);
  for (std::uint32_t b = 0; b < 32; ++b)
    for (std::uint32_t i = 0; i < 23; ++i)
      values[b * 16 + i % 16] |= 1u << b, values[(b * 16 + i + 200) % 512] |= 1u << b;
  BlockWriter writer;
  const auto block = encode_block<std::uint32_t>(layout, values, kBlockPositions, writer);
  ASSERT_TRUE(block);
  const SlicedBlock& b = block->block;
  EXPECT_LE(b.list_stop(0) - b.list_begin(0), 255);
  const auto back = stream_values(b, 0);
  for (std::uint32_t i = 0; i < kBlockPositions; ++i) {
    EXPECT_EQ(back[i], values[i]);
    EXPECT_EQ(decode_value(b, 0, i), values[i]);
  }
}

TEST(Writer, ABlockThatIsTooLargeIsRefusedWithWaysOut) {
  BlockWriter writer(3 * kPlaneBytes);
  const std::vector<std::uint16_t> values(kBlockPositions, 0xF);
  const auto block = encode_block<std::uint16_t>(SlicedLayout({1, 1}), values, kBlockPositions, writer);
  ASSERT_FALSE(block);
  EXPECT_EQ(block.error().code, Code::unsupported);
  EXPECT_NE(block.error().message.find("dense"), std::string::npos);
  EXPECT_NE(block.error().message.find("det_bin"), std::string::npos);
}

template <class T>
class Encode : public testing::Test {};
using Unsigned = testing::Types<std::uint8_t, std::uint16_t, std::uint32_t>;
TYPED_TEST_SUITE(Encode, Unsigned);

// Pixels, tile sums and moments against direct sums, odd detectors, last blocks of every kind.
TYPED_TEST(Encode, StreamsAreCountsTileSumsAndMoments) {
  using T = TypeParam;
  const Extent dets[] = {{1, 1}, {7, 9}, {1, 64}, {64, 1}, {13, 11}, {40, 33}};
  const std::uint32_t positions[] = {1, 31, 511, 512};
  BlockWriter writer;
  for (const Extent det : dets)
    for (const std::uint32_t n : positions) {
      const SlicedLayout l(det, n != 31);
      const auto values = support::random_counts<T>(std::uint64_t{n} * l.n_pixels, n + det.cols, 3, 97);
      const auto block = encode_block<T>(l, values, n, writer);
      ASSERT_TRUE(block);
      const auto at = [&](std::uint32_t i, std::uint32_t r, std::uint32_t c) -> std::uint64_t {
        return i < n ? values[std::uint64_t{i} * l.n_pixels + r * det.cols + c] : 0;
      };
      const auto expect = [&](std::uint32_t stream, const Region& g, auto&& weight) {
        const auto got = stream_values(block->block, stream);
        for (std::uint32_t i = 0; i < kBlockPositions; ++i) {
          std::uint64_t want = 0;
          for (std::uint32_t r = g.row_start; r < g.row_stop; ++r)
            for (std::uint32_t c = g.col_start; c < g.col_stop; ++c)
              want += weight(r - g.row_start, c - g.col_start) * at(i, r, c);
          ASSERT_EQ(got[i], want) << to_string(det) << " stream " << stream << " position " << i;
        }
      };
      const auto one = [](std::uint32_t, std::uint32_t) -> std::uint64_t { return 1; };
      for (std::uint32_t s = 0; s < l.n_pixels; ++s) {
        const std::uint32_t p = l.pixel_of_stream[s];
        expect(s, {p / det.cols, p / det.cols + 1, p % det.cols, p % det.cols + 1}, one);
      }
      std::uint32_t tile4 = 0;
      for (std::uint32_t t = 0; t < l.n_tiles8; ++t) {
        const Region of = l.tile8_region(t);
        expect(l.tile8_stream(t), of, one);
        for (std::uint32_t r = of.row_start; l.has_tiles_4() && r < of.row_stop; r += 4)
          for (std::uint32_t c = of.col_start; c < of.col_stop; c += 4)
            expect(l.tile4_stream(tile4++), {r, std::min(r + 4, of.row_stop), c, std::min(c + 4, of.col_stop)}, one);
      }
      ASSERT_EQ(tile4, l.n_tiles4);
      for (std::uint32_t t = 0; t < l.n_tiles32; ++t) {
        expect(l.tile32_stream(t), l.tile32_region(t), one);
        expect(l.row_moment_stream(t), l.tile32_region(t),
               [](std::uint32_t r, std::uint32_t) -> std::uint64_t { return r; });
        expect(l.col_moment_stream(t), l.tile32_region(t),
               [](std::uint32_t, std::uint32_t c) -> std::uint64_t { return c; });
      }
    }
}

// Lossless, for both representations and every scan shape.
TYPED_TEST(Encode, C22_ReadReturnsTheCounts) {
  using T = TypeParam;
  const Shape4 shapes[] = {
      {{1, 1}, {1, 1}}, {{1, 7}, {7, 9}}, {{7, 73}, {13, 11}}, {{27, 19}, {1, 64}}, {{3, 5}, {193, 191}}};
  for (const Shape4& shape : shapes) {
    const auto values = support::random_counts<T>(shape.n_values(), 11, 0.6, 97);
    const ArrayView view{
        dtype_of<T>(), {shape.scan.rows, shape.scan.cols, shape.det.rows, shape.det.cols}, values.data()};
    for (const Representation r : {Representation::dense, Representation::encoded}) {
      FromArrayOptions o;
      o.representation = r;
      const auto volume = from_array(cpu(), view, o);
      ASSERT_TRUE(volume) << volume.error().message;
      EXPECT_EQ(volume->representation(), r);
      const auto all = read(*volume, whole(shape.scan), whole(shape.det));
      ASSERT_TRUE(all);
      EXPECT_EQ(std::memcmp(all->buffer.data(), values.data(), values.size() * sizeof(T)), 0) << to_string(shape);
      const std::uint32_t sr = shape.scan.rows - 1, sc = shape.scan.cols - 1, dr = shape.det.rows - 1,
                          dc = shape.det.cols - 1;
      const auto last = read(*volume, {sr, sr + 1, sc, sc + 1}, {dr, dr + 1, dc, dc + 1});
      ASSERT_TRUE(last);
      EXPECT_EQ(last->template as<T>()[0], values.back());
    }
  }
}

}  // namespace
}  // namespace quantem
