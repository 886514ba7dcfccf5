// Opening a file of arbitrary bytes and reading a few frames. The first byte chooses: 0, the rest is the file; otherwise one of the small
// HDF5 files made at the start (every chunk index, filters, masks, links, virtual, EMD), and the rest are edits of it: four bytes
// each, a place (two bytes), what to do, a value. Wanted: refused, or answers within the file, in bounded memory and time.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "quantem/io/dataset_bytes.h"
#include "quantem/io/frame_reader.h"
#include "tests/support/hdf5_writer.h"

using namespace quantem;
namespace fs = std::filesystem;

namespace {

using support::Bytes;

struct Bench {
  support::Folder folder{"fuzz"};
  std::vector<Bytes> files;

  void keep(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    files.emplace_back((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  }
  Bench() {
    const auto frames = support::const_frames(6, 5, 4);
    for (const bool latest : {false, true})
      for (const char* codec : {"bslz4", "lz4", "gzip", "none", "contiguous", "compact"})
        for (const int unlimited : {-1, 0}) {
          if (unlimited == 0 && (codec[0] == 'c')) continue;
          const fs::path path = folder / "seed.h5";
          {
            support::Writer f(path, latest);
            f.dataset("/entry/data/data", frames, {6, 5, 4}, {.codec = codec, .unlimited_axis = unlimited});
            f.attribute<std::uint64_t>("/entry/data/data", "image_nr_low", {1}, true);
            f.dataset<std::uint32_t>("/entry/instrument/detector/detectorSpecific/pixel_mask",
                                     std::vector<std::uint32_t>(20, 1), {5, 4}, {.codec = "contiguous"});
            f.scalar<std::uint64_t>("/entry/instrument/detector/detectorSpecific/ntrigger", 6);
          }
          keep(path);
        }
    for (const bool latest : {false, true}) {
      const fs::path path = folder / "seed.h5";
      {
        support::Writer f(path, latest, latest ? 512 : 0);
        f.dataset("/cubes/cube/data", frames, {2, 3, 5, 4},
                  {.codec = "gzip", .chunk = {2, 2, 3, 3}, .partial_unfiltered = latest});
        f.attribute<std::int32_t>("/cubes/cube", "emd_group_type", {1}, true);
        f.dataset<double>("/cubes/cube/dim1", {0.0, 2.0}, {2}, {.codec = "contiguous"});
        f.text_attribute("/cubes/cube/dim1", "units", {"[n_m]"}, true);
      }
      keep(path);
      {
        support::Writer f(path, latest);
        f.dataset("/frames", frames, {6, 5, 4}, {.codec = "lz4"});
        f.soft_link("/entry/data/data_000001", "/frames");
        f.external_link("/entry/data/data_000002", "absent.h5", "/entry/data/data");
        f.virtual_dataset("/other", H5T_STD_U16LE, {4, 5, 4},
                          {{".", "/frames", {6, 5, 4}, {2, 0, 0}, {0, 0, 0}, {4, 5, 4}, {}}});
      }
      keep(path);
    }
  }
};

Bytes file_of(const std::uint8_t* data, std::size_t n, const std::vector<Bytes>& files) {
  const std::size_t choice = data[0] % (files.size() + 1);
  if (choice == 0) return {data + 1, data + n};
  Bytes file = files[choice - 1];
  for (std::size_t i = 1; i + 4 <= n && !file.empty(); i += 4) {
    const std::size_t at = (data[i] | data[i + 1] << 8) % file.size();
    const std::uint8_t value = data[i + 3];
    switch (data[i + 2] % 6) {
      case 0:
        file[at] = value;
        break;
      case 1:
        file[at] = static_cast<std::uint8_t>(file[at] ^ value);
        break;
      case 2:
        std::fill_n(file.begin() + static_cast<std::ptrdiff_t>(at), std::min<std::size_t>(8, file.size() - at), value);
        break;
      case 3:
        file[at] = static_cast<std::uint8_t>(file[at] + 1);
        break;
      case 4:
        if (value < 16) file.resize(at);
        break;
      default:
        std::copy_n(file.begin() + static_cast<std::ptrdiff_t>(at), std::min<std::size_t>(value, file.size() - at),
                    file.begin());
        break;
    }
  }
  return file;
}

void must(bool good) {
  if (!good) std::abort();
}

}  // namespace

// libhdf5 loses memory of its own on some damaged files; ours is still looked for.
extern "C" const char* __lsan_default_suppressions() {
  return "leak:libhdf5\n";
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t n) {
  static Bench bench;
  if (n == 0) return 0;
  const Bytes file = file_of(data, n, bench.files);
  const fs::path path = bench.folder / "x_master.h5";
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(reinterpret_cast<const char*>(file.data()), static_cast<std::streamsize>(file.size()));
  OpenOptions options;
  options.missing = data[0] & 1 ? Missing::mark : Missing::error;
  if (n % 3 == 0) options.dataset_path = "/other";
  const auto c = inspect(path, options);
  if (c) {
    std::uint64_t next = 0;
    for (const Part& part : c->parts) {  // parts follow one another, ranges lie inside the file
      must(part.first_frame >= next);
      next = part.first_frame + part.n_frames;
      must(part.file < c->files.size());
      for (const ByteRange& range : part.chunks)
        must(!range.present() || part.file != 0 ||
             (range.offset <= file.size() && range.bytes <= file.size() - range.offset));
    }
    must(c->valid_pixels.count() == c->shape.frame_pixels() || c->not_ready);
    const auto reader = FrameReader::open(*c);
    if (reader && c->shape.frame_pixels() <= kMaxFramePixels) {
      FrameReader::Scratch scratch;
      std::vector<std::byte> out(c->shape.frame_pixels() * item_bytes(c->dtype));
      for (std::uint64_t p = 0; p < std::min<std::uint64_t>(c->shape.n_positions(), 4); ++p)
        (void)reader->read_frame(c->frame_of(p), out, scratch);
    }
  }
  if (const auto paths = list_datasets(path, 100))
    for (std::size_t i = 0; i < std::min<std::size_t>(paths->size(), 4); ++i)
      (void)read_dataset_bytes(path, (*paths)[i], 1 << 20);
  return 0;
}
