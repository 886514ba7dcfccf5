// load: order of work, markers, missing frames, bins, narrowing, memory; frames come from memory.

#include "quantem/io/load.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "quantem/io/memory_source.h"
#include "quantem/resident/sliced_encode.h"

namespace quantem {
namespace {

constexpr Representation kBoth[] = {Representation::dense, Representation::encoded};

template <class T>
std::vector<T> counts(std::uint64_t n, std::uint32_t seed, std::uint32_t below = 7) {
  std::mt19937 random(seed);
  std::vector<T> out(n);
  for (T& v : out) v = static_cast<T>(random() % below);
  return out;
}

template <class T>
std::vector<T> all_of(const Volume& v, std::optional<double> fill = std::nullopt) {
  ReadOptions o;
  o.fill = fill;
  auto a = read(v, whole(v.shape().scan), whole(v.shape().det), o);
  EXPECT_TRUE(a) << (a ? "" : a.error().message);
  if (!a) return {};
  EXPECT_EQ(a->dtype, dtype_of<T>());
  const auto s = a->template as<T>();
  return {s.begin(), s.end()};
}

bool says(const Error& e, std::string_view text) {
  return e.message.find(text) != std::string::npos;
}

// bin(crop(dense)), in plain loops.
template <class R, class T>
std::vector<R> bin_of_crop(const std::vector<T>& values, const Shape4& s, const Region& scan, const Region& det,
                           Extent scan_bin, Extent det_bin) {
  const auto up = [](std::uint32_t n, std::uint32_t b) { return (n + b - 1) / b; };
  const Extent so{up(scan.extent().rows, scan_bin.rows), up(scan.extent().cols, scan_bin.cols)};
  const Extent d{up(det.extent().rows, det_bin.rows), up(det.extent().cols, det_bin.cols)};
  std::vector<R> out(so.count() * d.count());
  for (std::uint32_t sr = scan.row_start; sr < scan.row_stop; ++sr)
    for (std::uint32_t sc = scan.col_start; sc < scan.col_stop; ++sc)
      for (std::uint32_t r = det.row_start; r < det.row_stop; ++r)
        for (std::uint32_t c = det.col_start; c < det.col_stop; ++c) {
          const std::uint64_t from =
              (std::uint64_t{sr} * s.scan.cols + sc) * s.frame_pixels() + std::uint64_t{r} * s.det.cols + c;
          const std::uint64_t position =
              std::uint64_t{(sr - scan.row_start) / scan_bin.rows} * so.cols + (sc - scan.col_start) / scan_bin.cols;
          out[position * d.count() + std::uint64_t{(r - det.row_start) / det_bin.rows} * d.cols +
              (c - det.col_start) / det_bin.cols] += static_cast<R>(values[from]);
        }
  return out;
}

TEST(Load, C29_LoadOfCropAndBinIsBinOfCrop) {
  const Shape4 shapes[] = {{{1, 1}, {1, 1}},  {{1, 511}, {3, 2}}, {{27, 19}, {7, 9}}, {{3, 5}, {193, 191}},
                           {{9, 8}, {1, 64}}, {{8, 9}, {64, 1}},  {{2, 5}, {13, 11}}};
  for (const Shape4& s : shapes) {
    const MemorySource<std::uint16_t> source(s, counts<std::uint16_t>(s.n_values(), 5));
    const Region scans[] = {whole(s.scan), {s.scan.rows / 3, s.scan.rows, s.scan.cols / 4, s.scan.cols}};
    const Region dets[] = {whole(s.det), {s.det.rows / 3, s.det.rows, s.det.cols / 2, s.det.cols}};
    const Extent bins[] = {{1, 1}, {2, 3}, {5, 1}};
    for (const Representation r : kBoth)
      for (const Region& scan : scans)
        for (const Region& det : dets)
          for (Extent sb : bins)
            for (Extent db : bins) {
              sb = {std::min(sb.rows, scan.extent().rows), std::min(sb.cols, scan.extent().cols)};
              db = {std::min(db.rows, det.extent().rows), std::min(db.cols, det.extent().cols)};
              LoadOptions o;
              o.scan_region = scan;
              o.detector_region = det;
              o.scan_bin = sb;
              o.det_bin = db;
              o.representation = r;
              const auto v = source.load(o);
              ASSERT_TRUE(v) << v.error().message;
              const std::string what = to_string(s) + to_string(scan) + to_string(det) + to_string(sb) + to_string(db);
              if (sb.count() * db.count() > 1)
                ASSERT_EQ(all_of<std::uint32_t>(*v),
                          (bin_of_crop<std::uint32_t>(source.values(), s, scan, det, sb, db)))
                    << what;
              else
                ASSERT_EQ(all_of<std::uint16_t>(*v),
                          (bin_of_crop<std::uint16_t>(source.values(), s, scan, det, sb, db)))
                    << what;
            }
  }
}

// What load stores is what the reference encoder makes, tile sums and moments included, to the byte.
template <class T>
void expect_reference_bytes(const Shape4& s, std::uint32_t below, bool tiles_4 = false) {
  const MemorySource<T> source(s, counts<T>(s.n_values(), s.det.cols, below));
  LoadOptions options;
  options.tiles_4 = tiles_4;
  const auto v = source.load(options);
  const auto want = encode_sliced<T>(SlicedLayout(s.det, tiles_4), source.values(), s.n_positions());
  ASSERT_TRUE(v && want);
  ASSERT_EQ(v->sliced()->n_blocks(), want->n_blocks());
  for (std::uint64_t b = 0; b < want->n_blocks(); ++b) {
    const Buffer &got = v->sliced()->block_bytes[b], &expected = want->block_bytes[b];
    ASSERT_EQ(got.n_bytes(), expected.n_bytes()) << to_string(s) << " block " << b;
    ASSERT_EQ(std::memcmp(got.data(), expected.data(), expected.n_bytes()), 0) << to_string(s) << " block " << b;
  }
}
TEST(Load, C22_StoredBytesAreThoseOfTheReference) {
  const Shape4 shapes[] = {{{1, 1}, {1, 1}},  {{1, 511}, {3, 2}}, {{27, 19}, {7, 9}}, {{3, 5}, {193, 191}},
                           {{9, 8}, {1, 64}}, {{8, 9}, {64, 1}},  {{2, 5}, {13, 11}}, {{16, 33}, {40, 52}}};
  for (const Shape4& s : shapes) {
    expect_reference_bytes<std::uint8_t>(s, 256);
    expect_reference_bytes<std::uint16_t>(s, 3);
    expect_reference_bytes<std::uint16_t>(s, 65536);
    expect_reference_bytes<std::uint32_t>(s, 9);
    expect_reference_bytes<std::uint32_t>(s, 0xFFFFFFFFu);
    expect_reference_bytes<std::uint16_t>(s, 300, true);
  }
}

TEST(Load, Tiles4AreSaidPlannedAndRefusedWhereCountsAreDense) {
  const Shape4 s{{9, 8}, {13, 11}};
  const MemorySource<std::uint16_t> source(s, counts<std::uint16_t>(s.n_values(), 5));
  LoadOptions o;
  const auto without = source.load(o);
  o.tiles_4 = true;
  const auto with_4 = source.load(o);
  ASSERT_TRUE(without && with_4);
  EXPECT_EQ(without->tile_levels(), (std::vector<std::uint32_t>{8, 32}));
  EXPECT_EQ(with_4->tile_levels(), (std::vector<std::uint32_t>{4, 8, 32}));
  EXPECT_NE(with_4->receipt_json().find("\"tile_levels\":[4,8,32]"), std::string::npos);
  EXPECT_NE(to_json(with_4->provenance()).find("4 8 32"), std::string::npos);
  EXPECT_EQ(all_of<std::uint16_t>(*with_4), source.values());
  const auto device = open_device(Backend::cpu);
  EXPECT_GT(estimate(*device, source.container, o)->resident_bytes,
            estimate(*device, source.container)->resident_bytes);
  o.representation = Representation::dense;
  const auto refused = source.load(o);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::invalid_argument);
  EXPECT_NE(refused.error().message.find("tiles_4"), std::string::npos);
}

TEST(Load, C29_HoldsForSignedAndFloatCounts) {
  const Shape4 s{{3, 5}, {7, 9}};
  LoadOptions o;
  o.scan_bin = {2, 2};
  o.det_bin = {3, 2};
  const auto signed_counts = counts<std::int16_t>(s.n_values(), 3);
  std::vector<std::int16_t> negative(signed_counts);
  for (std::int16_t& v : negative) v = static_cast<std::int16_t>(v - 3);
  const auto i = MemorySource<std::int16_t>(s, negative).load(o);
  ASSERT_TRUE(i) << i.error().message;
  EXPECT_EQ(all_of<std::int32_t>(*i),
            (bin_of_crop<std::int32_t>(negative, s, whole(s.scan), whole(s.det), o.scan_bin, o.det_bin)));
  const auto f = MemorySource<float>(s, counts<float>(s.n_values(), 4)).load(o);
  ASSERT_TRUE(f);
  EXPECT_EQ(all_of<float>(*f), (bin_of_crop<float>(counts<float>(s.n_values(), 4), s, whole(s.scan), whole(s.det),
                                                   o.scan_bin, o.det_bin)));
}

TEST(Load, C24_EdgeBinsKeepPartialSums) {
  const Shape4 s{{1, 1}, {3, 5}};
  LoadOptions o;
  o.det_bin = {2, 2};
  const auto v = MemorySource<std::uint8_t>(s, std::vector<std::uint8_t>(15, 1)).load(o);
  ASSERT_TRUE(v);
  EXPECT_EQ(v->shape().det, (Extent{2, 3}));
  EXPECT_EQ(all_of<std::uint32_t>(*v), (std::vector<std::uint32_t>{4, 4, 2, 2, 2, 1}));
  EXPECT_EQ(v->info().valid_count, (std::vector<std::uint32_t>{4, 4, 2, 2, 2, 1}));
  const std::string json = to_json(v->provenance());
  EXPECT_NE(json.find("\"partial_edge\":[1.0,1.0]"), std::string::npos) << json;
  EXPECT_EQ(v->provenance().evidence, std::vector<std::string>{"binned"});
}

TEST(Load, C25_BinSumsThatCouldOverflowAreRefused) {
  const Shape4 s{{1, 1}, {2, 2}};
  LoadOptions o;
  o.det_bin = {2, 2};
  const auto v = MemorySource<std::uint32_t>(s, {0, 1 << 30, 0, 0}).load(o);  // the sum fits, the bound does not
  ASSERT_FALSE(v);
  EXPECT_EQ(v.error().code, Code::invalid_argument);
  EXPECT_TRUE(says(v.error(), "1073741824")) << v.error().message;
  EXPECT_TRUE(MemorySource<std::uint32_t>(s, {0, (1 << 30) - 1, 0, 0}).load(o));
  EXPECT_FALSE(MemorySource<std::int32_t>(s, {0, -(1 << 29) - 1, 0, 0}).load(o));
}

TEST(Load, C26_BadPixelsAddNothingAndAnEmptyBinIsBad) {
  const Shape4 s{{1, 2}, {2, 4}};
  MemorySource<std::uint16_t> source(s, std::vector<std::uint16_t>(16, 5));
  source.container.has_pixel_mask = true;
  source.container.valid_pixels = BitMask(8, true);
  for (const std::uint64_t p : {0, 1, 4, 5, 2}) source.container.valid_pixels.set(p, false);
  LoadOptions o;
  o.det_bin = {2, 2};
  const auto v = source.load(o);
  ASSERT_TRUE(v);
  EXPECT_EQ(all_of<std::uint32_t>(*v), (std::vector<std::uint32_t>{0, 15, 0, 15}));
  EXPECT_EQ(v->info().valid_count, (std::vector<std::uint32_t>{0, 3}));
  EXPECT_FALSE(v->valid_pixels()[0]);
  EXPECT_TRUE(v->valid_pixels()[1]);
  EXPECT_EQ(v->audit().n_values, 6u);
  EXPECT_EQ(v->provenance().bad_pixels.policy, "zeroed");
}

TEST(Load, C26_ABinWithAFlaggedMemberIsFlagged) {
  const Shape4 s{{1, 4}, {2, 2}};
  std::vector<std::uint32_t> values(16, 1);
  values[5] = values[6] = kMarker;  // position 1, pixels 1 and 2
  LoadOptions o;
  o.det_bin = {2, 1};
  o.scan_bin = {1, 2};
  const auto v = MemorySource<std::uint32_t>(s, values).load(o);
  ASSERT_TRUE(v) << v.error().message;
  EXPECT_EQ(v->info().flagged, (std::vector<FlaggedSample>{{0, 0}, {0, 1}}));
  EXPECT_EQ(all_of<std::uint32_t>(*v), (std::vector<std::uint32_t>{3, 3, 4, 4}));
  EXPECT_EQ(v->audit().n_flagged, 2u);
}

TEST(Load, C27_CalibrationFollowsCropAndBin) {
  const Shape4 s{{4, 6}, {8, 8}};
  MemorySource<std::uint8_t> source(s, counts<std::uint8_t>(s.n_values(), 1));
  source.container.calibration.center_px.value = Point{3.5, 4.0};
  source.container.calibration.radius_px.value = 3;
  source.container.calibration.det_sampling_mrad.value = Pair{1, 2};
  source.container.calibration.scan_sampling_A.value = Pair{0.5, 0.25};
  LoadOptions o;
  o.detector_region = Region{1, 7, 2, 8};
  o.det_bin = {2, 2};
  o.scan_bin = {2, 3};
  const auto v = source.load(o);
  ASSERT_TRUE(v);
  const Calibration& c = v->calibration();
  EXPECT_EQ(*c.center_px.value, (Point{1.0, 0.75}));  // (3.5 - 1 - 0.5) / 2, (4 - 2 - 0.5) / 2
  EXPECT_EQ(*c.radius_px.value, 1.5);
  EXPECT_EQ(*c.det_sampling_mrad.value, (Pair{2, 4}));
  EXPECT_EQ(*c.scan_sampling_A.value, (Pair{1, 0.75}));
  EXPECT_EQ(c.center_px.origin, Origin::derived);
  const auto plain = source.load();
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->calibration().center_px.origin, Origin::file);
}

TEST(Load, C28_AScanBinWithAMissingMemberIsMissing) {
  const Shape4 s{{2, 4}, {1, 1}};
  MemorySource<std::uint8_t> source(s, {1, 2, 3, 4, 5, 6, 7, 8});
  source.container.options.missing = Missing::mark;
  source.missing = {6};
  LoadOptions o;
  o.scan_bin = {2, 2};
  for (const Representation r : kBoth) {
    o.representation = r;
    const auto v = source.load(o);
    ASSERT_TRUE(v);
    EXPECT_TRUE(v->valid_positions()[0]);
    EXPECT_FALSE(v->valid_positions()[1]);
    EXPECT_EQ(all_of<std::uint32_t>(*v, 99), (std::vector<std::uint32_t>{14, 99}));
  }
}

TEST(Load, C16_C17_MissingFramesStopOrAreMarked) {
  const Shape4 s{{5, 5}, {2, 2}};
  std::vector<std::uint16_t> values;
  for (std::uint16_t k = 0; k < 25; ++k) values.insert(values.end(), 4, static_cast<std::uint16_t>(k + 1));
  MemorySource<std::uint16_t> source(s, values);
  source.missing = {23, 24};
  const auto strict = source.load();
  ASSERT_FALSE(strict);
  EXPECT_EQ(strict.error().code, Code::missing_data);
  EXPECT_TRUE(says(strict.error(), "(4, 3)") && says(strict.error(), "x_data_000003.h5")) << strict.error().message;
  source.container.options.missing = Missing::mark;
  for (const Representation r : kBoth) {
    LoadOptions o;
    o.representation = r;
    const auto v = source.load(o);
    ASSERT_TRUE(v);
    EXPECT_EQ(v->valid_positions().n_set(), 23u);
    EXPECT_FALSE(v->valid_positions()[23]);
    EXPECT_EQ(v->provenance().missing_positions, 2u);
    EXPECT_EQ(v->provenance().evidence, std::vector<std::string>{"incomplete"});
    EXPECT_EQ(v->audit().count_max, 23);
    EXPECT_EQ(v->audit().n_values, 92u);
    const auto refused = read(*v, {4, 5, 0, 5}, whole(s.det));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::missing_data);
    EXPECT_TRUE(read(*v, {4, 5, 0, 3}, whole(s.det)));
  }
}

TEST(Load, C16_ADamagedFrameIsNamedWithItsPlace) {
  const Shape4 s{{30, 40}, {3, 3}};
  MemorySource<std::uint16_t> source(s, counts<std::uint16_t>(s.n_values(), 2));
  source.corrupt = {700, 1100, 90};
  for (int i = 0; i < 5; ++i) {  // the first one, however the blocks are divided among threads
    const auto strict = source.load();
    ASSERT_FALSE(strict);
    EXPECT_EQ(strict.error().code, Code::corrupt_data);
    EXPECT_TRUE(says(strict.error(), "frame 90: lz4_offset") && says(strict.error(), "(2, 10)"))
        << strict.error().message;
  }
  source.container.options.missing = Missing::mark;
  const auto v = source.load();
  ASSERT_TRUE(v);
  EXPECT_EQ(v->valid_positions().n_set(), 1197u);
  ASSERT_EQ(v->provenance().warnings.size(), 1u);
  EXPECT_NE(v->provenance().warnings[0].find("3 of 1200"), std::string::npos);
  EXPECT_NE(v->provenance().warnings[0].find("frame 1100"), std::string::npos);
}

TEST(Load, C13_SaturatedCountsAreKeptAndCounted) {
  const Shape4 s{{1, 1}, {8, 8}};
  std::vector<std::uint16_t> values(64, 2);
  values[0] = values[63] = 65535;
  LoadOptions o;
  o.bad_pixels = {{0, 0}};
  const auto v = MemorySource<std::uint16_t>(s, values).load(o);
  ASSERT_TRUE(v);
  std::uint64_t sum = 0;
  for (const std::uint16_t x : all_of<std::uint16_t>(*v)) sum += x;
  EXPECT_EQ(sum, 65659u);
  EXPECT_EQ(v->valid_pixels().n_set(), 63u);
  EXPECT_EQ(v->audit().n_saturated, 1u);
  EXPECT_EQ(v->audit().n_above_255, 1u);
  EXPECT_EQ(v->audit().max_pixel, 63u);
  MemorySource<std::uint32_t> file(s, std::vector<std::uint32_t>(64, 8352));
  file.container.saturation_value = 8352;
  const auto f = file.load();
  ASSERT_TRUE(f);
  EXPECT_EQ(f->audit().n_saturated, 64u);
  EXPECT_EQ(f->audit().n_flagged, 0u);
}

TEST(Load, C14_MarkersAreZeroedKeptOrRefused) {
  const Shape4 s{{2, 300}, {2, 3}};  // two blocks
  auto values = counts<std::uint32_t>(s.n_values(), 8);
  for (std::uint64_t n = 0; n < 600; ++n) values[n * 6 + 4] = kMarker;  // pixel 4 in all frames: bad
  for (std::uint64_t n = 0; n < 512; ++n) values[n * 6 + 1] = kMarker;  // pixel 1 in all of block 0
  values[599 * 6] = values[3 * 6] = values[4 * 6] = kMarker;
  auto want = values;
  std::vector<FlaggedSample> samples;
  for (std::uint64_t n = 0; n < 600; ++n)
    for (std::uint32_t p = 0; p < 6; ++p)
      if (std::uint32_t& x = want[n * 6 + p]; x == kMarker) {
        x = 0;
        if (p != 4) samples.push_back({n, p});
      }
  const MemorySource<std::uint32_t> source(s, values);
  for (const Representation r : kBoth) {
    LoadOptions o;
    o.representation = r;
    const auto v = source.load(o);
    ASSERT_TRUE(v);
    EXPECT_EQ(all_of<std::uint32_t>(*v), want);
    EXPECT_EQ(v->info().flagged, samples);
    EXPECT_EQ(v->audit().n_flagged, samples.size());
    EXPECT_FALSE(v->valid_pixels()[4]);
    EXPECT_EQ(v->valid_pixels().n_set(), 5u);
    EXPECT_EQ(v->audit().count_max, 6);
    EXPECT_EQ(v->audit().n_values, 600 * 5 - samples.size());
    o.flagged = Flagged::keep;
    const auto kept = source.load(o);
    ASSERT_TRUE(kept);
    EXPECT_EQ(all_of<std::uint32_t>(*kept), values);
    EXPECT_EQ(kept->audit().count_max, 4294967295.0);
    EXPECT_TRUE(kept->info().flagged.empty());
    o.flagged = Flagged::error;
    const auto refused = source.load(o);
    ASSERT_FALSE(refused);
    EXPECT_TRUE(says(refused.error(), "scan position (0, 0), pixel (0, 1)")) << refused.error().message;
  }
}

TEST(Load, C19_NarrowingIsExactOrRefused) {
  const Shape4 s{{30, 40}, {3, 3}};
  auto values = counts<std::uint32_t>(s.n_values(), 2, 256);
  LoadOptions o;
  o.dtype = Dtype::u8;
  const auto v = MemorySource<std::uint32_t>(s, values).load(o);
  ASSERT_TRUE(v) << v.error().message;
  EXPECT_EQ(all_of<std::uint8_t>(*v), std::vector<std::uint8_t>(values.begin(), values.end()));
  EXPECT_EQ(v->info().source_dtype, Dtype::u32);
  values[1000 * 9 + 5] = 256;
  values[100 * 9 + 4] = 70000;
  const auto refused = MemorySource<std::uint32_t>(s, values).load(o);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::invalid_argument);
  EXPECT_TRUE(says(refused.error(), "70000") && says(refused.error(), "(2, 20)") && says(refused.error(), "(1, 1)"))
      << refused.error().message;
  o.bad_pixels = {{1, 1}, {1, 2}};  // what is excluded proves nothing
  EXPECT_TRUE(MemorySource<std::uint32_t>(s, values).load(o));

  o = {};
  o.dtype = Dtype::f32;
  values.assign(values.size(), 1 << 24);
  EXPECT_TRUE(MemorySource<std::uint32_t>(s, values).load(o));
  values.back() = (1 << 24) + 1;
  EXPECT_FALSE(MemorySource<std::uint32_t>(s, values).load(o));
  o.dtype = Dtype::u16;
  EXPECT_FALSE(MemorySource<float>(s, std::vector<float>(s.n_values(), 1)).load(o));
  EXPECT_FALSE(MemorySource<std::int16_t>(s, std::vector<std::int16_t>(s.n_values(), -1)).load(o));
  EXPECT_TRUE(MemorySource<std::int16_t>(s, std::vector<std::int16_t>(s.n_values(), 1)).load(o));
}

TEST(Load, C21_AuditNamesRangePlaceAndCounts) {
  const Shape4 s{{30, 40}, {5, 3}};
  auto values = counts<std::uint16_t>(s.n_values(), 2, 200);
  for (std::uint16_t& x : values) ++x;
  values[1100 * 15 + 7] = values[800 * 15 + 9] = values[800 * 15 + 11] = 60000;
  values[33] = 300;
  LoadOptions o;
  for (const int threads : {1, 2}) {
    DeviceOptions d;
    d.threads = threads;
    const auto v = MemorySource<std::uint16_t>(s, values).load(o, d);
    ASSERT_TRUE(v);
    const Audit& a = v->audit();
    EXPECT_EQ(a.count_min, 1);
    EXPECT_EQ(a.count_max, 60000);
    EXPECT_EQ(a.max_position, 800u);
    EXPECT_EQ(a.max_pixel, 9u);
    EXPECT_EQ(a.n_values, s.n_values());
    EXPECT_EQ(a.n_nonzero, s.n_values());
    EXPECT_EQ(a.n_above_255, 4u);
    EXPECT_EQ(a.n_above_65535, 0u);
    EXPECT_EQ(a.n_saturated, 0u);
    EXPECT_EQ(a.digest.size(), 64u);
  }
  const auto one = MemorySource<std::uint16_t>(s, values).load();
  o.bad_pixels = {{0, 0}};
  const auto other = MemorySource<std::uint16_t>(s, values).load(o);
  ASSERT_TRUE(one && other);
  EXPECT_NE(one->audit().digest, other->audit().digest);
}

TEST(Load, C18_NonFiniteSamplesAreCountedAndKept) {
  const Shape4 s{{2, 3}, {2, 2}};
  std::vector<float> values(24, 1.5f);
  values[3 * 4 + 3] = std::numeric_limits<float>::quiet_NaN();
  values[5 * 4] = std::numeric_limits<float>::infinity();
  const auto v = MemorySource<float>(s, values).load();
  ASSERT_TRUE(v);
  EXPECT_EQ(v->representation(), Representation::dense);
  EXPECT_EQ(v->audit().n_nonfinite, 2u);
  EXPECT_EQ(v->info().n_nonfinite_samples, 2u);
  EXPECT_EQ(v->audit().count_max, 1.5);
  const auto back = all_of<float>(*v);
  EXPECT_TRUE(std::isnan(back[15]) && std::isinf(back[20]));
}

TEST(Load, C84_C85_M02_MemoryIsCountedBeforeItIsTaken) {
  const Shape4 s{{600, 1000}, {32, 32}};  // 1.2 GB of u16
  MemorySource<std::uint16_t> source(s, {});
  bool touched = false;
  source.generate = [&](std::uint64_t, std::span<std::uint16_t>) { touched = true; };
  source.container.parts[0].chunks = {{0, 200'000'000, 0}};
  LoadOptions o;
  o.representation = Representation::dense;
  DeviceOptions d;
  d.memory_limit_bytes = std::uint64_t{1} << 30;
  const auto refused = source.load(o, d);
  ASSERT_FALSE(refused);
  EXPECT_FALSE(touched);
  EXPECT_EQ(refused.error().code, Code::out_of_memory);
  const std::string& m = refused.error().message;
  EXPECT_TRUE(says(refused.error(), "600x1000x32x32 uint16 as dense needs 1.23 GB")) << m;
  EXPECT_TRUE(says(refused.error(), "1.07 GB usable")) << m;
  EXPECT_TRUE(says(refused.error(), "keep encoded storage (about 0.23 GB)")) << m;
  EXPECT_TRUE(says(refused.error(), "scan_region=(0, 52")) << m;
  EXPECT_TRUE(says(refused.error(), "det_bin=2 (0.61 GB)")) << m;
  // The way out that was named is a way out, and the next larger one is not.
  const auto device = open_device(Backend::cpu, 0, d);
  const std::size_t at = m.find("scan_region=(0, ") + 16;
  o.scan_region = Region{0, static_cast<std::uint32_t>(std::stoul(m.substr(at))), 0, 1000};
  EXPECT_TRUE(estimate(*device, source.container, o)->fits());
  ++o.scan_region->row_stop;
  EXPECT_FALSE(estimate(*device, source.container, o)->fits());
}

TEST(Load, M07_AScanOfMoreThan2To64BytesIsRefused) {
  Container c;
  c.shape = {{4294967295u, 4294967295u}, {8, 8}};  // what a damaged scan_shape attribute says
  const auto e = estimate(*open_device(Backend::cpu), c);
  ASSERT_FALSE(e);
  EXPECT_EQ(e.error().code, Code::unsupported);
}

TEST(Load, M07_NonsenseIsRefusedWithTheValidRange) {
  const Shape4 s{{4, 4}, {8, 8}};
  const MemorySource<std::uint8_t> source(s, counts<std::uint8_t>(s.n_values(), 1));
  const auto refusal = [&](const LoadOptions& o) {
    const auto v = source.load(o);
    EXPECT_FALSE(v);
    return v ? std::string() : v.error().message;
  };
  LoadOptions o;
  o.det_bin = {0, 1};
  EXPECT_NE(refusal(o).find("det_bin of rows is 0, must be from 1 to 8"), std::string::npos);
  o.det_bin = {2, 9};
  EXPECT_NE(refusal(o).find("must be from 1 to 8"), std::string::npos);
  o = {};
  o.scan_bin = {5, 1};
  EXPECT_NE(refusal(o).find("must be from 1 to 4"), std::string::npos);
  o = {};
  o.scan_region = Region{2, 2, 0, 4};
  EXPECT_NE(refusal(o).find("scan_region"), std::string::npos);
  o.scan_region = Region{0, 5, 0, 4};
  EXPECT_NE(refusal(o).find("5"), std::string::npos);
  o = {};
  o.bad_pixels = {{8, 0}};
  EXPECT_NE(refusal(o).find("(8, 0)"), std::string::npos);
  o = {};
  o.representation = Representation::encoded;
  EXPECT_FALSE(MemorySource<float>(s, std::vector<float>(s.n_values())).load(o));
}

TEST(Load, C23_C90_ProgressAndCancellation) {
  const Shape4 s{{40, 40}, {4, 4}};
  const MemorySource<std::uint8_t> source(s, counts<std::uint8_t>(s.n_values(), 1));
  std::vector<Progress> seen;
  Job job;
  job.on_progress = [&](const Progress& p) { seen.push_back(p); };
  ASSERT_TRUE(source.load({}, {}, job));
  ASSERT_FALSE(seen.empty());
  EXPECT_EQ(seen.back().done, 1600u);
  for (std::size_t i = 1; i < seen.size(); ++i) EXPECT_GE(seen[i].done, seen[i - 1].done);
  std::stop_source stop;
  job.stop = stop.get_token();
  MemorySource<std::uint8_t> stopping(s, source.values());
  stopping.generate = [&](std::uint64_t frame, std::span<std::uint8_t>) {
    if (frame == 700) stop.request_stop();
  };
  const auto v = stopping.load({}, {}, job);
  ASSERT_FALSE(v);
  EXPECT_EQ(v.error().code, Code::cancelled);
}

TEST(Load, C71_ProvenanceNamesEveryStepInItsOrder) {
  const Shape4 s{{4, 6}, {8, 8}};
  MemorySource<std::uint32_t> source(s, counts<std::uint32_t>(s.n_values(), 1));
  source.container.n_ignored_frames = 3;
  LoadOptions o;
  o.scan_region = Region{1, 4, 0, 6};
  o.det_bin = {2, 2};
  o.bad_pixels = {{0, 0}};
  o.hot_pixels = HotPixels::median;
  const auto v = source.load(o);
  ASSERT_TRUE(v);
  const Provenance& p = v->provenance();
  std::vector<std::string> steps;
  for (const ProcessingStep& step : p.steps) steps.push_back(step.operation);
  EXPECT_EQ(steps,
            (std::vector<std::string>{"crop", "bad_pixel_zeroing", "hot_pixel_median", "bin", "lossless_storage"}));
  EXPECT_EQ(p.evidence, (std::vector<std::string>{"cropped", "filtered", "binned"}));
  EXPECT_EQ(p.source_identity, source.container.identity);
  EXPECT_EQ(p.ignored_frames, 3u);
  EXPECT_EQ(p.scan_region, (Region{1, 4, 0, 6}));
  EXPECT_EQ(p.bad_pixels.count, 1u);
  EXPECT_EQ(p.representation, "encoded");
  EXPECT_EQ(p.backend, "cpu");
}

TEST(Load, C12_MaskNotAppliedKeepsRawCountsAndSaysSo) {
  const Shape4 s{{1, 2}, {2, 2}};
  MemorySource<std::uint8_t> source(s, {1, 2, 3, 4, 5, 6, 7, 8});
  source.container.has_pixel_mask = true;
  source.container.valid_pixels = BitMask(4, true);
  source.container.valid_pixels.set(2, false);
  const auto masked = source.load();
  ASSERT_TRUE(masked);
  EXPECT_EQ(all_of<std::uint8_t>(*masked), (std::vector<std::uint8_t>{1, 2, 0, 4, 5, 6, 0, 8}));
  EXPECT_EQ(masked->audit().count_min, 1);
  LoadOptions o;
  o.apply_mask = false;
  const auto raw = source.load(o);
  ASSERT_TRUE(raw);
  EXPECT_EQ(all_of<std::uint8_t>(*raw), source.values());
  EXPECT_EQ(raw->provenance().bad_pixels.policy, "kept");
  source.container.has_pixel_mask = false;
  source.container.valid_pixels = {};
  EXPECT_EQ(source.load()->provenance().bad_pixels.policy, "no mask in source");
}

}  // namespace
}  // namespace quantem
