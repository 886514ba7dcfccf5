// Chunk lists by this program's own walk against libhdf5's answer, for every index kind; damaged indexes; reading whole datasets.

#include "quantem/io/hdf5_index.h"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <numeric>

#include "quantem/io/dataset_bytes.h"
#include "quantem/io/hdf5_chunks.h"
#include "tests/support/hdf5_writer.h"

namespace quantem::hdf5 {
namespace {
using support::Bytes;
using support::DatasetForm;
using support::Dims;
using support::Folder;

// The chunk list by H5Dget_chunk_info_by_coord, one chunk after another.
std::vector<ByteRange> by_library(const Object& dataset, const DatasetIndex& index) {
  std::vector<ByteRange> chunks(index.chunks.size());
  const std::vector<std::uint64_t> grid = chunk_grid(index.shape, index.chunk);
  for (std::uint64_t flat = 0; flat < chunks.size(); ++flat) {
    hsize_t offset[32] = {}, bytes = 0;
    std::uint64_t rest = flat;
    for (std::size_t d = grid.size(); d-- > 0; rest /= grid[d]) offset[d] = rest % grid[d] * index.chunk[d];
    unsigned mask = 0;
    haddr_t address = HADDR_UNDEF;
    EXPECT_GE(H5Dget_chunk_info_by_coord(dataset.id.get(), offset, &mask, &address, &bytes), 0);
    if (address != HADDR_UNDEF) chunks[flat] = {address, bytes, mask};
  }
  return chunks;
}

bool operator==(const ByteRange& a, const ByteRange& b) {
  return a.offset == b.offset && (!a.present() || (a.bytes == b.bytes && a.filter_mask == b.filter_mask));
}

// Index kind as stored, so that a case is known to test what it says.
IndexKind kind_of(const std::filesystem::path& path, const Object& dataset) {
  H5O_info_t info;
  H5Oget_info2(dataset.id.get(), &info, H5O_INFO_BASIC);
  const RawFile raw(path, dataset.file->superblock.base);
  const auto layout = read_layout(raw, info.addr);
  EXPECT_TRUE(layout);
  return layout ? layout->index : IndexKind::btree_v1;
}

struct IndexCase {
  const char* name;
  bool latest;
  IndexKind kind;
  Dims shape, chunk;
  const char* codec;
  int unlimited;  // -1 none, an axis, or 100: all
};

class ChunkIndex : public testing::TestWithParam<IndexCase> {};

TEST_P(ChunkIndex, L29_EqualsTheLibrarys) {
  const IndexCase& c = GetParam();
  const Folder folder("index");
  const auto path = folder / "x.h5";
  std::uint64_t n = 1;
  for (const auto s : c.shape) n *= s;
  std::vector<std::uint16_t> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<std::uint16_t>(i * 7919 % 65521);
  {
    support::Writer f(path, c.latest);
    const DatasetForm form{.codec = c.codec, .chunk = c.chunk, .unlimited_axis = c.unlimited == 100 ? 0 : c.unlimited};
    if (c.unlimited == 100) {  // a version-2 B-tree needs two unlimited axes
      std::vector<hsize_t> now(c.shape.begin(), c.shape.end()), most(c.shape.size(), H5S_UNLIMITED),
          chunk(c.chunk.begin(), c.chunk.end());
      const hid_t made = H5Pcreate(H5P_DATASET_CREATE),
                  space = H5Screate_simple(static_cast<int>(now.size()), now.data(), most.data());
      H5Pset_chunk(made, static_cast<int>(chunk.size()), chunk.data());
      if (c.codec == std::string("gzip")) H5Pset_deflate(made, 1);
      const hid_t d = H5Dcreate2(f.id(), "/d", H5T_STD_U16LE, space, H5P_DEFAULT, made, H5P_DEFAULT);
      H5Dwrite(d, H5T_STD_U16LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
      H5Dclose(d), H5Sclose(space), H5Pclose(made);
    } else {
      f.dataset("/d", values, c.shape, form);
    }
  }
  {
    const Lock lock;
    auto file = open_file(path);
    ASSERT_TRUE(file) << file.error().message;
    auto dataset = find_object(*file, "/d");
    ASSERT_TRUE(dataset);
    EXPECT_EQ(kind_of(path, *dataset), c.kind);
    const auto index = index_dataset(*dataset);
    ASSERT_TRUE(index) << index.error().message;
    EXPECT_EQ(index->shape, c.shape);
    EXPECT_EQ(index->chunk, c.chunk);
    EXPECT_EQ(index->n_out_of_file, 0u);
    // The library takes long for many, and 1.10 numbers chunks wrongly where the unlimited axis is not the first: then the values decide.
    if (index->chunks.size() <= 3000 && c.unlimited != 1) {
      const auto expected = by_library(*dataset, *index);
      for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(index->chunks[i] == expected[i]) << i;
    }
  }
  const auto whole = read_dataset_bytes(path, "/d");
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_EQ(std::memcmp(whole->bytes.data(), values.data(), 2 * n), 0);
}

std::string case_name(const testing::TestParamInfo<IndexCase>& row) {
  return row.param.name;
}

const IndexCase kCases[] = {
    {"v1", false, IndexKind::btree_v1, {500, 3, 5}, {1, 3, 5}, "none", 0},
    {"v1_filtered", false, IndexKind::btree_v1, {1000, 7}, {3, 4}, "gzip", -1},
    {"single", true, IndexKind::single, {5, 7}, {5, 7}, "none", -1},
    {"single_filtered", true, IndexKind::single, {5, 7}, {5, 7}, "gzip", -1},
    {"fixed", true, IndexKind::fixed_array, {30, 7}, {1, 4}, "none", -1},
    {"fixed_filtered", true, IndexKind::fixed_array, {30, 7}, {4, 3}, "gzip", -1},
    {"fixed_paged", true, IndexKind::fixed_array, {1500, 2}, {1, 2}, "none", -1},
    {"fixed_paged_filtered", true, IndexKind::fixed_array, {2500, 3}, {1, 2}, "gzip", -1},
    {"extensible", true, IndexKind::extensible_array, {3, 100, 5}, {1, 1, 5}, "none", 0},
    {"extensible_second_axis", true, IndexKind::extensible_array, {3, 100, 5}, {1, 3, 5}, "none", 1},
    {"extensible_filtered", true, IndexKind::extensible_array, {1000, 4}, {1, 3}, "gzip", 0},
    {"extensible_paged", true, IndexKind::extensible_array, {140001, 1}, {1, 1}, "none", 0},
    {"v2", true, IndexKind::btree_v2, {30, 7}, {1, 2}, "none", 100},
    {"v2_deep", true, IndexKind::btree_v2, {1900, 4}, {1, 2}, "none", 100},
    {"v2_filtered", true, IndexKind::btree_v2, {700, 9}, {1, 2}, "gzip", 100},
};
INSTANTIATE_TEST_SUITE_P(Kinds, ChunkIndex, testing::ValuesIn(kCases), case_name);

// Chunks that were never written stay holes, in arrays with unwritten pages too.
ChunkIndexTask read_index(const std::filesystem::path& path, const LayoutMessage& layout, const ChunkedArray& array) {
  const RawFile file(path, 0);
  std::vector<ChunkIndexTask> tasks{{&file, layout, array, false, {}, {}, false}};
  read_chunk_indices(tasks);
  return std::move(tasks[0]);
}

TEST(Hdf5Index, C16_HolesOfEveryIndexKind) {
  for (const bool latest : {false, true})
    for (const int unlimited : {-1, 0}) {
      const Folder folder("holes");
      {
        support::Writer f(folder / "x.h5", latest);
        f.dataset("/d", std::vector<std::uint16_t>(3000 * 2, 1), {3000, 2},
                  {.codec = "none", .chunk = {1, 2}, .unlimited_axis = unlimited, .leave_out = [](const Dims& at) {
                     return at[0] % 1000 != 17;
                   }});
      }
      const Lock lock;
      auto file = open_file(folder / "x.h5");
      auto dataset = find_object(*file, "/d");
      const auto index = index_dataset(*dataset);
      ASSERT_TRUE(index) << index.error().message;
      ASSERT_EQ(index->chunks.size(), 3000u);
      for (std::size_t i = 0; i < 3000; ++i)
        EXPECT_EQ(index->chunks[i].present(), i % 1000 == 17) << i << latest << unlimited;
    }
}

// Every byte of the index damaged in turn: an error or a list inside the file, never a hang or a read outside.
TEST(Hdf5Index, L21_ADamagedIndexIsRefusedOrHarmless) {
  for (const bool latest : {false, true})
    for (const int unlimited : {-1, 0, 100}) {
      if (unlimited == 100 && !latest) continue;
      const Folder folder("damage");
      const auto path = folder / "x.h5";
      {
        support::Writer f(path, latest);
        f.dataset("/d", std::vector<std::uint16_t>(40 * 2, 1), {40, 2},
                  {.codec = "gzip", .chunk = {1, 2}, .unlimited_axis = unlimited == 100 ? 1 : unlimited});
      }
      std::ifstream in(path, std::ios::binary);
      const Bytes good((std::istreambuf_iterator<char>(in)), {});
      LayoutMessage layout;
      {
        const Lock lock;
        auto file = open_file(path);
        auto dataset = find_object(*file, "/d");
        H5O_info_t info;
        H5Oget_info2(dataset->id.get(), &info, H5O_INFO_BASIC);
        layout = *read_layout(RawFile(path, 0), info.addr);
      }
      const ChunkedArray array{
          {40, 2}, {unlimited == 0 ? kNoAddress : 40, unlimited == 100 ? kNoAddress : 2}, {1, 2}, {40, 1}, 40, 4, true};
      int refused = 0;
      for (std::size_t at = layout.address; at < std::min<std::size_t>(good.size(), layout.address + 200); ++at)
        for (const int flip : {0x01, 0xff}) {
          const auto put = [&](std::uint8_t byte) {
            std::fstream out(path, std::ios::binary | std::ios::in | std::ios::out);
            out.seekp(static_cast<std::streamoff>(at)).put(static_cast<char>(byte));
          };
          put(static_cast<std::uint8_t>(good[at] ^ flip));
          const ChunkIndexTask read = read_index(path, layout, array);
          refused += read.error.has_value();
          EXPECT_EQ(read.chunks.size(), 40u);
          put(good[at]);
        }
      EXPECT_GT(refused, 5) << latest << unlimited;
    }
}

// The keys of the root only say who may write at once: where they are wrong, every chunk is still found.
TEST(Hdf5Index, L21_KeysOfTheRootThatSayNothing) {
  const Folder folder("keys");
  const auto path = folder / "x.h5";
  constexpr std::uint64_t kChunks = 3000;
  {
    support::Writer f(path);
    support::DatasetForm form;
    form.codec = "none";
    form.chunk = {1, 2};
    f.dataset("/d", std::vector<std::uint16_t>(2 * kChunks, 7), {kChunks, 2}, form);
  }
  LayoutMessage layout;
  {
    const Lock lock;
    const auto file = open_file(path);
    ASSERT_TRUE(file);
    auto dataset = find_object(*file, "/d");
    H5O_info_t info;
    H5Oget_info2(dataset->id.get(), &info, H5O_INFO_BASIC);
    layout = *read_layout(RawFile(path, 0), info.addr);
  }
  const ChunkedArray array{{kChunks, 2}, {kChunks, 2}, {1, 2}, {kChunks, 1}, kChunks, 4, false};
  const ChunkIndexTask good = read_index(path, layout, array);
  ASSERT_FALSE(good.error);
  for (const std::uint64_t key : {std::uint64_t{0}, kChunks - 1, std::uint64_t{1} << 40}) {
    std::fstream out(path, std::ios::binary | std::ios::in | std::ios::out);
    char level = 0;
    out.seekg(static_cast<std::streamoff>(layout.address) + 5).get(level);
    ASSERT_GT(level, 0);
    for (int i = 0; i < 2; ++i)  // a head of 24 bytes; an entry: bytes and mask, row, column, element, child
      out.seekp(static_cast<std::streamoff>(layout.address) + 24 + 40 * i + 8)
          .write(reinterpret_cast<const char*>(&key), 8);
    out.close();
    const ChunkIndexTask read = read_index(path, layout, array);
    ASSERT_FALSE(read.error);
    for (std::uint64_t k = 0; k < kChunks; ++k) ASSERT_EQ(read.chunks[k].offset, good.chunks[k].offset) << k;
  }
}

TEST(Hdf5Index, L21_ABtreeThatPointsAtItselfEnds) {
  const Folder folder("loop");
  const auto path = folder / "x.h5";
  // Two nodes of level 1 and 1, then a level-1 node whose 64 children are one level-0 node without end.
  Bytes file(4096, 0);
  const auto put = [&](std::size_t at, std::uint64_t v, int n) {
    for (int i = 0; i < n; ++i) file[at + i] = static_cast<std::uint8_t>(v >> (8 * i));
  };
  const auto node = [&](std::size_t at, int level, int entries, std::uint64_t child) {
    std::memcpy(&file[at], "TREE", 4);
    file[at + 4] = 1;
    file[at + 5] = static_cast<std::uint8_t>(level);
    put(at + 6, entries, 2);
    for (int i = 0; i < entries; ++i) put(at + 24 + 40 * i + 32, child, 8);
  };
  const auto read = [&] {
    std::ofstream(path, std::ios::binary | std::ios::trunc).write(reinterpret_cast<const char*>(file.data()), 4096);
    LayoutMessage layout;
    layout.address = 0;
    return read_index(path, layout, {{4, 4}, {4, 4}, {1, 4}, {4, 1}, 4, 16, false}).error.value_or(Error{Code::io, ""});
  };
  node(0, 1, 2, 0);
  EXPECT_EQ(read().code, Code::corrupt_data);
  node(0, 3, 30, 1300);
  node(1300, 2, 30, 2600);
  node(2600, 1, 30, 0);  // 27,000 visits if nobody counted
  EXPECT_EQ(read().code, Code::corrupt_data);
  // 60,000 times the same long leaf: few nodes, but 140 GB of reading.
  const std::size_t leaf = 24 + 60000 * 40, all = leaf + 24 + 60000 * 40;
  file.assign(all, 0);
  node(0, 1, 60000, leaf);
  node(leaf, 0, 60000, 0);
  const auto start = std::chrono::steady_clock::now();
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(reinterpret_cast<const char*>(file.data()), static_cast<std::streamsize>(all));
  LayoutMessage layout;
  layout.address = 0;
  const ChunkIndexTask wide = read_index(path, layout, {{4, 4}, {4, 4}, {1, 4}, {4, 1}, 4, 16, false});
  ASSERT_TRUE(wide.error);
  EXPECT_EQ(wide.error->code, Code::corrupt_data);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
}

TEST(Hdf5Index, L21_AbsurdShapesTakeNoMemory) {
  const Folder folder("absurd");
  {
    support::Writer f(folder / "x.h5");
    const hid_t made = H5Pcreate(H5P_DATASET_CREATE);
    const hsize_t dims[] = {hsize_t{1} << 50, 2, 2}, chunk[] = {1, 2, 2};
    H5Pset_chunk(made, 3, chunk);
    const hid_t space = H5Screate_simple(3, dims, nullptr);
    H5Dclose(H5Dcreate2(f.id(), "/d", H5T_STD_U8LE, space, H5P_DEFAULT, made, H5P_DEFAULT));
    H5Sclose(space), H5Pclose(made);
  }
  const Lock lock;
  auto file = open_file(folder / "x.h5");
  auto dataset = find_object(*file, "/d");
  const auto index = index_dataset(*dataset);
  ASSERT_FALSE(index);
  EXPECT_EQ(index.error().code, Code::unsupported);
}

TEST(Hdf5File, LinksInACircleEnd) {
  const Folder folder("circle");
  {
    support::Writer f(folder / "x.h5");
    f.soft_link("/a", "/b");
    f.soft_link("/b", "/a");
    f.external_link("/c", "x.h5", "/c");
    f.external_link("/e", "y.h5", "/e");
    support::Writer g(folder / "y.h5");
    g.external_link("/e", "x.h5", "/e");
  }
  const Lock lock;
  auto file = open_file(folder / "x.h5");
  for (const char* path : {"/a", "/b", "/c", "/e"}) EXPECT_FALSE(find_object(*file, path)) << path;
}

TEST(Hdf5File, L26_ErrorsStayQuietAndSettingsComeBack) {
  unsigned before = 0, within = 1, after = 0;
  H5PLset_loading_state(H5PL_ALL_PLUGIN);
  H5PLget_loading_state(&before);
  {
    const Lock lock;
    H5PLget_loading_state(&within);
    EXPECT_FALSE(open_file("/nonexistent/x.h5"));
  }
  H5PLget_loading_state(&after);
  EXPECT_EQ(within, 0u);
  EXPECT_EQ(before, after);
}

}  // namespace
}  // namespace quantem::hdf5
