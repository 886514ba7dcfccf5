// Field cases of values on real files: through inspect and load, both representations.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <numeric>

#include "quantem/detector/masked_sum.h"
#include "quantem/detector/mean_pattern.h"
#include "quantem/dpc/com.h"
#include "quantem/io/load.h"

namespace quantem {
namespace {

constexpr Representation kBoth[] = {Representation::dense, Representation::encoded};

std::optional<std::filesystem::path> real_file(const char* name) {
  const char* root = std::getenv("QUANTEM_REAL_DATA");
  if (!root || !std::filesystem::exists(std::filesystem::path(root) / name)) return std::nullopt;
  return std::filesystem::path(root) / name;
}
#define REAL_FILE(variable, name)                                                                 \
  const auto variable##_found = real_file(name);                                                  \
  if (!variable##_found) GTEST_SKIP() << "set QUANTEM_REAL_DATA to the folder that has " << name; \
  const std::filesystem::path& variable = *variable##_found

Result<Volume> load_file(const std::filesystem::path& path, LoadOptions options, const OpenOptions& open = {}) {
  QUANTEM_TRY_ASSIGN(device, open_device(Backend::cpu));
  QUANTEM_TRY_ASSIGN(container, inspect(path, open));
  return load(device, container, options);
}

std::vector<std::uint64_t> totals(const Volume& v) {
  const auto image = masked_sum_exact(v, all_pixels(v.shape().det));
  EXPECT_TRUE(image) << (image ? "" : image.error().message);
  return image ? image->values : std::vector<std::uint64_t>{};
}

TEST(RealValues, V02_MarkersTakePartInNothing) {
  REAL_FILE(file, "eiger4m/bitshuffle.h5");
  OpenOptions open;
  open.scan_shape = Extent{1, 1};
  for (const Representation r : kBoth) {
    LoadOptions o;
    o.representation = r;
    const auto v = load_file(file, o, open);
    ASSERT_TRUE(v) << v.error().message;
    EXPECT_EQ(v->shape().det, (Extent{2167, 2070}));
    EXPECT_EQ(v->valid_pixels().n_set(), 4234388u);  // flagged in the only frame: bad
    EXPECT_EQ(v->audit().count_max, 1208081);
    EXPECT_EQ(v->audit().n_values, 4234388u);
    EXPECT_EQ(totals(*v), std::vector<std::uint64_t>{168427642});
    // The same pixels as a mask of the caller.
    for (std::uint32_t p = 0; p < v->valid_pixels().count(); ++p)
      if (!v->valid_pixels()[p]) o.bad_pixels.push_back({p / 2070, p % 2070});
    ASSERT_EQ(o.bad_pixels.size(), 251302u);
    o.flagged = Flagged::error;
    const auto masked = load_file(file, o, open);
    ASSERT_TRUE(masked) << masked.error().message;
    EXPECT_EQ(totals(*masked), std::vector<std::uint64_t>{168427642});
    EXPECT_EQ(masked->audit().digest, v->audit().digest);
  }
}

TEST(RealValues, V15_OneCameraThreeDtypes) {
  const struct {
    const char* name;
    Dtype dtype;
    std::uint64_t both_frames;
  } sets[] = {{"_uint8", Dtype::u8, 7297080}, {"", Dtype::u16, 7297080}, {"_uint32", Dtype::u32, 43782480}};
  for (const auto& set : sets)
    for (const char* part : {"000001", "000002"}) {
      const std::string name = std::string("dectris/datasets_eiger2/eiger2_simread7_2datafiles_4images_bslz4") +
                               set.name + "_data_" + part + ".h5";
      REAL_FILE(file, name.c_str());
      OpenOptions open;
      open.scan_shape = Extent{2, 1};
      for (const Representation r : kBoth) {
        LoadOptions o;
        o.representation = r;
        const auto v = load_file(file, o, open);
        ASSERT_TRUE(v) << v.error().message;
        EXPECT_EQ(v->dtype(), set.dtype);
        EXPECT_EQ(v->shape(), (Shape4{{2, 1}, {512, 1028}}));
        const auto sums = totals(*v);
        EXPECT_EQ(sums[0] + sums[1], set.both_frames);
        EXPECT_EQ(sums[0], set.dtype == Dtype::u32 ? set.both_frames / 2 : 3648540u);
        const auto all = read(*v, whole(v->shape().scan), whole(v->shape().det));
        ASSERT_TRUE(all);
        EXPECT_EQ(all->dtype, set.dtype);
        if (set.dtype == Dtype::u8 && std::string(part) == "000001") {
          const auto com = com_field(*v);
          ASSERT_TRUE(com);
          EXPECT_NEAR(com->row[0], 255.500010, 5e-7);
          EXPECT_NEAR(com->col[0], 513.500011, 5e-7);
        }
      }
    }
}

TEST(RealValues, G17_OddDetectorWithItsMask) {
  REAL_FILE(file, "dectris/dataset_artificial_small_001/test_master.h5");
  OpenOptions open;
  open.scan_shape = Extent{5, 1};
  for (const Representation r : kBoth) {
    LoadOptions o;
    o.representation = r;
    o.apply_mask = false;
    const auto raw = load_file(file, o, open);
    ASSERT_TRUE(raw) << raw.error().message;
    EXPECT_EQ(raw->shape().det, (Extent{13, 11}));
    auto sums = totals(*raw);
    EXPECT_EQ(std::accumulate(sums.begin(), sums.end(), std::uint64_t{0}), 50765u);
    o.apply_mask = true;
    const auto v = load_file(file, o, open);
    ASSERT_TRUE(v);
    EXPECT_LT(v->valid_pixels().n_set(), 143u);
    const auto before = read(*raw, whole(raw->shape().scan), whole(raw->shape().det));
    const auto after = read(*v, whole(v->shape().scan), whole(v->shape().det));
    ASSERT_TRUE(before && after);
    for (std::uint64_t i = 0; i < 5 * 143; ++i)
      ASSERT_EQ(after->as<std::uint16_t>()[i], v->valid_pixels()[i % 143] ? before->as<std::uint16_t>()[i] : 0);
  }
}

TEST(RealValues, C29_CropAndBinOfAGenuineMaster) {
  REAL_FILE(file, "quantem_gpu/fixture_master.h5");
  const auto whole_volume = load_file(file, {});
  ASSERT_TRUE(whole_volume) << whole_volume.error().message;
  const auto all = read(*whole_volume, whole(whole_volume->shape().scan), whole(whole_volume->shape().det));
  ASSERT_TRUE(all);
  std::uint64_t sum = 0;
  for (const std::uint16_t x : all->as<std::uint16_t>()) sum += x;
  LoadOptions o;
  o.det_bin = {5, 7};
  const auto binned = load_file(file, o);
  ASSERT_TRUE(binned);
  const auto sums = totals(*binned);
  EXPECT_EQ(std::accumulate(sums.begin(), sums.end(), std::uint64_t{0}), sum);
  o.detector_region = Region{3, 50, 10, 64};
  const auto crop = load_file(file, o);
  ASSERT_TRUE(crop);
  std::uint64_t inside = 0;
  for (std::uint32_t r = 3; r < 50; ++r)
    for (std::uint32_t c = 10; c < 64; ++c) inside += all->as<std::uint16_t>()[r * 64 + c];
  EXPECT_EQ(totals(*crop), std::vector<std::uint64_t>{inside});
}

}  // namespace
}  // namespace quantem
