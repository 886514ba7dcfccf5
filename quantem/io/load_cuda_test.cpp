// Loads onto a CUDA device against loads on the CPU: the same volume, stream by stream, and the same account of it.

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <thread>

#include "quantem/io/load.h"
#include "quantem/io/save.h"
#include "quantem/resident/dense_device.h"
#include "quantem/resident/sliced_device.h"
#include "quantem/runtime/cuda_load_area.h"
#include "tests/support/same_streams.h"
#include "tests/support/splitmix64.h"

namespace quantem {
namespace {

namespace fs = std::filesystem;

struct Source {
  Shape4 shape;
  std::vector<std::uint32_t> mask;
  BitMask valid_positions;
  bool markers = false;       // u32: some samples hold 0xFFFFFFFF
  bool tied = false;          // many samples hold the largest count
  std::uint64_t n_quiet = 0;  // frames of zeros before the first count
  std::uint64_t n_small = 0;  // frames before the first count of 29 or more, but for bad pixels
  std::uint64_t echo =
      0;  // from then on a pixel so far behind a bad one now and then has ones where the bad one has them
};

template <class T>
T count_of(const Source& s, std::uint64_t n, std::uint64_t p) {
  if (n < s.n_quiet) return 0;
  if (!s.mask.empty() && s.mask[p]) return std::numeric_limits<T>::max();  // as a detector writes bad pixels
  const std::uint64_t x = support::splitmix64(n * 1000003 + p);
  if constexpr (sizeof(T) == 4)
    if (s.markers && x % 5000 == 1) return 0xffffffffu;
  if (n >= s.n_small && s.echo && p >= s.echo && s.mask[p - s.echo] && n % 3 == 0)
    return static_cast<T>(std::numeric_limits<T>::max() << (n % 4 * sizeof(T)));
  if (n >= s.n_small && !s.tied && x >> 52 == 0 && !s.echo)
    return static_cast<T>((x >> 8) % std::numeric_limits<T>::max());
  return static_cast<T>(x % ((p / s.shape.det.cols + p % 5) % 7 == 0 ? 29 : 3));
}

class CudaSmallLoad : public ::testing::Test {
 protected:
  void SetUp() override {
    if (list_cuda_devices().devices.empty()) GTEST_SKIP() << "no CUDA device: " << list_cuda_devices().reason;
    DeviceOptions options;
    options.work_bytes = std::uint64_t{64} << 20;  // several slabs even here
    cuda_ = *open_device(Backend::cuda, 0, options);
    cpu_ = *open_device(Backend::cpu);
    context_ = *CudaContext::of(*cuda_);
    folder_ = fs::temp_directory_path() /
              ("quantem_load_cuda_" + std::to_string(::testing::UnitTest::GetInstance()->random_seed()) + "_" +
               std::to_string(counter_++));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  template <class T>
  fs::path write(const Source& s, std::uint64_t frames_per_file = 700) {
    ArinaSpec spec;
    spec.shape = s.shape;
    spec.dtype = dtype_of<T>();
    spec.frames_per_file = frames_per_file;
    spec.pixel_mask = s.mask;
    spec.valid_positions = s.valid_positions;
    const fs::path master = folder_ / ("x" + std::to_string(counter_++) + "_master.h5");
    const auto done = write_arina(master, spec, [&](std::uint64_t n, std::span<std::byte> out) -> Result<Done> {
      auto* v = reinterpret_cast<T*>(out.data());
      for (std::uint64_t p = 0; p < s.shape.frame_pixels(); ++p) v[p] = count_of<T>(s, n, p);
      return Done{};
    });
    EXPECT_TRUE(done) << (done ? "" : done.error().message);
    return master;
  }

  // Loads on both and compares; the path that the device load says it took comes back.
  std::string compare(const fs::path& master, const LoadOptions& options = {}, const OpenOptions& open = {}) {
    const auto container = inspect(master, open);
    EXPECT_TRUE(container) << container.error().message;
    const auto want = load(*cpu_, *container, options);
    const auto got = load(*cuda_, *container, options);
    EXPECT_EQ(bool(want), bool(got)) << (want ? got.error().message : want.error().message);
    if (!want || !got) {
      if (!want && !got) {
        EXPECT_EQ(want.error().code, got.error().code);
        EXPECT_EQ(want.error().message, got.error().message);
        return "refused";
      }
      return "";
    }
    EXPECT_EQ(want->audit().count_min, got->audit().count_min);
    EXPECT_EQ(want->audit().count_max, got->audit().count_max);
    EXPECT_EQ(want->audit().max_position, got->audit().max_position);
    EXPECT_EQ(want->audit().max_pixel, got->audit().max_pixel);
    EXPECT_EQ(want->audit().n_values, got->audit().n_values);
    EXPECT_EQ(want->audit().n_nonzero, got->audit().n_nonzero);
    EXPECT_EQ(want->audit().n_above_255, got->audit().n_above_255);
    EXPECT_EQ(want->audit().n_above_65535, got->audit().n_above_65535);
    EXPECT_EQ(want->audit().n_saturated, got->audit().n_saturated);
    EXPECT_EQ(want->audit().n_flagged, got->audit().n_flagged);
    EXPECT_EQ(want->audit().digest, got->audit().digest);
    EXPECT_EQ(want->valid_pixels(), got->valid_pixels());
    EXPECT_EQ(want->valid_positions(), got->valid_positions());
    EXPECT_EQ(want->info().flagged, got->info().flagged);
    EXPECT_EQ(want->provenance().warnings, got->provenance().warnings);
    if (got->sliced_device()) {
      const auto host = download_sliced(*context_, *got->sliced_device());
      EXPECT_TRUE(host);
      support::expect_same_streams(*want->sliced(), *host);
      return got->provenance().path;
    }
    EXPECT_EQ(got->representation(), Representation::dense);
    EXPECT_EQ(got->resident_bytes(), want->resident_bytes());
    EXPECT_EQ(got->info().n_nonfinite_samples, want->info().n_nonfinite_samples);
    std::vector<std::byte> counts(got->resident_bytes());
    EXPECT_TRUE(context_->copy_down(counts.data(), got->dense_device()->counts.data(), counts.size()));
    EXPECT_EQ(std::memcmp(counts.data(), want->dense()->counts.data(), counts.size()), 0);
    return got->provenance().path;
  }

  std::optional<Device> cuda_, cpu_;
  CudaContext* context_ = nullptr;
  fs::path folder_;
  static inline std::atomic<int> counter_ = 0;
};

TEST_F(CudaSmallLoad, u16TakesTheDecoderOnTheDevice) {
  EXPECT_EQ(compare(write<std::uint16_t>({{{27, 41}, {192, 192}}, {}, {}, false})), "cuda_load_planes");
  EXPECT_EQ(compare(write<std::uint16_t>({{{7, 73}, {13, 11}}, {}, {}, false})),
            "cuda_load_planes");  // one short block and a tail
  EXPECT_EQ(compare(write<std::uint16_t>({{{27, 19}, {96, 96}}, {}, {}, false})),
            "cuda_load_planes");  // a short block of whole words
  EXPECT_EQ(compare(write<std::uint16_t>({{{3, 7}, {193, 191}}, {}, {}, false})), "cuda_load_planes");
}
TEST_F(CudaSmallLoad, u8AndU32) {
  EXPECT_EQ(compare(write<std::uint8_t>({{{27, 41}, {192, 192}}, {}, {}, false})), "cuda_load_planes");
  EXPECT_EQ(compare(write<std::uint8_t>({{{5, 9}, {33, 40}}, {}, {}, false})), "cuda_load_planes");
  EXPECT_EQ(compare(write<std::uint32_t>({{{27, 41}, {96, 96}}, {}, {}, false})), "cuda_load_planes");
  EXPECT_EQ(compare(write<std::uint32_t>({{{5, 9}, {65, 63}}, {}, {}, false})), "cuda_load_planes");
}
TEST_F(CudaSmallLoad, TinyFramesTakeTheCpu) {
  EXPECT_EQ(compare(write<std::uint16_t>({{{1, 9}, {1, 7}}, {}, {}, false})), "cuda_load_frames");
  EXPECT_EQ(compare(write<std::uint16_t>({{{1, 1}, {1, 1}}, {}, {}, false})), "cuda_load_frames");
}
TEST_F(CudaSmallLoad, C12_BadPixelsAtTheLargestValue) {
  Source s{{{20, 60}, {192, 192}}, std::vector<std::uint32_t>(36864), {}, false};
  for (const std::uint64_t p : {5000, 14000, 23000}) s.mask[p] = 1;
  EXPECT_EQ(compare(write<std::uint16_t>(s)), "cuda_load_planes");
  LoadOptions raw;
  raw.apply_mask = false;
  EXPECT_EQ(compare(write<std::uint16_t>(s), raw), "cuda_load_planes");
}
// A bad pixel has a one in every plane and gets no room for them. Where LZ4 copies its bytes to a good pixel, those are not lost.
TEST_F(CudaSmallLoad, C12_GoodPixelsThatLookLikeBadOnes) {
  for (const std::uint64_t echo : {0, 8, 400, 4096 + 64}) {
    Source s{{{20, 30}, {64, 128}}, std::vector<std::uint32_t>(8192), {}, false};
    for (const std::uint64_t p : {1000, 2700}) s.mask[p] = 1;
    s.n_small = 512;
    s.echo = echo;
    EXPECT_EQ(compare(write<std::uint16_t>(s)), "cuda_load_planes") << echo;
  }
  Source s{{{20, 30}, {65, 63}}, std::vector<std::uint32_t>(4095), {}, false};  // a short block and a tail
  for (const std::uint64_t p : {300, 2100, 3000, 4090}) s.mask[p] = 1;
  s.n_small = 512;
  s.echo = 16;
  EXPECT_EQ(compare(write<std::uint8_t>(s)), "cuda_load_planes");
  EXPECT_EQ(compare(write<std::uint16_t>(s)), "cuda_load_planes");
  EXPECT_EQ(compare(write<std::uint32_t>(s)), "cuda_load_planes");
}
TEST_F(CudaSmallLoad, C14_SamplesWithoutAValue) {
  const fs::path master = write<std::uint32_t>({{{20, 60}, {64, 64}}, {}, {}, true});
  EXPECT_EQ(compare(master), "cuda_load_planes");
  LoadOptions options;
  options.flagged = Flagged::keep;
  EXPECT_EQ(compare(master, options), "cuda_load_planes");
  options.flagged = Flagged::error;
  EXPECT_EQ(compare(master, options), "refused");
}
TEST_F(CudaSmallLoad, C16_MissingFrames) {
  Source s{{{20, 60}, {64, 64}}, {}, BitMask(1200, true), false};
  for (const std::uint64_t n : {0, 511, 512, 600, 1199}) s.valid_positions.set(n, false);
  OpenOptions open;
  open.missing = Missing::mark;
  EXPECT_EQ(compare(write<std::uint16_t>(s), {}, open), "cuda_load_planes");
}
TEST_F(CudaSmallLoad, C6_SerpentineScan) {
  OpenOptions open;
  open.scan_order = ScanOrder::serpentine;
  EXPECT_EQ(compare(write<std::uint16_t>({{{20, 60}, {40, 33}}, {}, {}, false}), {}, open), "cuda_load_planes");
}
// The first of equal maxima is the first that was acquired: in a crop that begins with a row that ran backwards it is not the first position.
TEST_F(CudaSmallLoad, C10_EqualMaximaOfASerpentineScan) {
  OpenOptions open;
  open.scan_order = ScanOrder::serpentine;
  LoadOptions options;
  options.scan_region = Region{1, 19, 3, 57};
  EXPECT_EQ(compare(write<std::uint16_t>({{{20, 60}, {40, 33}}, {}, {}, false, true}), options, open),
            "cuda_load_planes");
}
// The first slabs size the windows of the decoder: a scan that begins in vacuum outgrows them, and nothing is lost.
TEST_F(CudaSmallLoad, AQuietBeginning) {
  Source s{{{27, 41}, {192, 192}}, {}, {}, false};
  for (const std::uint64_t n : {512, 1040}) {
    s.n_quiet = n;
    EXPECT_EQ(compare(write<std::uint16_t>(s)), "cuda_load_planes");
  }
}
TEST_F(CudaSmallLoad, TwoLoadsAtOnce) {
  const fs::path small = write<std::uint16_t>({{{20, 60}, {40, 33}}, {}, {}, false}),
                 large = write<std::uint16_t>({{{27, 41}, {192, 192}}, {}, {}, false});
  std::thread other([&] {
    for (int i = 0; i < 3; ++i) EXPECT_EQ(compare(small), "cuda_load_planes");
  });
  for (int i = 0; i < 3; ++i) EXPECT_EQ(compare(large), "cuda_load_planes");
  other.join();
}
TEST_F(CudaSmallLoad, AFullDeviceIsAnErrorAndTheNextLoadWorks) {
  const fs::path master = write<std::uint16_t>({{{20, 60}, {40, 33}}, {}, {}, false});
  EXPECT_EQ(compare(master), "cuda_load_planes");  // the work area is kept from here on
  const auto memory = context_->allocate(std::uint64_t{1} << 46, "a test");
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().code, Code::out_of_memory);
  EXPECT_NE(memory.error().message.find("needs 70368744177664 bytes"), std::string::npos) << memory.error().message;
  EXPECT_EQ(compare(master), "cuda_load_planes");
  release_load_area(cuda_->index());
  EXPECT_EQ(compare(master), "cuda_load_planes");
}
TEST_F(CudaSmallLoad, AProgressCallbackMayAskAnotherVolume) {
  const auto container = inspect(write<std::uint16_t>({{{20, 60}, {40, 33}}, {}, {}, false}));
  ASSERT_TRUE(container);
  const auto first = load(*cuda_, *container);
  ASSERT_TRUE(first);
  int asked = 0;
  Job job;
  job.on_progress = [&](const Progress&) { asked += read(*first, {0, 1, 0, 2}, whole(first->shape().det)).ok(); };
  EXPECT_TRUE(load(*cuda_, *container, {}, job));
  EXPECT_GT(asked, 0);
}
TEST_F(CudaSmallLoad, C23_CropsAndBins) {
  const fs::path master = write<std::uint16_t>({{{20, 60}, {40, 33}}, {}, {}, false});
  LoadOptions options;
  options.scan_region = Region{3, 17, 5, 60};
  EXPECT_EQ(compare(master, options), "cuda_load_planes");
  options.detector_region = Region{1, 39, 2, 32};
  EXPECT_EQ(compare(master, options), "cuda_load_frames");
  options.det_bin = {2, 3};
  options.scan_bin = {2, 1};
  EXPECT_EQ(compare(master, options), "cuda_load_frames");
}

// Every byte of a few chunks flipped, one at a time: the device refuses what the CPU refuses, and what both accept is equal.
TEST_F(CudaSmallLoad, DenseOnRequest) {
  LoadOptions dense;
  dense.representation = Representation::dense;
  EXPECT_EQ(compare(write<std::uint16_t>({{{27, 41}, {96, 96}}, {}, {}, false}), dense), "cuda_load_planes");
  EXPECT_EQ(compare(write<std::uint8_t>({{{5, 9}, {33, 40}}, {}, {}, false}), dense), "cuda_load_planes");
  EXPECT_EQ(compare(write<std::uint32_t>({{{7, 73}, {13, 11}}, {}, {}, true}), dense), "cuda_load_planes");
  dense.det_bin = {2, 3};
  dense.scan_region = Region{1, 20, 2, 33};
  EXPECT_EQ(compare(write<std::uint16_t>({{{27, 41}, {31, 44}}, {}, {}, false}), dense), "cuda_load_frames");
}
TEST_F(CudaSmallLoad, DtypesThatAreNeverEncoded) {
  const Shape4 shape{{27, 41}, {13, 11}};
  std::vector<float> floats(shape.n_values());
  std::vector<std::int16_t> integers(shape.n_values());
  for (std::size_t i = 0; i < floats.size(); ++i) {
    const std::uint64_t x = support::splitmix64(i);
    floats[i] = x % 97 == 0 ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(x % 1000) / 8 - 50;
    integers[i] = static_cast<std::int16_t>(x);
  }
  const auto written = [&](const char* name, Dtype dtype, const void* values) {
    const fs::path file = folder_ / name;
    EXPECT_TRUE(write_npy(file, ArrayView{dtype, {27, 41, 13, 11}, values}));
    return file;
  };
  EXPECT_EQ(compare(written("f.npy", Dtype::f32, floats.data())), "cuda_load_frames");
  EXPECT_EQ(compare(written("i.npy", Dtype::i16, integers.data())), "cuda_load_frames");
}
TEST_F(CudaSmallLoad, L21_DamagedChunks) {
  const Source s{{{8, 80}, {48, 48}}, {}, {}, false};
  const fs::path master = write<std::uint16_t>(s, 10000);
  const auto container = inspect(master);
  ASSERT_TRUE(container);
  const Part& part = container->parts[0];
  {
    std::fstream file(container->files[part.file], std::ios::in | std::ios::out | std::ios::binary);
    for (std::uint64_t k = 0; k < part.chunks.size(); k += 2) {
      const std::uint64_t at = part.chunks[k].offset + support::splitmix64(k) % part.chunks[k].bytes;
      file.seekg(static_cast<std::streamoff>(at));
      const char byte = static_cast<char>(file.get() ^ (1 << support::splitmix64(k + 7) % 8));
      file.seekp(static_cast<std::streamoff>(at));
      file.put(byte);
    }
  }
  OpenOptions open;
  open.missing = Missing::mark;
  EXPECT_EQ(compare(master, {}, open), "cuda_load_planes");
  EXPECT_EQ(compare(master), "refused");
}

}  // namespace
}  // namespace quantem
