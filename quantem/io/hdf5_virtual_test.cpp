// Virtual datasets of many pieces (field case L10): every frame from its place, and an end to lists that only cost time.

#include "quantem/io/hdf5_virtual.h"

#include <gtest/gtest.h>

#include "quantem/io/hdf5_file.h"
#include "tests/support/hdf5_writer.h"
#include "tests/support/open.h"

namespace quantem::hdf5 {
namespace {
using namespace support;

constexpr std::uint64_t kSide = 4, kFrames = 24;

// x.h5 with /entry/data/data of `pieces` frames: frame i is frame i / sources (from the end) of source i % sources.
fs::path write_turns(const fs::path& folder, std::uint64_t sources) {
  const std::uint64_t each = kFrames / sources;
  Writer f(folder / "x.h5");
  std::vector<Writer::Piece> pieces;
  for (std::uint64_t s = 0; s < sources; ++s)
    f.dataset("/source" + std::to_string(s), const_frames(each, kSide, kSide, 100 * s), {each, kSide, kSide});
  for (std::uint64_t i = 0; i < kFrames; ++i)
    pieces.push_back({".",
                      "/source" + std::to_string(i % sources),
                      {each, kSide, kSide},
                      {each - 1 - i / sources, 0, 0},
                      {i, 0, 0},
                      {1, kSide, kSide},
                      {}});
  f.virtual_dataset("/entry/data/data", H5T_STD_U16LE, {kFrames, kSide, kSide}, pieces);
  return folder / "x.h5";
}

TEST(VirtualParts, L10_FramesOfSourcesInTurn) {
  for (const std::uint64_t sources : {1, 2, 12}) {  // 12: more than are kept
    const Folder folder("turns");
    Sums expected;
    for (std::uint64_t i = 0; i < kFrames; ++i)
      expected.emplace_back(kSide * kSide * (100 * (i % sources) + kFrames / sources - 1 - i / sources));
    EXPECT_EQ(sum_image(open(write_turns(folder.path(), sources), scan(1, kFrames))), expected) << sources;
  }
}

TEST(VirtualParts, ReadingIndicesAgainAndAgainEnds) {
  const Folder folder("turns");
  const fs::path path = write_turns(folder.path(), 12);
  const Lock lock;
  const auto file = open_file(path);
  ASSERT_TRUE(file);
  const auto dataset = find_object(*file, "/entry/data/data");
  ASSERT_TRUE(dataset);
  Container container;
  std::uint64_t entries = 0;
  ASSERT_TRUE(make_parts_at(container, *dataset, {}, 0, entries));
  const std::uint64_t read =
      1 + kFrames + kFrames * (1 + 2);  // 12 in turn: each piece reads its source of two chunks again
  EXPECT_EQ(entries, read);
  entries = kMostIndexEntries - read;
  EXPECT_TRUE(make_parts_at(container, *dataset, {}, 0, entries));
  entries = kMostIndexEntries - read + 1;
  const auto refused = make_parts_at(container, *dataset, {}, 0, entries);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::unsupported);
  EXPECT_HOLDS(refused.error().message, "listed in turn so often");
}

}  // namespace
}  // namespace quantem::hdf5
