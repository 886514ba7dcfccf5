// Field cases of group 1, storage: chunks, filters, edges, hostile sizes, the user's environment. Inputs are written here.

#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>

#include <cstdlib>
#include <numeric>
#include <random>
#include <set>
#include <thread>

#include "quantem/io/read_file.h"
#include "tests/support/hdf5_writer.h"
#include "tests/support/open.h"

namespace quantem {
namespace {
using namespace support;

template <class T>
std::vector<T> ramp(std::size_t n) {
  std::vector<T> v(n);
  std::iota(v.begin(), v.end(), T{0});
  return v;
}

Sums sums_of_ramp(std::int64_t frames, std::int64_t pixels) {
  Sums s;
  for (std::int64_t k = 0; k < frames; ++k) s.emplace_back(pixels * (k * pixels) + pixels * (pixels - 1) / 2);
  return s;
}

TEST(Storage, L14_AChunkIsABoxOfTheArray) {
  const Folder folder("L14");
  const std::vector<std::uint16_t> values = ramp<std::uint16_t>(1600);
  const Sums expected = sums_of_ramp(25, 64);
  EXPECT_EQ(expected.front(), 2016);
  EXPECT_EQ(expected.back(), 100320);
  int i = 0;
  for (const bool latest : {false, true})
    for (const Dims& chunk : {Dims{1, 1, 8, 8}, {1, 2, 8, 8}, {3, 2, 8, 8}, {2, 2, 3, 5}, {5, 5, 8, 8}, {4, 1, 8, 8}})
      for (const char* codec : {"bslz4", "gzip", "none", "lz4"})
        for (const int unlimited : {-1, 0, 1}) {
          const fs::path path = folder / ("x" + std::to_string(i++) + ".h5");
          {
            Writer f(path, latest);
            f.dataset("/entry/data/data", values, {5, 5, 8, 8},
                      {.codec = codec, .chunk = chunk, .unlimited_axis = unlimited});
          }
          const Container c = open(path);
          ASSERT_FALSE(c.not_ready) << c.not_ready->message;
          EXPECT_EQ(c.shape, (Shape4{{5, 5}, {8, 8}}));
          EXPECT_EQ(c.scan_shape_origin, Origin::file);
          EXPECT_EQ(sum_image(c), expected) << codec << " " << i;
          EXPECT_EQ(c.parts[0].one_frame_per_chunk(), (chunk == Dims{1, 1, 8, 8})) << i;
          const auto frames = read_positions(c);
          EXPECT_EQ(frames[7].values[13], 7 * 64 + 13);
          EXPECT_EQ(frames[24].values[63], 1599);
        }
  for (const char* codec : {"contiguous", "compact"}) {
    const fs::path path = folder / (std::string(codec) + ".h5");
    {
      Writer f(path);
      f.dataset("/entry/data/data", values, {5, 5, 8, 8}, {.codec = codec});
    }
    EXPECT_EQ(ready_sums(path), expected);
  }
}

TEST(Storage, L14_PartialEdgeChunksLeftUnfiltered) {
  const Folder folder("L14");
  const std::vector<std::uint16_t> values = ramp<std::uint16_t>(7 * 13 * 11);
  {
    Writer f(folder / "x.h5", true);
    f.dataset("/entry/data/data", values, {7, 13, 11},
              {.codec = "gzip", .chunk = {2, 5, 4}, .partial_unfiltered = true});
  }
  EXPECT_EQ(ready_sums(folder / "x.h5", scan(1, 7)), sums_of_ramp(7, 143));
}

TEST(Storage, L14_AUserBlockAndBigEndianValues) {
  const Folder folder("L14");
  const std::vector<std::uint16_t> values = ramp<std::uint16_t>(6 * 9 * 5);
  int i = 0;
  for (const bool latest : {false, true})
    for (const char* codec : {"gzip", "none", "contiguous"}) {
      const fs::path path = folder / ("x" + std::to_string(i++) + ".h5");
      {
        Writer f(path, latest, 2048);
        f.dataset("/entry/data/data", values, {6, 9, 5}, {.codec = codec, .type = H5T_STD_U16BE});
      }
      const Container c = open(path, scan(2, 3));
      ASSERT_FALSE(c.not_ready) << c.not_ready->message;
      EXPECT_TRUE(c.parts[0].big_endian);
      EXPECT_EQ(sum_image(c), sums_of_ramp(6, 45)) << codec << latest;
    }
}

TEST(Storage, L14_EachChunkHasItsFilterMask) {
  const Folder folder("L14");
  // Bit 0 set: the only filter was left out for the odd frames.
  const fs::path master = write_arina_set(
      folder.path(), const_frames(25, 8, 8), {25}, 8, 8,
      {.dataset = {.encode = [](const Bytes& raw, const Dims& at) { return at[0] % 2 ? raw : bslz4_chunk(raw, 2); },
                   .filter_mask = [](const Dims& at) { return static_cast<std::uint32_t>(at[0] % 2); }}});
  EXPECT_EQ(ready_sums(master), ramp_sums(25));
}

TEST(Storage, C16_AChunkThatWasNeverWrittenIsMissing) {
  for (const bool latest : {false, true}) {
    const Folder folder("C16");
    {
      Writer f(folder / "x.h5", latest);
      f.dataset("/entry/data/data", const_frames(9, 8, 8, 1), {9, 8, 8},
                {.fill = 0, .unlimited_axis = latest ? -1 : 0, .leave_out = [](const Dims& at) {
                   return at[0] == 4 || at[0] == 8;
                 }});
    }
    Sums expected = ramp_sums(9, 64, 1);
    expected[4].reset();
    expected[8].reset();
    OpenOptions mark;
    mark.missing = Missing::mark;
    const Container c = open(folder / "x.h5", mark);
    EXPECT_EQ(c.n_missing, 2u);
    EXPECT_EQ(sum_image(c), expected) << "the fill value is never data";
    EXPECT_HOLDS(refusal(folder / "x.h5").message, "7 of 9 frames present, first missing (1, 1)");
  }
}

template <class T>
void last_elements(std::uint64_t h, std::uint64_t w) {
  const Folder folder("L16");
  std::vector<T> v(h * w);
  std::int64_t sum = 0, tail = 0;
  for (std::size_t i = 0; i < v.size(); ++i) {
    const std::uint64_t n = 7919 * i % 65521;
    v[i] = static_cast<T>(sizeof(T) == 1 ? n % 251 : n);
    sum += v[i];
    if (v.size() > 1489 && i >= v.size() - 1489) tail += v[i];
  }
  write_part(folder / "x.h5", v, 1, h, w, 1, {});
  const Container c = open(folder / "x.h5");
  ASSERT_FALSE(c.not_ready) << c.not_ready->message;
  EXPECT_EQ(c.shape, (Shape4{{1, 1}, {static_cast<std::uint32_t>(h), static_cast<std::uint32_t>(w)}}));
  const auto frame = read_positions(c)[0];
  ASSERT_FALSE(frame.fault) << frame.fault->reason;
  EXPECT_EQ(frame.sum(), sum);
  EXPECT_TRUE(std::equal(v.begin(), v.end(), frame.values.begin(), frame.values.end())) << h << "x" << w;
  if (h == 743) {
    EXPECT_EQ(frame.sum(), 15748407488);
    EXPECT_EQ(tail, 48833502);
    EXPECT_EQ(std::vector<std::int64_t>(frame.values.end() - 9, frame.values.end()),
              (std::vector<std::int64_t>{53749, 61668, 4066, 11985, 19904, 27823, 35742, 43661, 51580}));
  }
}

TEST(Storage, L16_TheRemainderIsData) {
  last_elements<std::uint16_t>(743, 647);
  for (const std::uint64_t n : {1, 9, 16, 17, 33}) {
    last_elements<std::uint8_t>(n, n);
    last_elements<std::uint16_t>(n, n);
    last_elements<std::uint32_t>(n, n);
  }
}

TEST(Storage, L18_PlainLz4HasItsOwnFraming) {
  const Folder folder("L18");
  std::vector<std::uint16_t> v = const_frames(4, 32, 32);
  std::mt19937 random(7);
  std::int64_t last = 0;
  for (std::size_t i = 3 * 1024; i < v.size(); ++i) last += v[i] = static_cast<std::uint16_t>(random() % 65535);
  Sums expected = ramp_sums(3, 1024);
  expected.emplace_back(last);
  EXPECT_EQ(ready_sums(write_arina_set(folder.path(), v, {4}, 32, 32, {.codecs = {"lz4"}})), expected);
}

TEST(Storage, L19_EveryPartSaysHowItIsStored) {
  const Folder folder("L19");
  const auto four = write_arina_set(folder / "a", const_frames(20, 8, 8), {5, 5, 5, 5}, 8, 8,
                                    {.codecs = {"bslz4", "lz4", "gzip", "none"}});
  EXPECT_EQ(ready_sums(four, scan(4, 5)), ramp_sums(20));
  const auto mixed = write_arina_set(folder / "b", const_frames(15, 8, 8), {5, 5, 5}, 8, 8);
  write_part(folder / "b/x_data_000002.h5", const_frames<std::uint32_t>(5, 8, 8, 5), 5, 8, 8, 6,
             {.codec = "gzip", .type = H5T_STD_U32BE});
  write_part(folder / "b/x_data_000003.h5", const_frames<std::uint8_t>(5, 8, 8, 10), 5, 8, 8, 11, {});
  const Container c = open(mixed, scan(3, 5));
  EXPECT_EQ(c.dtype, Dtype::u32);
  EXPECT_EQ(sum_image(c), ramp_sums(15));
  // Signed beside unsigned is refused with the part's name.
  write_part(folder / "b/x_data_000002.h5", const_frames<std::int16_t>(5, 8, 8, 5), 5, 8, 8, 6, {});
  EXPECT_HOLDS(refusal(mixed, scan(3, 5)).message, "x_data_000002.h5");
  // So is a part of another detector size.
  write_part(folder / "b/x_data_000002.h5", const_frames(5, 4, 16, 5), 5, 4, 16, 6, {});
  EXPECT_EQ(refusal(mixed, scan(3, 5)).code, Code::corrupt_data);
}

TEST(Storage, L21_EveryLengthIsAClaim) {
  const auto put = [](std::size_t at, std::uint64_t value, int n) {
    return [=](Bytes raw) {
      for (int i = 0; i < n; ++i) raw[at + i] = static_cast<std::uint8_t>(value >> (8 * (n - 1 - i)));
      return raw;
    };
  };
  const auto tail = [](std::vector<int> bytes) {
    return [=](Bytes raw) {
      raw.resize(12);
      put_be(raw, 8, 4);
      for (const int b : bytes) raw.push_back(static_cast<std::uint8_t>(b));
      return raw;
    };
  };
  const std::vector<std::pair<const char*, std::function<Bytes(Bytes)>>> edits = {
      {"decoded size 2^40", put(0, std::uint64_t{1} << 40, 8)},
      {"block size 0", put(8, 0, 4)},
      {"block size odd", put(8, 8190, 4)},
      {"block length past the end", put(12, 1 << 20, 4)},
      {"match offset 0", tail({0x1f, 5, 0, 0, 255, 255, 255, 0})},
      {"match before the start", tail({0x1f, 5, 255, 0, 255, 255, 255, 0})},
      {"cut by 3", [](Bytes raw) { return Bytes(raw.begin(), raw.end() - 3); }},
  };
  for (const auto& [name, edit] : edits) {
    const Folder folder("L21");
    const auto master = write_arina_set(folder.path(), const_frames(4, 32, 32), {4}, 32, 32,
                                        {.dataset = {.encode = [&](const Bytes& raw, const Dims& at) {
                                           return at[0] == 2 ? edit(bslz4_chunk(raw, 2)) : bslz4_chunk(raw, 2);
                                         }}});
    const auto frames = read_positions(open(master));
    ASSERT_EQ(frames.size(), 4u);
    ASSERT_TRUE(frames[2].fault) << name;
    EXPECT_FALSE(frames[2].fault->missing);
    EXPECT_HOLDS(frames[2].fault->reason, "x_data_000001.h5: /entry/data/data frame 2: ");
    for (const std::size_t k : {0, 1, 3}) EXPECT_EQ(frames[k].sum(), 1024 * static_cast<std::int64_t>(k)) << name;
  }
}

TEST(Storage, L22_NoPluginIsEverAsked) {
  const Folder folder("L22");
  const auto master = write_arina_set(folder.path(), const_frames(25, 8, 8), {10, 10, 5}, 8, 8);
  {
    Writer f(folder / "zfp.h5");
    f.dataset("/entry/data/data", const_frames(4, 8, 8), {4, 8, 8},
              {.codec = "32013", .encode = [](const Bytes& raw, const Dims&) { return raw; }});
  }
  ::setenv("HDF5_PLUGIN_PATH", "/nonexistent", 1);
  EXPECT_EQ(ready_sums(master), ramp_sums(25));
  ::unsetenv("HDF5_PLUGIN_PATH");
  const Error error = refusal(folder / "zfp.h5");
  EXPECT_EQ(error.code, Code::unsupported);
  EXPECT_HOLDS(error.message, "32013");
  EXPECT_HOLDS(error.message, "ZFP");
}

TEST(Storage, L26_LookingTakesNoLockAndLeavesNothing) {
  const Folder folder("L26");
  const auto master = write_arina_set(folder.path(), const_frames(25, 8, 8), {10, 10, 5}, 8, 8);
  int ready[2], done[2];
  ASSERT_EQ(::pipe(ready), 0);
  ASSERT_EQ(::pipe(done), 0);
  const pid_t child = ::fork();
  if (child == 0) {  // holds exclusive locks until told to go
    for (const char* name : {"x_master.h5", "x_data_000001.h5"})
      if (::flock(::open((folder / name).c_str(), O_RDONLY), LOCK_EX) != 0) ::_exit(1);
    char byte = 'r';
    if (::write(ready[1], &byte, 1) != 1 || ::read(done[0], &byte, 1) != 1) ::_exit(2);
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  std::set<std::string> before, after;
  for (const auto& entry : fs::directory_iterator(folder.path())) before.insert(entry.path().filename());
  fs::permissions(folder.path(), fs::perms::owner_read | fs::perms::owner_exec);
  fs::permissions(master, fs::perms::owner_read);
  EXPECT_EQ(ready_sums(master), ramp_sums(25));
  fs::permissions(folder.path(), fs::perms::owner_all);
  for (const auto& entry : fs::directory_iterator(folder.path())) after.insert(entry.path().filename());
  EXPECT_EQ(before, after);
  ASSERT_EQ(::write(done[1], &byte, 1), 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(Storage, L27_TwoReadersShareNothing) {
  const Folder folder("L27");
  const auto master = write_arina_set(folder.path(), const_frames(25, 8, 8), {10, 10, 5}, 8, 8);
  auto first = FrameReader::open(open(master));
  ASSERT_TRUE(first);
  {
    auto second = FrameReader::open(open(master));
    ASSERT_TRUE(second);
  }
  FrameReader::Scratch scratch;
  std::vector<std::byte> out(128);
  EXPECT_FALSE(first->read_frame(24, out, scratch)) << "still valid after the other was closed";
  std::vector<std::thread> threads;
  std::vector<Sums> sums(4);
  for (auto& s : sums)
    threads.emplace_back([&s, &master] {
      for (int i = 0; i < 5; ++i) s = sum_image(*inspect(master));
    });
  for (auto& t : threads) t.join();
  for (const auto& s : sums) EXPECT_EQ(s, ramp_sums(25));
}

TEST(Storage, M06_OffsetsAbove2To32AndShortReads) {
  const Folder folder("M06");
  const fs::path path = folder / "x.h5";
  constexpr std::uint64_t kFrames = 4200, kPixels = 1 << 20;
  {
    Writer f(path);
    f.group("/entry/data");
    const hid_t made = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_alloc_time(made, H5D_ALLOC_TIME_EARLY);
    H5Pset_fill_time(made, H5D_FILL_TIME_NEVER);
    const hsize_t dims[] = {kFrames, 1024, 1024}, one[] = {1, 1024, 1024};
    const hid_t space = H5Screate_simple(3, dims, nullptr), memory = H5Screate_simple(3, one, nullptr);
    const hid_t d = H5Dcreate2(f.id(), "/entry/data/data", H5T_STD_U8LE, space, H5P_DEFAULT, made, H5P_DEFAULT);
    for (const std::uint64_t k : {std::uint64_t{2050}, kFrames - 1}) {
      const hsize_t start[] = {k, 0, 0};
      H5Sselect_hyperslab(space, H5S_SELECT_SET, start, nullptr, one, nullptr);
      const std::vector<std::uint8_t> frame(kPixels, static_cast<std::uint8_t>(k % 251));
      H5Dwrite(d, H5T_STD_U8LE, memory, space, H5P_DEFAULT, frame.data());
    }
    H5Dclose(d);
    H5Sclose(space);
    H5Sclose(memory);
    H5Pclose(made);
  }
  const Container c = open(path, scan(42, 100));
  ASSERT_FALSE(c.not_ready) << c.not_ready->message;
  auto reader = FrameReader::open(c);
  ASSERT_TRUE(reader);
  FrameReader::Scratch scratch;
  std::vector<std::byte> out(kPixels);
  for (const std::uint64_t k : {std::uint64_t{2050}, kFrames - 1, std::uint64_t{4100}}) {
    ASSERT_FALSE(reader->read_frame(k, out, scratch));
    const auto value = static_cast<std::byte>(k == 4100 ? 0 : k % 251);
    EXPECT_TRUE(std::all_of(out.begin(), out.end(), [&](std::byte b) { return b == value; })) << k;
  }
  // A system that gives 7 bytes at a time.
  const auto file = ReadOnlyFile::open(path);
  ASSERT_TRUE(file);
  std::vector<std::byte> by_seven(1000), at_once(1000);
  const std::uint64_t near_end = c.identity[0].bytes - 1000;
  ASSERT_TRUE(file->read(near_end, by_seven, 7));
  ASSERT_TRUE(file->read(near_end, at_once));
  EXPECT_EQ(by_seven, at_once);
  const auto past = file->read(near_end + 1, at_once);
  ASSERT_FALSE(past);
  EXPECT_EQ(past.error().code, Code::io);
}

TEST(Storage, C9_OtherTypesAreRefusedWithTheConversion) {
  const Folder folder("C9");
  const auto expect = [&]<class T>(T, const char* type, const char* conversion, hid_t stored = -1) {
    const fs::path path = folder / (std::string(type) + ".h5");
    {
      Writer f(path);
      f.dataset("/entry/data/data", std::vector<T>(64, T{1}), {1, 8, 8}, {.codec = "contiguous", .type = stored});
    }
    const Error error = refusal(path);
    EXPECT_EQ(error.code, Code::unsupported) << type;
    EXPECT_HOLDS(error.message, type);
    EXPECT_HOLDS(error.message, conversion);
  };
  expect(std::int64_t{}, "int64", "int32");
  expect(std::uint64_t{}, "uint64", "uint32");
  expect(double{}, "float64", "float32");
  expect(std::int8_t{}, "int8", "int16");
  const Folder ok("C9");
  {
    Writer f(ok / "x.h5");
    std::vector<std::int16_t> v(64, 0);
    v[9] = -5;
    v[18] = 10;
    f.dataset("/entry/data/data", v, {1, 8, 8}, {.codec = "gzip"});
  }
  EXPECT_EQ(open(ok / "x.h5").dtype, Dtype::i16);
  EXPECT_EQ(ready_sums(ok / "x.h5"), Sums{5});  // V16
}

}  // namespace
}  // namespace quantem
