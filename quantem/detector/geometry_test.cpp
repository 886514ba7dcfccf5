// Which pixels a detector selects, counted exactly.

#include "quantem/detector/geometry.h"

#include <gtest/gtest.h>

#include <cmath>

#include "quantem/detector/scan_set.h"

namespace quantem {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr Extent kArina{192, 192};

std::uint64_t n_band(Point c, double lo, double hi, Extent det) {
  return annulus(c, lo, hi, det)->n_selected();
}

TEST(Geometry, C32_PixelCountsOn192x192) {
  EXPECT_EQ(disk({95.5, 95.5}, 30, kArina)->n_selected(), 2828u);
  EXPECT_EQ(n_band({95.5, 95.5}, 30, 60, kArina), 8476u);
  EXPECT_EQ(n_band({95.5, 95.5}, 30, kInf, kArina), 34036u);
  EXPECT_EQ(disk({96, 96}, 30, kArina)->n_selected(), 2821u);
  EXPECT_EQ(n_band({96, 96}, 30, 60, kArina), 8480u);
  EXPECT_EQ(n_band({96, 96}, 30, kInf, kArina), 34055u);
}

TEST(Geometry, C33_PixelsAtExactlyRAreInBothBands) {
  const auto shared = [](Point c) {
    BitMask both = disk(c, 30, kArina)->bits;
    both &= annulus(c, 30, kInf, kArina)->bits;
    return both.n_set();
  };
  EXPECT_EQ(shared({96, 96}), 12u);
  EXPECT_EQ(shared({95.5, 95.5}), 0u);
}

TEST(Geometry, C30_RefusesWhatIsNoBand) {
  for (const auto& [lo, hi] :
       {std::pair{3.0, 3.0}, {4.0, 3.0}, {-1.0, 3.0}, {std::nan(""), 3.0}, {0.0, std::nan("")}}) {
    const auto r = annulus({4, 4}, lo, hi, {8, 8});
    ASSERT_FALSE(r) << lo << " " << hi;
    EXPECT_EQ(r.error().code, Code::invalid_argument);
  }
  EXPECT_FALSE(disk({4, 4}, 0, {8, 8}));
  EXPECT_FALSE(disk({kInf, 4}, 1, {8, 8}));
  EXPECT_FALSE(disk({0, 0}, 1, {0, 8}));
}

TEST(Geometry, G11_DiscsPartlyAndWhollyOutside) {
  EXPECT_EQ(disk({0, 0}, 3, {16, 16})->n_selected(), 11u);
  EXPECT_EQ(disk({14, 8}, 4, {16, 16})->n_selected(), 36u);
  EXPECT_EQ(disk({40, 40}, 3, {16, 16})->n_selected(), 0u);
  // Row before column: the mean of 100 r + c over the disc at (2, 12) is 212; exchanged it would be 1202.
  const auto m = disk({2, 12}, 2, {16, 16});
  double sum = 0;
  for (std::uint64_t p = 0; p < 256; ++p)
    if (m->bits[p]) sum += 100.0 * static_cast<double>(p / 16) + static_cast<double>(p % 16);
  EXPECT_EQ(sum / static_cast<double>(m->n_selected()), 212.0);
}

TEST(Geometry, HalfPlanePointsAlongItsAngle) {
  const Extent det{5, 7};
  EXPECT_EQ(half_plane({2, 3}, 0, det)->n_selected(), 5u * 4);  // columns 3..6, the line included
  EXPECT_EQ(half_plane({2, 3}, 90, det)->n_selected(), 3u * 7);
  EXPECT_EQ(half_plane({2, 3}, 180, det)->n_selected(), 5u * 4);
  EXPECT_EQ(half_plane({2, 3}, -90, det)->n_selected(), 3u * 7);
  EXPECT_TRUE(half_plane({2, 3}, -90, det)->bits[0]);
  EXPECT_TRUE(half_plane({2, 3}, 450, det)->bits[4 * 7]);
  EXPECT_FALSE(half_plane({2, 3}, kInf, det));
}

TEST(Geometry, RectangleIsHalfOpen) {
  const auto m = rectangle({1, 3, 2, 6}, {4, 6});
  EXPECT_EQ(m->n_selected(), 8u);
  EXPECT_TRUE(m->bits[1 * 6 + 2] && m->bits[2 * 6 + 5] && !m->bits[3 * 6 + 2]);
  EXPECT_FALSE(rectangle({1, 5, 2, 6}, {4, 6}));
}

TEST(Geometry, PolygonTakesCentresOnItsEdges) {
  const Point square[] = {{1, 1}, {1, 4}, {4, 4}, {4, 1}};
  EXPECT_EQ(polygon(square, {8, 8})->n_selected(), 16u);
  const Point triangle[] = {{0, 0}, {0, 4}, {4, 0}};  // i + j <= 4
  EXPECT_EQ(polygon(triangle, {8, 8})->n_selected(), 15u);
  const Point bow[] = {{0, 0}, {4, 4}, {0, 4}, {4, 0}};  // crosses itself: two triangles, even-odd
  EXPECT_EQ(polygon(bow, {5, 5})->n_selected(), 17u);
  EXPECT_FALSE(polygon(std::span(square).first(2), {8, 8}));
}

TEST(Geometry, C37_BinaryMasksHoldZerosAndOnes) {
  const std::vector<std::uint8_t> good{0, 1, 1, 0, 0, 1}, bad{0, 1, 2, 0, 0, 1};
  EXPECT_EQ(mask_from(good, {2, 3})->n_selected(), 3u);
  const auto refused = mask_from(bad, {2, 3});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("value 2 at (0, 2)"), std::string::npos);
  EXPECT_FALSE(mask_from(good, {3, 3}));
}

TEST(Geometry, C38_WeightsAreFixedPoint) {
  const std::vector<double> integers{0, -3, 32768, 7};
  const auto exact = weights_from(integers, {2, 2});
  EXPECT_TRUE(exact->exact);
  EXPECT_EQ(exact->step, 1.0);
  EXPECT_EQ(exact->q, (std::vector<std::int32_t>{0, -3, 32768, 7}));
  const std::vector<double> thirds{1.0 / 3, -1, 0.7, 1e-9};
  const auto rounded = weights_from(thirds, {2, 2});
  EXPECT_FALSE(rounded->exact);
  EXPECT_EQ(rounded->step, std::ldexp(1.0, -15));  // e = 0: max|w| = 1 = 2^0
  for (int p = 0; p < 4; ++p) EXPECT_LE(std::abs(rounded->q[p] * rounded->step - thirds[p]), std::ldexp(1.0, -16));
  EXPECT_EQ(weights_from(std::vector<double>(4, 0.0), {2, 2})->q, std::vector<std::int32_t>(4));
  EXPECT_FALSE(weights_from(std::vector<double>{1, 2, kInf, 4}, {2, 2}));
  EXPECT_FALSE(weights_from(std::vector<double>{1, 2}, {2, 2}));
}

TEST(Geometry, G13_ShapeOrderAndTypeOfAMaskArray) {
  const Extent det{4, 6};
  std::uint8_t c_order[24], fortran[24], sparse[96] = {};
  double floats[24];
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 6; ++j) {
      const std::uint8_t v = (i * 5 + j * 3) % 4 == 1;
      c_order[i * 6 + j] = fortran[j * 4 + i] = sparse[i * 24 + j * 2] = v;
      floats[i * 6 + j] = v;
    }
  const auto plain = selection_from({Dtype::u8, {4, 6}, {6, 1}, c_order}, det);
  ASSERT_TRUE(plain);
  const BitMask& want = std::get<Mask>(*plain).bits;
  EXPECT_EQ(std::get<Mask>(*selection_from({Dtype::u8, {4, 6}, {1, 4}, fortran}, det)).bits, want);
  EXPECT_EQ(std::get<Mask>(*selection_from({Dtype::u8, {4, 6}, {24, 2}, sparse}, det)).bits, want);
  EXPECT_EQ(std::get<Mask>(*selection_from({Dtype::u8, {4, 6}, {-6, -1}, c_order + 23}, det)).n_selected(),
            want.n_set());
  const auto weights = selection_from({Dtype::f64, {4, 6}, {48, 8}, floats}, det);
  ASSERT_TRUE(std::holds_alternative<Weights>(*weights));
  EXPECT_TRUE(std::get<Weights>(*weights).exact);
  const std::pair<std::vector<std::uint64_t>, std::string> wrong[] = {
      {{6, 4}, "(6, 4)"}, {{24}, "(24,)"}, {{4, 6, 1}, "(4, 6, 1)"}, {{1, 4, 6}, "(1, 4, 6)"}};
  for (const auto& [shape, text] : wrong) {
    const auto r = selection_from({Dtype::u8, shape, std::vector<std::int64_t>(shape.size(), 1), c_order}, det);
    ASSERT_FALSE(r);
    EXPECT_EQ(r.error().message, "mask is " + text + ", detector is (4, 6)");
  }
  EXPECT_EQ(selection_from({Dtype::u8, {4, 6}, {6, 1}, nullptr}, det).error().message, "mask (4, 6) has no data");
}

TEST(ScanSet, C51_NoDuplicatesNoEmptySet) {
  const Extent scan{4, 5};
  EXPECT_EQ(scan_set(Region{1, 3, 0, 5}, scan)->members.n_set(), 10u);
  const Position twice[] = {{0, 1}, {2, 2}, {0, 1}};
  const auto repeated = scan_set(twice, scan);
  ASSERT_FALSE(repeated);
  EXPECT_NE(repeated.error().message.find("(0, 1) is given twice"), std::string::npos);
  EXPECT_EQ(scan_set(std::span(twice).first(2), scan)->members.n_set(), 2u);
  const Position outside[] = {{4, 0}};
  EXPECT_FALSE(scan_set(outside, scan));
  EXPECT_FALSE(scan_set(BitMask(19, true), scan));
}

TEST(ScanSet, G14_AnEmptyRegionSaysSo) {
  const auto empty = scan_set(BitMask(20), Extent{4, 5});
  ASSERT_FALSE(empty);
  EXPECT_EQ(empty.error().code, Code::invalid_argument);
  EXPECT_NE(empty.error().message.find("no scan position is selected"), std::string::npos);
  EXPECT_FALSE(scan_circle({40, 40}, 3, {16, 16}));
}

TEST(ScanSet, C51_CirclesAndRingsAsDetectors) {
  EXPECT_EQ(scan_circle({0, 0}, 3, {16, 16})->members.n_set(), 11u);
  EXPECT_EQ(scan_circle({14, 8}, 4, {16, 16})->members.n_set(), 36u);
  EXPECT_EQ(scan_ring({96, 96}, 30, 60, kArina)->members.n_set(), 8480u);
  EXPECT_FALSE(scan_circle({1, 1}, 0, {4, 4}));
}

}  // namespace
}  // namespace quantem
