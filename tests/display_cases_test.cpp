// Field cases about what is shown, on real files.

#include <gtest/gtest.h>
#include <hdf5.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "quantem/display/figure.h"
#include "quantem/display/histogram.h"
#include "quantem/display/window.h"
#include "quantem/io/filters.h"

namespace quantem {
namespace {

// The only chunk of dataset `name` in `file`, decoded by our own filters.
Grid<std::uint32_t> read_one_chunk_u32(const std::filesystem::path& file, const char* name,
                                       const FilterPipeline& filters) {
  Grid<std::uint32_t> counts;
  const hid_t handle = H5Fopen(file.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t dataset = H5Dopen2(handle, name, H5P_DEFAULT), space = H5Dget_space(dataset);
  hsize_t shape[3] = {}, bytes = 0;
  const hsize_t origin[3] = {};
  std::uint32_t filter_mask = 0;
  if (H5Sget_simple_extent_dims(space, shape, nullptr) == 3 &&
      H5Dget_chunk_storage_size(dataset, origin, &bytes) >= 0) {
    std::vector<std::byte> stored(bytes);
    EXPECT_GE(H5Dread_chunk(dataset, H5P_DEFAULT, origin, &filter_mask, stored.data()), 0);
    counts.extent = {static_cast<std::uint32_t>(shape[1]), static_cast<std::uint32_t>(shape[2])};
    counts.values.resize(counts.extent.count());
    DecodeScratch scratch;
    const ChunkFault fault =
        decode_chunk(stored, filters, filter_mask, 4, std::as_writable_bytes(std::span(counts.values)), scratch);
    EXPECT_TRUE(fault.ok()) << describe(fault);
  }
  H5Sclose(space), H5Dclose(dataset), H5Fclose(handle);
  return counts;
}

TEST(Display, V02_AutoscaleIsNotRuinedByMarkers) {
  const char* real = std::getenv("QUANTEM_REAL_DATA");
  const std::filesystem::path file = std::filesystem::path(real ? real : "") / "eiger4m/bitshuffle.h5";
  if (!real || !std::filesystem::exists(file))
    GTEST_SKIP() << "set QUANTEM_REAL_DATA to the folder of real files (eiger4m)";
  Grid<std::uint32_t> counts = read_one_chunk_u32(file, "/entry/data/data", {{32008, {0, 2, 4, 0, 2}}});
  ASSERT_EQ(counts.extent, (Extent{2167, 2070}));

  // The file has no mask; the caller gives one.
  counts.valid = BitMask(counts.extent.count(), true);
  std::uint64_t n_invalid = 0, valid_sum = 0;
  for (std::uint64_t i = 0; i < counts.values.size(); ++i) {
    if (counts.values[i] == 0xFFFFFFFFu)
      counts.valid.set(i, false), ++n_invalid;
    else
      valid_sum += counts.values[i];
  }
  EXPECT_EQ(n_invalid, 251302u);
  EXPECT_EQ(counts.extent.count(), 4485690u);
  EXPECT_EQ(valid_sum, 168427642u);

  const Image<float> image = displayable(counts);
  const auto limits = window(image, kMinMax), usual = window(image);
  ASSERT_TRUE(limits);
  ASSERT_TRUE(usual);
  EXPECT_EQ(limits->hi, 1208081.0f);
  EXPECT_EQ(limits->lo, 0.0f);
  EXPECT_LT(usual->hi, 1208081.0f);
  const auto bins = histogram(image, *limits);
  ASSERT_TRUE(bins);
  EXPECT_EQ(bins->invalid, 251302u);
  std::uint64_t inside = 0;
  for (const std::uint32_t n : bins->bins) inside += n;
  EXPECT_EQ(inside, 4234388u);

  const auto panel = show_image({}, image, *usual, "inferno");
  ASSERT_TRUE(panel);
  EXPECT_EQ(panel->n_without_value, 251302u);
  EXPECT_EQ(panel->reduced_by, 4u);
  EXPECT_TRUE(draw_panel(*panel));
}

}  // namespace
}  // namespace quantem
