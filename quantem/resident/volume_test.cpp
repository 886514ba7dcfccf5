// Volumes: from arrays, reading back, receipt, ownership.

#include "quantem/resident/volume.h"

#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>

#include "quantem/resident/intake.h"

namespace quantem {
namespace {

constexpr Representation kBoth[] = {Representation::dense, Representation::encoded};

Device cpu() {
  return *open_device(Backend::cpu);
}

template <class T>
ArrayView view(const std::vector<T>& values, std::vector<std::uint64_t> shape) {
  return {dtype_of<T>(), std::move(shape), values.data()};
}

bool says(const Error& e, std::string_view text) {
  return e.message.find(text) != std::string::npos;
}

TEST(FromArray, C8_RanksTwoToFour) {
  const std::vector<std::uint16_t> values(60, 1);
  const auto two = from_array(cpu(), view(values, {6, 10}));
  ASSERT_TRUE(two);
  EXPECT_EQ(two->shape(), (Shape4{{1, 1}, {6, 10}}));
  FromArrayOptions o;
  o.scan_shape = Extent{3, 4};
  const auto three = from_array(cpu(), view(values, {12, 1, 5}), o);
  ASSERT_TRUE(three);
  EXPECT_EQ(three->shape(), (Shape4{{3, 4}, {1, 5}}));
  const auto unsaid = from_array(cpu(), view(values, {12, 1, 5}));
  ASSERT_FALSE(unsaid);
  EXPECT_EQ(unsaid.error().code, Code::undetermined);
  o.scan_shape = Extent{5, 7};
  const auto wrong = from_array(cpu(), view(values, {12, 1, 5}), o);
  ASSERT_FALSE(wrong);
  EXPECT_TRUE(says(wrong.error(), "12 frames") && says(wrong.error(), "35 positions")) << wrong.error().message;
  EXPECT_FALSE(from_array(cpu(), view(values, {60})));
  EXPECT_FALSE(from_array(cpu(), view(values, {1, 1, 1, 6, 10})));
  EXPECT_FALSE(from_array(cpu(), view(values, {0, 1, 6, 10})));
  EXPECT_FALSE(from_array(cpu(), ArrayView{Dtype::f64, {6, 10}, values.data()}));
  EXPECT_FALSE(from_array(cpu(), ArrayView{Dtype::u16, {6, 10}, nullptr}));
}

TEST(FromArray, C9_SignedAndFloatCountsAreKeptDense) {
  const std::vector<std::int16_t> values{-3, 4, 5, -6};
  const auto v = from_array(cpu(), view(values, {1, 1, 2, 2}));
  ASSERT_TRUE(v);
  EXPECT_EQ(v->representation(), Representation::dense);
  EXPECT_EQ(v->audit().count_min, -6);
  EXPECT_EQ(v->audit().count_max, 5);
  const auto back = read(*v, {0, 1, 0, 1}, {0, 2, 0, 2});
  ASSERT_TRUE(back);
  EXPECT_EQ(std::memcmp(back->buffer.data(), values.data(), 8), 0);
  FromArrayOptions o;
  o.representation = Representation::encoded;
  const auto refused = from_array(cpu(), view(values, {1, 1, 2, 2}), o);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::unsupported);
}

TEST(FromArray, C12_C14_C17_ExcludedSamplesAreZeroAndListed) {
  std::vector<std::uint32_t> values(3 * 6);
  std::iota(values.begin(), values.end(), 100u);
  values[4] = values[10] = values[16] = kMarker;  // pixel 4 in every frame
  values[7] = kMarker;
  FromArrayOptions o;
  o.valid_pixels = BitMask(6, true);
  o.valid_pixels.set(0, false);
  o.valid_positions = BitMask(3, true);
  o.valid_positions.set(2, false);
  for (const Representation r : kBoth) {
    o.representation = r;
    const auto v = from_array(cpu(), view(values, {1, 3, 2, 3}), o);
    ASSERT_TRUE(v);
    EXPECT_EQ(v->valid_pixels().n_set(), 4u);
    EXPECT_FALSE(v->valid_pixels()[4]);
    EXPECT_EQ(v->info().flagged, (std::vector<FlaggedSample>{{1, 1}}));
    EXPECT_EQ(v->audit().n_values, 7u);
    EXPECT_EQ(v->audit().count_max, 111);
    ReadOptions fill;
    fill.fill = 7;
    const auto all = read(*v, {0, 1, 0, 3}, {0, 2, 0, 3}, fill);
    ASSERT_TRUE(all);
    const std::vector<std::uint32_t> want{0, 101, 102, 103, 0, 105, 0, 0, 108, 109, 0, 111, 7, 7, 7, 7, 7, 7};
    EXPECT_TRUE(std::equal(want.begin(), want.end(), all->as<std::uint32_t>().begin()));
    EXPECT_EQ(all->valid_pixels, v->valid_pixels());
    const auto missing = read(*v, {0, 1, 1, 3}, {0, 2, 0, 3});
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().code, Code::missing_data);
    EXPECT_TRUE(says(missing.error(), "1 of 2") && says(missing.error(), "(0, 2)")) << missing.error().message;
    fill.fill = -1;
    EXPECT_FALSE(read(*v, {0, 1, 0, 3}, {0, 2, 0, 3}, fill));
  }
  o.flagged = Flagged::error;
  const auto refused = from_array(cpu(), view(values, {1, 3, 2, 3}), o);
  ASSERT_FALSE(refused);
  EXPECT_TRUE(says(refused.error(), "position (0, 0), pixel (1, 1)")) << refused.error().message;
}

// Bits of a float32 come back as they were: -0, subnormals, infinities, NaN payloads.
TEST(Read, C22_FloatBitsComeBack) {
  const std::vector<std::uint32_t> bits{0x80000000u, 1, 0x7f800000u, 0xff800000u, 0x7fc12345u, 0x3f800001u};
  const ArrayView floats{Dtype::f32, {2, 1, 1, 3}, bits.data()};
  const auto v = from_array(cpu(), floats);
  ASSERT_TRUE(v);
  const auto all = read(*v, {0, 2, 0, 1}, {0, 1, 0, 3});
  ASSERT_TRUE(all);
  EXPECT_EQ(std::memcmp(all->buffer.data(), bits.data(), bits.size() * 4), 0);
  EXPECT_EQ(v->info().n_nonfinite_samples, 3u);
}

TEST(Read, C3_RegionsOfEveryKindEqualTheArray) {
  const Shape4 s{{23, 47}, {9, 10}};  // 1081 positions: three blocks
  std::vector<std::uint16_t> values(s.n_values());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint16_t>(i * 2654435761u >> 20);
  const Region scans[] = {{0, 23, 0, 47},   {10, 11, 40, 47}, {10, 12, 40, 47},
                          {22, 23, 46, 47}, {0, 23, 5, 6},    {3, 20, 1, 46}};
  const Region dets[] = {{0, 9, 0, 10}, {8, 9, 9, 10}, {2, 7, 3, 9}};
  for (const Representation r : kBoth) {
    FromArrayOptions o;
    o.representation = r;
    const auto v = from_array(cpu(), view(values, {23, 47, 9, 10}), o);
    ASSERT_TRUE(v);
    for (const Region& scan : scans)
      for (const Region& det : dets) {
        const auto part = read(*v, scan, det);
        ASSERT_TRUE(part);
        std::uint64_t i = 0;
        for (std::uint32_t sr = scan.row_start; sr < scan.row_stop; ++sr)
          for (std::uint32_t sc = scan.col_start; sc < scan.col_stop; ++sc)
            for (std::uint32_t dr = det.row_start; dr < det.row_stop; ++dr)
              for (std::uint32_t dc = det.col_start; dc < det.col_stop; ++dc, ++i)
                ASSERT_EQ(part->as<std::uint16_t>()[i], values[((sr * 47 + sc) * 9 + dr) * 10 + dc])
                    << to_string(scan) << to_string(det);
      }
    EXPECT_FALSE(read(*v, {0, 24, 0, 47}, dets[0]));
    EXPECT_FALSE(read(*v, scans[0], {4, 4, 0, 10}));
    ReadOptions small;
    small.limit_bytes = 1000;
    const auto large = read(*v, scans[0], dets[0], small);
    ASSERT_FALSE(large);
    EXPECT_EQ(large.error().code, Code::out_of_memory);
    EXPECT_TRUE(says(large.error(), "194580 bytes")) << large.error().message;
  }
}

TEST(Volume, C76_ReceiptSaysWhatIsThere) {
  const std::vector<std::uint16_t> values(5 * 6, 300);
  for (const Representation r : kBoth) {
    FromArrayOptions o;
    o.representation = r;
    const auto v = from_array(cpu(), view(values, {5, 1, 2, 3}), o);
    ASSERT_TRUE(v);
    const auto receipt = nlohmann::json::parse(v->receipt_json());
    EXPECT_EQ(receipt["schema"], "quantem.gpu.4dstem-resident-receipt/v3");
    EXPECT_EQ(receipt["representation"], r == Representation::dense ? "dense" : "encoded");
    EXPECT_EQ(receipt["codec_profile"].is_null(), r == Representation::dense);
    EXPECT_EQ(receipt["working_dtype"], "uint16");
    EXPECT_EQ(receipt["scan_shape"], (std::vector<int>{5, 1}));
    EXPECT_EQ(receipt["detector_shape"], (std::vector<int>{2, 3}));
    EXPECT_EQ(receipt["logical_bytes"], 60);
    EXPECT_EQ(receipt["resident_bytes"], v->resident_bytes());
    EXPECT_EQ(receipt["count_max"], 300);
    EXPECT_TRUE(receipt["payload_sha256"].is_null() && receipt["logical_sha256"].is_null());
    for (const char* key :
         {"storage_schema", "source_dtype", "scan_region", "detector_region", "scan_bin", "detector_bin",
          "source_identity", "valid_pixels_sha256", "backend", "device", "source_revision"})
      EXPECT_TRUE(receipt.contains(key)) << key;
  }
}

TEST(Volume, C88_ClosingOneHandleLeavesTheOther) {
  const std::vector<std::uint8_t> values(4, 9);
  auto v = from_array(cpu(), view(values, {2, 2}));
  ASSERT_TRUE(v);
  Calibration known;
  known.voltage_kV.value = 300;
  const Volume other = v->with_calibration(known);
  EXPECT_FALSE(v->calibration().voltage_kV);
  EXPECT_EQ(*other.calibration().voltage_kV.value, 300);
  v->close();
  v->close();
  const auto refused = read(*v, {0, 1, 0, 1}, {0, 1, 0, 1});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::closed);
  const auto still = read(other, {0, 1, 0, 1}, {1, 2, 1, 2});
  ASSERT_TRUE(still);
  EXPECT_EQ(still->as<std::uint8_t>()[0], 9);
}

TEST(FromArray, C85_MoreThanTheLimitIsRefused) {
  DeviceOptions options;
  options.memory_limit_bytes = 1000;
  const Device device = *open_device(Backend::cpu, 0, options);
  const std::vector<std::uint16_t> values(1000, 1);
  FromArrayOptions o;
  o.representation = Representation::dense;
  const auto refused = from_array(device, view(values, {10, 10, 5, 2}), o);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::out_of_memory);
  EXPECT_TRUE(says(refused.error(), "needs 2000 bytes")) << refused.error().message;
}

TEST(FromArray, C85_EncodedCountsAreHeldToTheLimitToo) {
  // 2,048 positions of 32 pixels with all 16 planes in use: four blocks of 33 kB and more.
  std::vector<std::uint16_t> values(2048 * 32);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint16_t>(i * 2654435761u >> 9);
  DeviceOptions options;
  options.memory_limit_bytes = 100'000;  // enough for a block in work and for two that are done
  const Device limited = *open_device(Backend::cpu, 0, options);
  const auto refused = from_array(limited, view(values, {32, 64, 4, 8}));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::out_of_memory);
  EXPECT_TRUE(says(refused.error(), "100000 usable bytes")) << refused.error().message;
  EXPECT_TRUE(from_array(cpu(), view(values, {32, 64, 4, 8})));
}

}  // namespace
}  // namespace quantem
