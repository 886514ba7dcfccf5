// The fast encoder makes the bytes, the audit and the flagged samples of the reference, for every shape, dtype and SIMD target.

#include "quantem/resident/sliced_encode_simd.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "hwy/targets.h"
#include "quantem/resident/sliced_encode.h"

namespace quantem {
namespace {

struct Input {
  Extent det;
  std::uint32_t n_positions = kBlockPositions;
  std::uint32_t block_elements = 4096;  // pixels of a range
  double mean = 0.7;
  double large = 0.001;  // share of samples with all bits of the dtype possible
  bool bad_pixels = false, missing = false, reversed = false;
  double markers = 0;  // share of samples that are 0xFFFFFFFF
  std::uint64_t saturated_from = 60000;
  std::uint32_t least = 0;  // added to every count
  bool tiles_4 = false;
};

template <class T>
struct Made {
  std::vector<T> raw;  // (n_positions, pixels), as stored
  BitMask valid_pixels;
  PositionBits valid{};
  std::vector<std::uint64_t> order;
};

template <class T>
Made<T> make(const Input& in, std::uint32_t seed) {
  std::mt19937_64 random(seed);
  const auto uniform = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
  Made<T> m;
  const std::uint64_t pixels = in.det.count();
  m.raw.resize(in.n_positions * pixels);
  for (T& v : m.raw) {
    v = static_cast<T>(in.least + static_cast<std::uint32_t>(-in.mean * std::log(1 - uniform())));
    if (uniform() < in.large) v = static_cast<T>(random());
    if (uniform() < in.markers) v = static_cast<T>(0xFFFFFFFFu);
  }
  m.valid_pixels = BitMask(pixels, true);
  if (in.bad_pixels)
    for (std::uint64_t p = 0; p < pixels; ++p)
      if (uniform() < 0.1) m.valid_pixels.set(p, false);
  for (std::uint32_t i = 0; i < in.n_positions; ++i)
    if (!in.missing || i % 7 != 3) m.valid[i / 64] |= std::uint64_t{1} << (i % 64);
  for (std::uint64_t i = 0; in.reversed && i < kBlockPositions; ++i) m.order.push_back(kBlockPositions - i);
  return m;
}

// Planes of elements [first, first + count) as bitshuffle writes them; elements past the frame are 0.
template <class T>
void shuffle(const T* frame, std::uint64_t pixels, std::uint32_t first, std::uint32_t count, std::byte* planes) {
  std::memset(planes, 0, count * sizeof(T));
  for (std::uint32_t i = 0; i < count && first + i < pixels; ++i)
    for (std::uint32_t b = 0; b < 8 * sizeof(T); ++b)
      if (frame[first + i] >> b & 1) planes[b * (count / 8) + i / 8] |= static_cast<std::byte>(1u << (i % 8));
}

template <class T>
Result<EncodedBlock> encode_fast(PlaneEncoder& encoder, const Input& in, const Made<T>& m) {
  const auto pixels = static_cast<std::uint32_t>(in.det.count());
  const std::size_t stride = in.block_elements * sizeof(T) + 192;
  std::vector<std::byte> planes(32 * stride);
  encoder.start(m.valid, m.order.empty() ? nullptr : m.order.data());
  std::uint32_t step = 0;
  for (std::uint32_t first = 0; first < pixels; first += step) {
    // Whole blocks, one short block, up to 7 elements by themselves: as a chunk is cut.
    step = std::min(in.block_elements, (pixels - first) / 8 * 8);
    if (step == 0) step = 8;
    encoder.begin_range(first, step);
    for (std::uint32_t g = 0; g < (in.n_positions + 31) / 32; ++g) {
      std::fill(planes.begin(), planes.end(), std::byte{0xa5});  // what lies behind the planes must not matter
      std::size_t live = 0;
      for (std::uint32_t i = 0; i < 32; ++i) {
        const std::uint32_t n = 32 * g + i;
        std::byte* to = planes.data() + i * stride;
        if (n < in.n_positions && m.valid[n / 64] >> (n % 64) & 1)
          shuffle(m.raw.data() + n * std::uint64_t{pixels}, pixels, first, step, to);
        else
          std::memset(to, 0, step * sizeof(T));
        std::size_t bytes = step * sizeof(T);
        while (bytes && to[bytes - 1] == std::byte{0}) --bytes;
        live = std::max(live, bytes);
      }
      encoder.add_frames(g, planes.data(), stride, live);
    }
    encoder.end_range();
  }
  return encoder.finish();
}

// Bad pixels, missing frames and markers become 0; the audit and the markers by plain loops.
template <class T>
std::vector<T> take_values(const Input& in, const Made<T>& m, BlockAudit& audit, std::vector<BlockSample>& flagged) {
  std::vector<T> values = m.raw;
  const auto pixels = static_cast<std::uint32_t>(in.det.count());
  const auto order = [&](std::uint32_t i) { return m.order.empty() ? i : m.order[i]; };
  for (std::uint32_t i = 0; i < in.n_positions; ++i)
    for (std::uint32_t p = 0; p < pixels; ++p) {
      T& v = values[std::uint64_t{i} * pixels + p];
      if (!(m.valid[i / 64] >> (i % 64) & 1) || !m.valid_pixels[p]) {
        v = 0;
        continue;
      }
      if (sizeof(T) == 4 && v == static_cast<T>(0xFFFFFFFFu)) {
        v = 0;
        flagged.push_back({i, p});
        ++audit.n_flagged;
        continue;
      }
      audit.n_nonzero += v != 0;
      audit.n_above_255 += std::uint64_t{v} > 255;
      audit.n_above_65535 += std::uint64_t{v} > 65535;
      audit.n_saturated += std::uint64_t{v} >= in.saturated_from;
      audit.count_min = std::min<std::uint64_t>(audit.count_min, v);
      if (v > audit.count_max || (v && v == audit.count_max && order(i) < order(audit.max_position))) {
        audit.count_max = v;
        audit.max_position = i;
        audit.max_pixel = p;
      }
    }
  return values;
}

template <class T>
void expect_like_reference(const Input& in, PlaneEncoder& encoder, const SlicedLayout& layout, const Made<T>& m) {
  BlockAudit want;
  std::vector<BlockSample> flagged;
  const std::vector<T> values = take_values(in, m, want, flagged);
  BlockWriter writer;
  const auto expected = encode_block<T>(layout, values, in.n_positions, writer);
  const auto found = encode_fast(encoder, in, m);
  ASSERT_TRUE(expected && found);
  ASSERT_EQ(found->bytes.n_bytes(), expected->bytes.n_bytes());
  EXPECT_EQ(std::memcmp(found->bytes.data(), expected->bytes.data(), expected->bytes.n_bytes()), 0);
  const BlockAudit& got = encoder.audit();
  EXPECT_EQ(got.n_nonzero, want.n_nonzero);
  EXPECT_EQ(got.n_above_255, want.n_above_255);
  EXPECT_EQ(got.n_above_65535, want.n_above_65535);
  EXPECT_EQ(got.n_saturated, want.n_saturated);
  EXPECT_EQ(got.n_flagged, want.n_flagged);
  EXPECT_EQ(got.count_min, want.count_min);
  EXPECT_EQ(got.count_max, want.count_max);
  EXPECT_EQ(got.max_position, want.max_position);
  EXPECT_EQ(got.max_pixel, want.max_pixel);
  EXPECT_EQ(encoder.flagged(), flagged);
}

template <class T>
void check(const Input& in, std::uint32_t seed, std::uint32_t n_blocks = 2) {
  SCOPED_TRACE(to_string(in.det) + " of " + std::to_string(sizeof(T)) + " bytes, seed " + std::to_string(seed));
  const SlicedLayout layout(in.det, in.tiles_4);
  const Made<T> first = make<T>(in, seed);
  PlaneEncoder encoder(layout, sizeof(T), first.valid_pixels, {in.saturated_from, sizeof(T) == 4});
  for (std::uint32_t i = 0; i < n_blocks; ++i) {  // the second block finds what the first left in scratch memory
    Made<T> m = make<T>(in, seed + 100 * i);
    m.valid_pixels = first.valid_pixels;
    expect_like_reference(in, encoder, layout, m);
  }
}

template <class T>
void check_shapes() {
  const auto item = static_cast<std::uint32_t>(sizeof(T));
  check<T>({.det = {1, 1}}, 1);
  check<T>({.det = {7, 9}}, 2);
  check<T>({.det = {7, 9}, .block_elements = 8}, 3);
  check<T>({.det = {5, 37}, .n_positions = 301, .block_elements = 128}, 4);
  check<T>({.det = {67, 70}, .n_positions = 77, .block_elements = 1000, .bad_pixels = true}, 5);
  check<T>({.det = {193, 191}, .n_positions = 100, .block_elements = 8192 / item}, 6, 1);
  check<T>({.det = {64, 64}, .block_elements = 8192 / item, .mean = 0.05, .large = 0.00001, .missing = true}, 7, 1);
  check<T>({.det = {24, 33}, .block_elements = 520, .large = 0, .bad_pixels = true, .missing = true, .reversed = true},
           8);
  check<T>({.det = {16, 40}, .large = 0, .least = 3}, 9);
  check<T>({.det = {9, 300}, .n_positions = 33, .mean = 0, .large = 0}, 10);
  check<T>({.det = {7, 9}, .tiles_4 = true}, 21);
  check<T>({.det = {67, 70}, .n_positions = 77, .block_elements = 1000, .bad_pixels = true, .tiles_4 = true}, 22);
}

TEST(PlaneEncoder, SameBytesAsTheReferenceU8) {
  check_shapes<std::uint8_t>();
}
TEST(PlaneEncoder, SameBytesAsTheReferenceU16) {
  check_shapes<std::uint16_t>();
}
TEST(PlaneEncoder, SameBytesAsTheReferenceU32) {
  check_shapes<std::uint32_t>();
}

TEST(PlaneEncoder, C14_MarkersAreClearedAndListed) {
  check<std::uint32_t>({.det = {33, 41}, .n_positions = 200, .block_elements = 512, .markers = 0.01}, 11);
  check<std::uint32_t>({.det = {5, 9}, .bad_pixels = true, .missing = true, .markers = 0.5}, 12);
  check<std::uint32_t>({.det = {3, 3}, .n_positions = 5, .markers = 1}, 13);
}

TEST(PlaneEncoder, C13_SaturatedCountsAtAnyLimit) {
  check<std::uint8_t>({.det = {9, 17}, .large = 0.2, .saturated_from = 255}, 14);
  check<std::uint16_t>({.det = {9, 17}, .large = 0.2, .saturated_from = 1}, 15);
  check<std::uint16_t>({.det = {9, 17}, .large = 0.5, .saturated_from = 8352}, 16);
  check<std::uint32_t>({.det = {9, 17}, .large = 0.5, .saturated_from = 70001}, 17);
}

TEST(PlaneEncoder, EveryTargetOfThisMachine) {
  for (std::int64_t targets = hwy::SupportedTargets(); targets; targets &= targets - 1) {
    hwy::SetSupportedTargetsForTest(targets & -targets);
    SCOPED_TRACE(hwy::TargetName(targets & -targets));
    check<std::uint16_t>(
        {.det = {35, 43}, .n_positions = 130, .block_elements = 1016, .bad_pixels = true, .missing = true}, 18);
    check<std::uint32_t>({.det = {11, 8}, .n_positions = 40, .markers = 0.02}, 19);
    check<std::uint8_t>({.det = {40, 32}, .n_positions = 512, .large = 0.01}, 20);
  }
  hwy::SetSupportedTargetsForTest(0);
}

}  // namespace
}  // namespace quantem
