// Field cases of group 1, layout: what lies where in HDF5 files, with the answers of the cases page. Inputs are written here.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "quantem/io/container.h"
#include "tests/support/frames.h"
#include "tests/support/hdf5_writer.h"

namespace quantem {
namespace {
using namespace support;
using Sums = std::vector<std::optional<std::int64_t>>;

OpenOptions scan(std::uint32_t rows, std::uint32_t cols, Missing missing = Missing::error) {
  OpenOptions o;
  o.scan_shape = Extent{rows, cols};
  o.missing = missing;
  return o;
}

// 64 k for positions first..last of L01.
Sums ramp_sums(std::int64_t n, std::int64_t per_frame = 64, std::int64_t start = 0) {
  Sums s;
  for (std::int64_t k = 0; k < n; ++k) s.emplace_back(per_frame * (k + start));
  return s;
}

fs::path write_l01(const fs::path& folder, const ArinaForm& form = {}) {
  return write_arina_set(folder, const_frames(25, 8, 8), {10, 10, 5}, 8, 8, form);
}

Container open(const fs::path& path, const OpenOptions& options = {}) {
  auto c = inspect(path, options);
  EXPECT_TRUE(c) << (c ? "" : c.error().message);
  return c ? *c : Container{};
}

// Opens, expects readiness and returns the sums.
Sums ready_sums(const fs::path& path, const OpenOptions& options = {}) {
  const Container c = open(path, options);
  EXPECT_FALSE(c.not_ready) << c.not_ready->message;
  return sum_image(c);
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}
[[maybe_unused]] std::string refusal(const Container& c) {
  return c.not_ready ? c.not_ready->message : "ready";
}
[[maybe_unused]] bool warns(const Container& c, const std::string& part) {
  for (const auto& w : c.warnings)
    if (holds(w, part)) return true;
  return false;
}

TEST(Layout, L01_AnAcquisitionIsAllOfItsParts) {
  const Folder folder("L01");
  const fs::path master = write_l01(folder.path());
  const Container c = open(master, scan(5, 5));
  EXPECT_EQ(c.shape, (Shape4{{5, 5}, {8, 8}}));
  EXPECT_EQ(c.n_stored, 25u);
  EXPECT_EQ(c.n_expected, 25u);
  EXPECT_EQ(c.parts.size(), 3u);
  EXPECT_TRUE(c.parts[0].one_frame_per_chunk());
  EXPECT_EQ(ready_sums(master, scan(5, 5)), ramp_sums(25));
  const auto frames = read_positions(c);
  EXPECT_EQ(frames[10].values, std::vector<std::int64_t>(64, 10));
  // The same for other dtypes, a start number that is not 1, and no numbers at all.
  for (const bool numbers : {true, false}) {
    const Folder other("L01");
    const auto path = write_arina_set(other.path(), const_frames<std::uint8_t>(25, 8, 8), {10, 10, 5}, 8, 8,
                                      {.numbers = numbers, .first_number = 4001});
    EXPECT_EQ(ready_sums(path, scan(5, 5)), ramp_sums(25));
  }
}

}  // namespace
}  // namespace quantem
