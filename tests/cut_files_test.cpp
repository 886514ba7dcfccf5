// Files whose copy stopped early (field case L06): strict refuses with both sizes; marking loads what is whole, exactly.

#include <gtest/gtest.h>

#include "quantem/io/hdf5_file.h"
#include "quantem/io/load.h"
#include "tests/support/hdf5_writer.h"
#include "tests/support/open.h"

namespace quantem {
namespace {
using namespace support;

constexpr std::uint64_t kSide = 16, kPixels = kSide * kSide;

std::vector<std::uint16_t> noise(std::uint64_t frames) {
  std::vector<std::uint16_t> v(frames * kPixels);
  std::uint32_t state = 1;
  for (auto& x : v) x = static_cast<std::uint16_t>((state = state * 1664525u + 1013904223u) >> 20);
  return v;
}

// Sums of the frames that `kept` says, in the order of the scan.
template <class Kept>
Sums sums_of(const std::vector<std::uint16_t>& frames, Kept kept) {
  Sums sums(frames.size() / kPixels);
  for (std::size_t k = 0; k < sums.size(); ++k) {
    if (!kept(k)) continue;
    sums[k] = 0;
    for (std::size_t p = 0; p < kPixels; ++p) *sums[k] += frames[k * kPixels + p];
  }
  return sums;
}

struct Form {
  bool latest = false;
  int unlimited = -1;
  const char* codec = "bslz4";
};

// x_master.h5 with x_data_000001.h5 of `n` frames in the given form, and one whole part of 4 frames behind it.
fs::path write_set(const fs::path& folder, const std::vector<std::uint16_t>& frames, const Form& form) {
  const std::uint64_t n = frames.size() / kPixels, first = n - 4;
  const auto split = frames.begin() + static_cast<std::ptrdiff_t>(first * kPixels);
  {
    Writer f(folder / "x_data_000001.h5", form.latest);
    f.dataset("/entry/data/data", std::vector(frames.begin(), split), {first, kSide, kSide},
              {.codec = form.codec, .unlimited_axis = form.unlimited});
  }
  write_part(folder / "x_data_000002.h5", std::vector(split, frames.end()), 4, kSide, kSide, first + 1, {}, false);
  Writer m(folder / "x_master.h5", form.latest);
  m.scalar<std::uint64_t>("/entry/instrument/detector/detectorSpecific/ntrigger", n);
  m.external_link("/entry/data/data_000001", "x_data_000001.h5", "/entry/data/data");
  m.external_link("/entry/data/data_000002", "x_data_000002.h5", "/entry/data/data");
  return folder / "x_master.h5";
}

OpenOptions marking(std::uint64_t frames) {
  return scan(1, static_cast<std::uint32_t>(frames), Missing::mark);
}

// Positions that load() marks as missing.
std::uint64_t marked_by_load(const Container& c) {
  const auto device = open_device(Backend::cpu, 0, {});
  const auto volume = load(*device, c);
  EXPECT_TRUE(volume) << volume.error().message;
  return volume ? volume->valid_positions().count() - volume->valid_positions().n_set() : 0;
}

std::uint64_t index_address(const fs::path& path) {
  const hdf5::Lock lock;
  const auto file = hdf5::open_file(path);
  const auto dataset = hdf5::find_object(*file, "/entry/data/data");
  H5O_info_t info;
  H5Oget_info2(dataset->id.get(), &info, H5O_INFO_BASIC);
  return hdf5::read_layout(*(*file)->raw, info.addr)->address;
}

TEST(CutFiles, L06_FramesBeforeTheCutAreExact) {
  constexpr std::uint64_t kFrames = 60;
  const auto frames = noise(kFrames);
  for (const Form& form : {Form{false, 0}, Form{false, -1}, Form{true, 0}, Form{true, -1}, Form{false, 0, "none"},
                           Form{false, -1, "contiguous"}, Form{true, -1, "contiguous"}}) {
    const Folder folder("cut");
    const fs::path master = write_set(folder.path(), frames, form), data = folder / "x_data_000001.h5";
    const std::uint64_t whole = fs::file_size(data);
    const Container c = open(master, marking(kFrames));
    ASSERT_EQ(c.n_missing, 0u);
    const bool contiguous = c.parts[0].chunk.empty();
    for (const std::uint64_t k : {40u, 7u, 1u}) {
      const ByteRange range = c.parts[0].chunks[contiguous ? 0 : k];
      const std::uint64_t cut = contiguous ? range.offset + k * 2 * kPixels + kPixels : range.offset + range.bytes / 2;
      fs::resize_file(data, cut);
      const Container marked = open(master, marking(kFrames));
      EXPECT_EQ(sum_image(marked), sums_of(frames, [&](std::size_t f) { return f < k || f >= kFrames - 4; }))
          << form.codec << form.latest << form.unlimited << " cut in frame " << k;
      EXPECT_EQ(marked.n_missing, kFrames - 4 - k);
      EXPECT_EQ(marked_by_load(marked), kFrames - 4 - k);
      EXPECT_TRUE(warns(marked, "x_data_000001.h5 is cut off: it has " + std::to_string(cut) + " bytes"));
      EXPECT_FALSE(marked.not_ready);
      const Error strict = refusal(master, scan(1, kFrames));
      EXPECT_EQ(strict.code, Code::missing_data);
      EXPECT_HOLDS(strict.message,
                   "it has " + std::to_string(cut) + " bytes and its HDF5 header says " + std::to_string(whole));
    }
  }
}

TEST(CutFiles, L06_AnIndexBeyondTheCutIsAnAbsentFile) {
  constexpr std::uint64_t kFrames = 20;
  const auto frames = noise(kFrames);
  for (const Form& form : {Form{false, 0}, Form{true, 0}, Form{true, -1}}) {
    const Folder folder("cut");
    const fs::path master = write_set(folder.path(), frames, form), data = folder / "x_data_000001.h5";
    const std::uint64_t cut = index_address(data) + 4;
    fs::resize_file(data, cut);
    const Container marked = open(master, marking(kFrames));
    EXPECT_EQ(sum_image(marked), sums_of(frames, [&](std::size_t f) { return f >= kFrames - 4; })) << form.latest;
    EXPECT_EQ(marked.n_missing, kFrames - 4);
    EXPECT_EQ(marked_by_load(marked), kFrames - 4);
    EXPECT_HOLDS(marked.parts[0].absent_reason, "x_data_000001.h5 is cut off: it has " + std::to_string(cut));
    EXPECT_EQ(refusal(master, scan(1, kFrames)).code, Code::missing_data);
  }
}

// An index of many nodes, some of them beyond the cut: their frames are missing, the others exact.
TEST(CutFiles, L06_TheEndOfALongIndexIsLost) {
  constexpr std::uint64_t kFrames = 600;
  const auto frames = noise(kFrames);
  for (const Form& form : {Form{false, 0}, Form{true, 0}, Form{true, -1}}) {
    const Folder folder("cut");
    const fs::path master = write_set(folder.path(), frames, form), data = folder / "x_data_000001.h5";
    const ByteRange range = open(master, marking(kFrames)).parts[0].chunks[500];
    fs::resize_file(data, range.offset + 3);
    const Container marked = open(master, marking(kFrames));
    std::uint64_t kept = 0;
    while (kept < 500 && marked.part_of(kept)) ++kept;
    EXPECT_GT(kept, 400u) << form.latest;
    EXPECT_EQ(sum_image(marked), sums_of(frames, [&](std::size_t f) { return f < kept || f >= kFrames - 4; }));
    EXPECT_EQ(marked.n_missing, kFrames - 4 - kept);
    EXPECT_TRUE(kept == 500 || warns(marked, "the list of its chunks ends with the file"));
  }
}

TEST(CutFiles, L06_FramesInsideACutMaster) {
  constexpr std::uint64_t kFrames = 30;
  const auto frames = noise(kFrames);
  for (const char* codec : {"bslz4", "contiguous"}) {
    const Folder folder("cut");
    const fs::path path = folder / "x_master.h5";
    {
      Writer f(path);
      f.scalar<std::uint64_t>("/entry/instrument/detector/detectorSpecific/ntrigger", kFrames);
      f.dataset("/entry/data/data_000001", frames, {kFrames, kSide, kSide}, {.codec = codec});
    }
    const ByteRange range = open(path, marking(kFrames)).parts[0].chunks[codec[0] == 'c' ? 0 : 12];
    const std::uint64_t cut = range.offset + (codec[0] == 'c' ? 12 * 2 * kPixels : 0) + 10;
    fs::resize_file(path, cut);
    const Container marked = open(path, marking(kFrames));
    EXPECT_EQ(sum_image(marked), sums_of(frames, [](std::size_t f) { return f < 12; })) << codec;
    EXPECT_EQ(marked.n_missing, kFrames - 12);
    EXPECT_TRUE(warns(marked, "x_master.h5 is cut off"));
    EXPECT_HOLDS(refusal(path, scan(1, kFrames)).message, "it has " + std::to_string(cut) + " bytes");
    fs::resize_file(path, 700);  // not even its groups
    EXPECT_EQ(refusal(path, marking(kFrames)).code, Code::missing_data);
    EXPECT_HOLDS(refusal(path, marking(kFrames)).message, "it has 700 bytes");
  }
}

TEST(CutFiles, L06_ASourceOfAVirtualDatasetIsCut) {
  constexpr std::uint64_t kFrames = 20;
  const auto frames = noise(kFrames);
  const Folder folder("cut");
  const fs::path master = folder / "x_master.h5", data = folder / "x_data_000001.h5";
  write_set(folder.path(), frames, {});
  {
    Writer f(master);
    f.virtual_dataset(
        "/entry/data/data", H5T_STD_U16LE, {kFrames, kSide, kSide},
        {{"x_data_000001.h5", "/entry/data/data", {16, kSide, kSide}, {0, 0, 0}, {0, 0, 0}, {16, kSide, kSide}, {}},
         {"x_data_000002.h5", "/entry/data/data", {4, kSide, kSide}, {0, 0, 0}, {16, 0, 0}, {4, kSide, kSide}, {}}});
  }
  const std::uint64_t index = index_address(data);
  fs::resize_file(data, open(master, marking(kFrames)).parts[0].chunks[5].offset + 1);
  EXPECT_EQ(sum_image(open(master, marking(kFrames))), sums_of(frames, [](std::size_t f) { return f < 5 || f > 15; }));
  fs::resize_file(data, index + 1);
  EXPECT_EQ(sum_image(open(master, marking(kFrames))), sums_of(frames, [](std::size_t f) { return f > 15; }));
  EXPECT_EQ(refusal(master, scan(1, kFrames)).code, Code::missing_data);
}

// A virtual dataset that starts behind the place where its contiguous source is cut: an empty range inside the file, all its frames missing.
TEST(CutFiles, L06_AVirtualDatasetStartsBehindTheCut) {
  constexpr std::uint64_t kFrames = 12;
  const auto frames = noise(20);
  const Folder folder("cut");
  const fs::path master = folder / "x_master.h5", data = folder / "x_data_000001.h5";
  write_set(folder.path(), frames, {.codec = "contiguous"});
  {
    Writer f(master);
    f.virtual_dataset(
        "/entry/data/data", H5T_STD_U16LE, {kFrames, kSide, kSide},
        {{"x_data_000001.h5", "/entry/data/data", {16, kSide, kSide}, {8, 0, 0}, {0, 0, 0}, {8, kSide, kSide}, {}},
         {"x_data_000002.h5", "/entry/data/data", {4, kSide, kSide}, {0, 0, 0}, {8, 0, 0}, {4, kSide, kSide}, {}}});
  }
  const std::vector<std::uint16_t> used(frames.begin() + 8 * kPixels, frames.end());
  const std::uint64_t start = open(master, marking(kFrames)).parts[0].chunks[0].offset - 8 * 2 * kPixels;
  for (const std::uint64_t whole : {10, 8, 3}) {  // frames of the source before the cut
    fs::resize_file(data, start + whole * 2 * kPixels + (whole == 8 ? 0 : 5));
    const Container marked = open(master, marking(kFrames));
    const ByteRange range = marked.parts[0].chunks[0];
    EXPECT_LE(range.offset + range.bytes, fs::file_size(data)) << whole;
    EXPECT_EQ(sum_image(marked), sums_of(used, [&](std::size_t f) { return f + 8 < whole || f >= 8; })) << whole;
  }
}

}  // namespace
}  // namespace quantem
