// Field cases, group 3 (geometry): what people got wrong with shapes, discs, masks and sizes, each with its one right answer, on
// both representations. G17's real file is in real_values_test.cpp, layouts of scans (G04, G05) in layout_cases_test.cpp.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "quantem/detector/masked_sum.h"
#include "quantem/detector/mean_pattern.h"
#include "quantem/detector/scan_set.h"
#include "quantem/dpc/com.h"

namespace quantem {
namespace {

constexpr Representation kBoth[] = {Representation::dense, Representation::encoded};

template <class T>
Volume volume_of(Representation representation, const Shape4& shape, const std::vector<T>& counts) {
  FromArrayOptions o;
  o.representation = representation;
  auto v =
      from_array(*open_device(Backend::cpu),
                 {dtype_of<T>(), {shape.scan.rows, shape.scan.cols, shape.det.rows, shape.det.cols}, counts.data()}, o);
  EXPECT_TRUE(v) << (v ? "" : v.error().message);
  return *v;
}

TEST(Geometry, G01_FourAxesOfFourLengths) {
  const Shape4 shape{{3, 5}, {4, 6}};
  std::vector<std::uint16_t> counts;
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 5; ++j)
      for (int r = 0; r < 4; ++r)
        for (int c = 0; c < 6; ++c) counts.push_back(static_cast<std::uint16_t>(1000 * i + 100 * j + 10 * r + c));
  for (const Representation representation : kBoth) {
    const Volume v = volume_of(representation, shape, counts);
    const auto image = masked_sum_exact(v, all_pixels(shape.det));
    ASSERT_TRUE(image);
    EXPECT_EQ(image->values, (std::vector<std::uint64_t>{420, 2820, 5220, 7620, 10020, 24420, 26820, 29220, 31620,
                                                         34020, 48420, 50820, 53220, 55620, 58020}));
    const auto com = center_of_mass(v);
    ASSERT_TRUE(com);
    EXPECT_NEAR(com->row.at(0, 0), 2.2142857, 5e-8 * 4);
    EXPECT_NEAR(com->col.at(0, 0), 2.6666667, 5e-8 * 4);
    EXPECT_NEAR(com->row.at(2, 4), 1.5051707, 5e-8 * 4);
    EXPECT_NEAR(com->col.at(2, 4), 2.5012065, 5e-8 * 4);
    EXPECT_EQ(mean_pattern(v)->at(3, 5), 1235.0);
    // One pattern and one region, each with its own pair of lengths.
    const auto f = frame(v, {2, 3});
    EXPECT_EQ(f->shape, (std::vector<std::uint64_t>{4, 6}));
    EXPECT_EQ(f->as<std::uint16_t>()[1 * 6 + 5], 2315u);
    EXPECT_EQ(region_sum(v, *scan_set(Region{1, 3, 4, 5}, shape.scan))->at(2, 3), 1423u + 2423u);
    EXPECT_EQ(masked_sum_exact(v, *rectangle({1, 3, 2, 6}, shape.det))->at(1, 2),
              8u * 1200 + 4 * 10 + 4 * 20 + 2 * (2 + 3 + 4 + 5));
  }
}

TEST(Geometry, G08_LineScansAndASinglePosition) {
  for (const Representation representation : kBoth)
    for (const Extent scan : {Extent{1, 7}, {7, 1}, {1, 1}}) {
      const Shape4 shape{scan, {8, 8}};
      std::vector<std::uint16_t> counts(shape.n_values());
      for (std::uint64_t n = 0; n < scan.count(); ++n) counts[n * 64 + n * 8 + (7 - n)] = 10;  // a spot on the diagonal
      const Volume v = volume_of(representation, shape, counts);
      const auto com = center_of_mass(v);
      ASSERT_TRUE(com) << to_string(scan);
      for (std::uint64_t n = 0; n < scan.count(); ++n) {
        EXPECT_EQ(com->row.values[n], static_cast<float>(n));
        EXPECT_EQ(com->col.values[n], static_cast<float>(7 - n));
      }
      EXPECT_EQ(masked_sum_exact(v, all_pixels({8, 8}))->values, std::vector<std::uint64_t>(scan.count(), 10));
      EXPECT_EQ(sum_pattern(v)->values[7], 10u);
    }
}

TEST(Geometry, G11_DiscsPartlyAndWhollyOutside) {
  const Shape4 shape{{1, 1}, {16, 16}};
  const std::vector<std::uint16_t> ones(256, 1);
  std::vector<std::uint16_t> rc;
  for (int r = 0; r < 16; ++r)
    for (int c = 0; c < 16; ++c) rc.push_back(static_cast<std::uint16_t>(100 * r + c));
  for (const Representation representation : kBoth) {
    const Volume v = volume_of(representation, shape, ones);
    EXPECT_EQ(masked_sum_exact(v, *disk({0, 0}, 3, shape.det))->values[0], 11u);
    EXPECT_EQ(masked_sum_exact(v, *disk({14, 8}, 4, shape.det))->values[0], 36u);
    const auto outside = masked_sum_exact(v, *disk({40, 40}, 3, shape.det));
    EXPECT_EQ(outside->values[0], 0u);
    ASSERT_EQ(outside->provenance.warnings.size(), 1u);
    EXPECT_NE(outside->provenance.warnings[0].find("empty_mask"), std::string::npos);
    const Volume w = volume_of(representation, shape, rc);
    const Mask m = *disk({2, 12}, 2, shape.det);
    EXPECT_EQ(static_cast<double>(masked_sum_exact(w, m)->values[0]) / static_cast<double>(m.n_selected()), 212.0);
  }
}

TEST(Geometry, G11_TheCountOfTheChecklist) {
  const std::vector<std::uint8_t> ones(192 * 192, 1);
  for (const Representation representation : kBoth) {
    const Volume v = volume_of(representation, {{1, 1}, {192, 192}}, ones);
    EXPECT_EQ(masked_sum_exact(v, *disk({95.5, 95.5}, 30, {192, 192}))->values[0], 2828u);
    EXPECT_EQ(masked_sum_exact(v, *disk({96, 96}, 30, {192, 192}))->values[0], 2821u);
  }
}

TEST(Geometry, G13_MasksOfAnyOrderAndType) {
  const Shape4 shape{{2, 3}, {4, 6}};
  std::vector<std::uint16_t> counts(shape.n_values());
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i] = static_cast<std::uint16_t>(i * 7919 % 1009);
  std::uint8_t bytes[24], fortran[24];
  double weights[48] = {};  // every second element: not contiguous
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 6; ++j) {
      const std::uint8_t in = (i + 2 * j) % 3 == 0;
      bytes[i * 6 + j] = fortran[j * 4 + i] = in;
      weights[2 * (i * 6 + j)] = in;
    }
  const StridedArray forms[] = {{Dtype::u8, {4, 6}, {6, 1}, bytes}, {Dtype::u8, {4, 6}, {1, 4}, fortran}};
  for (const Representation representation : kBoth) {
    const Volume v = volume_of(representation, shape, counts);
    const auto want = masked_sum(v, *mask_from(bytes, shape.det));
    for (const StridedArray& a : forms)
      EXPECT_EQ(masked_sum(v, std::get<Mask>(*selection_from(a, shape.det)))->values, want->values);
    const auto as_weights = selection_from({Dtype::f64, {4, 6}, {96, 16}, weights}, shape.det);
    EXPECT_EQ(weighted_sum(v, std::get<Weights>(*as_weights))->values, want->values);
    const auto wrong = masked_sum(v, all_pixels({6, 4}));
    ASSERT_FALSE(wrong);
    EXPECT_EQ(wrong.error().message, "masked_sum: mask is (6, 4), detector is (4, 6)");
  }
}

TEST(Geometry, G14_EmptyMaskEmptyRegion) {
  const Shape4 shape{{3, 4}, {8, 8}};
  const std::vector<std::uint16_t> counts(shape.n_values(), 3);
  Mask none = all_pixels(shape.det);
  none.bits = BitMask(64);
  for (const Representation representation : kBoth) {
    const Volume v = volume_of(representation, shape, counts);
    const auto image = masked_sum(v, none);
    EXPECT_EQ(image->values, std::vector<float>(12, 0.0f));
    EXPECT_EQ(image->provenance.warnings.size(), 1u);
    const auto com = center_of_mass(v, &none);
    ASSERT_TRUE(com);
    for (const float x : com->row.values) EXPECT_TRUE(std::isnan(x));
    EXPECT_TRUE(com->valid.none());
    EXPECT_FALSE(com->row.provenance.warnings.empty());
    // Everything masked by the detector is the same case.
    FromArrayOptions o;
    o.representation = representation;
    o.valid_pixels = BitMask(64);
    const auto blind = from_array(*open_device(Backend::cpu), {Dtype::u16, {3, 4, 8, 8}, counts.data()}, o);
    if (blind) {
      EXPECT_EQ(masked_sum(*blind, all_pixels(shape.det))->provenance.warnings.size(), 1u);
    }
  }
  const auto empty = scan_set(BitMask(12), shape.scan);
  ASSERT_FALSE(empty);
  EXPECT_NE(empty.error().message.find("no scan position is selected"), std::string::npos);
}

// Nothing here is a power of two or a multiple of 4, 8, 32 or 512.
TEST(Geometry, G17_OddSizesEqualThePlainLoops) {
  for (const Extent det : {Extent{13, 11}, {1, 1}, {1, 64}, {64, 1}, {193, 191}}) {
    const Shape4 shape{{7, 5}, det};
    std::mt19937 random(det.rows);
    std::vector<std::uint16_t> counts(shape.n_values());
    for (auto& c : counts) c = static_cast<std::uint16_t>(random() % 11 == 0 ? random() % 3000 : random() % 4);
    const Mask mask = *disk(geometric_center(det), 0.4 * std::max(det.rows, det.cols) + 0.2, det);
    std::vector<std::uint64_t> sums(35), rows(35), cols(35), pattern(det.count());
    for (std::uint64_t n = 0; n < 35; ++n)
      for (std::uint64_t p = 0; p < det.count(); ++p) {
        const std::uint64_t c = counts[n * det.count() + p];
        pattern[p] += c;
        if (!mask.bits[p]) continue;
        sums[n] += c;
        rows[n] += c * (p / det.cols);
        cols[n] += c * (p % det.cols);
      }
    for (const Representation representation : kBoth) {
      const Volume v = volume_of(representation, shape, counts);
      EXPECT_EQ(masked_sum_exact(v, mask)->values, sums) << to_string(det);
      const auto m = moment_sums(v, &mask);
      EXPECT_EQ(m->row, rows) << to_string(det);
      EXPECT_EQ(m->col, cols) << to_string(det);
      EXPECT_EQ(sum_pattern(v)->values, pattern) << to_string(det);
      const auto f = frame(v, {6, 4});
      EXPECT_EQ(std::memcmp(f->buffer.data(), counts.data() + 34 * det.count(), det.count() * 2), 0) << to_string(det);
    }
  }
}

}  // namespace
}  // namespace quantem
