// The fast ingest makes the volume of the general path, to the last byte, whatever the chunks hold.

#include "quantem/io/load_fast.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <random>

#include "quantem/io/load.h"
#include "quantem/io/load_fast_source.h"
#include "quantem/io/load_run.h"
#include "quantem/io/save.h"

namespace quantem {
namespace {

namespace fs = std::filesystem;

// A file of chunks, in any order, some absent, and the container that says where they lie.
class ChunkFile {
 public:
  ChunkFile(const Shape4& shape, Dtype dtype, const char* name)
      : path_(fs::path(testing::TempDir()) / (std::string("quantem_load_fast_") + name + ".bin")) {
    container.path = path_;
    container.format = "hdf5";
    container.files = {path_};
    container.shape = shape;
    container.dtype = dtype;
    container.valid_pixels = BitMask(shape.frame_pixels(), true);
    container.n_stored = container.n_expected = shape.n_positions();
    Part part;
    part.dataset = "/entry/data/data";
    part.dtype = dtype;
    part.n_frames = shape.n_positions();
    part.shape = {shape.n_positions(), shape.det.rows, shape.det.cols};
    part.chunk = {1, shape.det.rows, shape.det.cols};
    part.filters = {Filter{32008, {0, 3, static_cast<std::uint32_t>(item_bytes(dtype)), 0, 2}}};
    part.chunks.resize(shape.n_positions());
    container.parts = {part};
  }
  ~ChunkFile() { fs::remove(path_); }

  std::vector<std::vector<std::byte>> chunks;  // as they shall be stored; an empty one is absent
  Container container;

  void write(std::uint32_t seed) {
    std::vector<std::size_t> order(chunks.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    if (seed % 2) std::shuffle(order.begin(), order.end(), std::mt19937(seed));
    std::ofstream out(path_, std::ios::binary);
    std::uint64_t at = 0;
    for (const std::size_t i : order) {
      if (chunks[i].empty()) continue;
      out.write(reinterpret_cast<const char*>(chunks[i].data()), static_cast<std::streamsize>(chunks[i].size()));
      container.parts[0].chunks[i].offset = at;
      container.parts[0].chunks[i].bytes = chunks[i].size();
      at += chunks[i].size();
    }
  }

 private:
  fs::path path_;
};

template <class T>
std::vector<T> random_frame(const Shape4& shape, std::mt19937_64& random) {
  std::vector<T> frame(shape.frame_pixels());
  for (T& v : frame) {
    const double u = static_cast<double>(random() >> 11) * 0x1p-53;
    v = static_cast<T>(-0.8 * std::log(1 - u));
    if (random() % 500 == 0) v = static_cast<T>(random());
    if (random() % 400 == 0) v = static_cast<T>(0xFFFFFFFFu);  // a marker, or saturated
  }
  return frame;
}

template <class T>
void fill(ChunkFile& file, std::uint32_t seed) {
  std::mt19937_64 random(seed);
  for (std::uint64_t i = 0; i < file.container.shape.n_positions(); ++i) {
    const auto frame = random_frame<T>(file.container.shape, random);
    encode_bslz4_chunk(std::as_bytes(std::span(frame)), sizeof(T), file.chunks.emplace_back());
  }
}

struct Loaded {
  Result<Volume> volume;
  bool fast;
};
Result<Volume> load_by(const Container& c, const LoadOptions& options, bool fast) {
  QUANTEM_TRY_ASSIGN(device, open_device(Backend::cpu));
  QUANTEM_TRY_ASSIGN(plan, plan_load(device, c, options));
  QUANTEM_TRY_ASSIGN(reader, FrameReader::open(c));
  const ContainerSource source(c, reader);
  std::unique_ptr<BlockEncoder> encoder;
  if (fast) encoder = fast_block_encoder(plan, c, reader);
  EXPECT_EQ(encoder != nullptr, fast);
  return run_load(device, plan, facts_of(c), source, encoder.get(), [] { return Result<Done>(Done{}); }, {});
}

void expect_same(const Container& c, const LoadOptions& options = {}) {
  const auto want = load_by(c, options, false), got = load_by(c, options, true);
  ASSERT_EQ(got.ok(), want.ok()) << (got ? want.error().message : got.error().message);
  if (!want) {
    EXPECT_EQ(got.error().message, want.error().message);
    EXPECT_EQ(got.error().code, want.error().code);
    return;
  }
  ASSERT_TRUE(got->sliced() && want->sliced());
  ASSERT_EQ(got->sliced()->n_blocks(), want->sliced()->n_blocks());
  for (std::uint64_t b = 0; b < want->sliced()->n_blocks(); ++b) {
    const Buffer &x = got->sliced()->block_bytes[b], &y = want->sliced()->block_bytes[b];
    ASSERT_EQ(x.n_bytes(), y.n_bytes()) << "block " << b;
    EXPECT_EQ(std::memcmp(x.data(), y.data(), y.n_bytes()), 0) << "block " << b;
  }
  const VolumeInfo &x = got->info(), &y = want->info();
  EXPECT_EQ(x.valid_positions, y.valid_positions);
  EXPECT_EQ(x.valid_pixels, y.valid_pixels);
  EXPECT_EQ(x.flagged, y.flagged);
  EXPECT_EQ(x.audit.count_min, y.audit.count_min);
  EXPECT_EQ(x.audit.count_max, y.audit.count_max);
  EXPECT_EQ(x.audit.max_position, y.audit.max_position);
  EXPECT_EQ(x.audit.max_pixel, y.audit.max_pixel);
  EXPECT_EQ(x.audit.n_values, y.audit.n_values);
  EXPECT_EQ(x.audit.n_nonzero, y.audit.n_nonzero);
  EXPECT_EQ(x.audit.n_above_255, y.audit.n_above_255);
  EXPECT_EQ(x.audit.n_above_65535, y.audit.n_above_65535);
  EXPECT_EQ(x.audit.n_saturated, y.audit.n_saturated);
  EXPECT_EQ(x.audit.n_flagged, y.audit.n_flagged);
  EXPECT_EQ(x.audit.digest, y.audit.digest);
  EXPECT_EQ(x.provenance.warnings, y.provenance.warnings);
  EXPECT_EQ(x.provenance.path, "cpu_load_planes");
}

TEST(LoadFast, C29_SameVolumeAsTheGeneralPath) {
  const Shape4 shapes[] = {{{1, 1}, {1, 1}}, {{27, 20}, {7, 9}}, {{5, 7}, {67, 71}}, {{3, 3}, {193, 191}}};
  std::uint32_t seed = 1;
  for (const Shape4& shape : shapes) {
    SCOPED_TRACE(to_string(shape));
    const auto check = [&]<class T>() {
      ChunkFile file(shape, dtype_of<T>(), "shapes");
      fill<T>(file, ++seed);
      file.write(seed);
      if (seed % 3 == 0)
        for (std::uint64_t p = 0; p < shape.frame_pixels(); p += 5) file.container.valid_pixels.set(p, false);
      expect_same(file.container);
    };
    check.operator()<std::uint8_t>();
    check.operator()<std::uint16_t>();
    check.operator()<std::uint32_t>();
  }
}

TEST(LoadFast, C6_C7_SerpentineFlybackAndScanRegion) {
  ChunkFile file({{24, 25}, {9, 17}}, Dtype::u16, "order");
  file.container.options.scan_order = ScanOrder::serpentine;
  fill<std::uint16_t>(file, 3);
  file.write(3);
  expect_same(file.container);
  LoadOptions options;
  options.scan_region = Region{1, 23, 2, 25};
  expect_same(file.container, options);
}

TEST(LoadFast, C14_MarkersInEveryWay) {
  ChunkFile file({{23, 29}, {11, 13}}, Dtype::u32, "markers");
  fill<std::uint32_t>(file, 8);
  file.write(8);
  LoadOptions options;
  for (const Flagged flagged : {Flagged::zero, Flagged::keep, Flagged::error}) {
    options.flagged = flagged;
    expect_same(file.container, options);
  }
}

TEST(LoadFast, C16_DamagedAndMissingFramesAreNamedAndTheOthersExact) {
  ChunkFile file({{23, 29}, {40, 40}}, Dtype::u16, "damaged");
  fill<std::uint16_t>(file, 4);
  file.chunks[3].clear();
  file.chunks[600].clear();
  file.chunks[7].resize(file.chunks[7].size() - 1);  // found while its length words are walked
  for (const std::size_t i : {20u, 21u, 555u})       // found when its LZ4 block is decoded
    std::memset(file.chunks[i].data() + file.chunks[i].size() / 2, 0xff, 20);
  file.chunks[30].resize(10);
  file.write(5);
  expect_same(file.container);  // missing="error"
  file.container.options.missing = Missing::mark;
  LoadOptions options;
  expect_same(file.container, options);
  options.flagged = Flagged::error;
  expect_same(file.container, options);
}

TEST(LoadFast, ChunksThatAreNotLikeTheOthers) {
  ChunkFile file({{9, 13}, {30, 31}}, Dtype::u16, "mixed");
  fill<std::uint16_t>(file, 6);
  std::mt19937_64 random(5);
  const auto frame = random_frame<std::uint16_t>(file.container.shape, random);
  const auto* bytes = reinterpret_cast<const std::byte*>(frame.data());
  file.chunks[5].assign(bytes, bytes + frame.size() * 2);  // stored as it is
  file.container.parts[0].chunks[5].filter_mask = 1;
  file.write(2);
  expect_same(file.container);
}

TEST(LoadFast, OtherCodecsOfBitshuffle) {
  ChunkFile file({{5, 5}, {10, 13}}, Dtype::u16, "none");  // no compressor: planes, then the tail as it is
  file.container.parts[0].filters[0].client = {0, 3, 2, 64, 0};
  std::mt19937_64 random(9);
  for (int i = 0; i < 25; ++i) {
    std::vector<std::byte>& chunk = file.chunks.emplace_back(130 * 2);
    for (std::byte& b : chunk) b = static_cast<std::byte>(random() % 3 ? 0 : random());
  }
  file.write(1);
  expect_same(file.container);
}

TEST(LoadFast, FramesOfOtherKindsAreTakenAsValues) {
  ChunkFile file({{23, 27}, {10, 13}}, Dtype::u32, "values");
  file.container.parts[0].filters.clear();
  file.container.parts[0].big_endian = true;
  std::mt19937_64 random(9);
  for (std::uint64_t i = 0; i < file.container.shape.n_positions(); ++i) {
    auto frame = random_frame<std::uint32_t>(file.container.shape, random);
    for (std::uint32_t& v : frame) v = __builtin_bswap32(v);
    const auto bytes = std::as_bytes(std::span(frame));
    file.chunks.emplace_back(bytes.begin(), bytes.end());
  }
  file.chunks[600].clear();
  file.container.options.missing = Missing::mark;
  file.write(7);
  expect_same(file.container);
}

}  // namespace
}  // namespace quantem
