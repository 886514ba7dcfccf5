// .npy and raw files: headers, sizes, refusals, writing.

#include "quantem/io/npy.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <numeric>

#include "quantem/io/frame_reader.h"
#include "quantem/io/raw.h"
#include "quantem/io/save.h"

namespace quantem {
namespace {

class NpyFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("quantem-npy-" + std::to_string(::getpid()) +
                                                        testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }
  // A version 1.0 file around a dict literal, as other programs write it.
  std::filesystem::path write_dict(const std::string& dict, std::size_t data_bytes, int version = 1) const {
    std::string b = "\x93NUMPY";
    b += static_cast<char>(version);
    b += '\0';
    for (int i = 0; i < (version == 1 ? 2 : 4); ++i) b += static_cast<char>(dict.size() >> (8 * i));
    return write("a.npy", b + dict + std::string(data_bytes, '\1'));
  }
  [[nodiscard]] std::size_t n_files() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(folder_), std::filesystem::directory_iterator{}));
  }
  std::filesystem::path folder_;
};

TEST_F(NpyFiles, C8_RanksAndTwins) {
  for (const int version : {1, 2, 3}) {
    const auto c =
        inspect_npy(write_dict("{'descr': '>u2', 'fortran_order': False, 'shape': (6, 3, 5), }\n", 180, version));
    ASSERT_TRUE(c) << c.error().message;
    EXPECT_FALSE(c->not_ready) << c->not_ready->message;
    EXPECT_EQ(c->dtype, Dtype::u16);
    EXPECT_EQ(c->n_stored, 6u);
    EXPECT_EQ(c->shape.det, (Extent{3, 5}));
    ASSERT_EQ(c->parts.size(), 1u);
    EXPECT_TRUE(c->parts[0].big_endian);
    EXPECT_EQ(c->parts[0].frame_stride_bytes, 30u);
    ASSERT_EQ(c->parts[0].chunks.size(), 1u);
    EXPECT_EQ(c->parts[0].chunks[0].offset + 180, c->identity[0].bytes);
    EXPECT_EQ(c->parts[0].chunks[0].bytes, 180u);
    EXPECT_EQ(c->valid_pixels.n_set(), 15u);
  }
  const auto four = inspect_npy(write_dict("{\"shape\":(2L,3L,4L,5L),\"fortran_order\":False,\"descr\":\"|u1\"}", 120));
  ASSERT_TRUE(four) << four.error().message;
  EXPECT_EQ(four->shape, (Shape4{{2, 3}, {4, 5}}));
  const auto two = inspect_npy(write_dict("{'descr': '<f4', 'fortran_order': False, 'shape': (4, 5)}", 80));
  ASSERT_TRUE(two) << two.error().message;
  EXPECT_EQ(two->n_stored, 1u);
  EXPECT_EQ(two->dtype, Dtype::f32);
}

TEST_F(NpyFiles, C81_RefusalsSayWhatToDo) {
  const auto refusal = [&](const std::string& dict, std::size_t bytes) -> Error {
    const auto c = inspect_npy(write_dict(dict, bytes));
    if (!c) return c.error();
    return c->not_ready ? *c->not_ready : Error{Code::internal, "was accepted"};
  };
  const auto expect = [&](const std::string& dict, std::size_t bytes, Code code, const std::string& text) {
    const Error e = refusal(dict, bytes);
    EXPECT_EQ(e.code, code) << dict << ": " << e.message;
    EXPECT_NE(e.message.find(text), std::string::npos) << dict << ": " << e.message;
  };
  expect("{'descr': '<u2', 'fortran_order': True, 'shape': (6, 3, 5)}", 180, Code::unsupported, "ascontiguousarray");
  expect("{'descr': '<f8', 'fortran_order': False, 'shape': (6, 3, 5)}", 720, Code::unsupported, "astype('float32')");
  expect("{'descr': '<i8', 'fortran_order': False, 'shape': (6, 3, 5)}", 720, Code::unsupported, "'<i8'");
  expect("{'descr': '|O', 'fortran_order': False, 'shape': (6, 3, 5)}", 720, Code::unsupported, "object");
  expect("{'descr': [('a', '<u2'), ('b', '<u2')], 'fortran_order': False, 'shape': (6, 3, 5)}", 360, Code::unsupported,
         "structured");
  expect("{'descr': '<u2', 'fortran_order': False, 'shape': (6,)}", 12, Code::unsupported, "1 dimensions");
  expect("{'descr': '<u2', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1)}", 2, Code::unsupported, "5 dimensions");
  expect("{'descr': '<u2', 'fortran_order': False, 'shape': (0, 3, 5)}", 0, Code::invalid_argument, "no elements");
  expect("{'descr': '<u2', 'fortran_order': False, 'shape': (6, 3, 5)}", 181, Code::corrupt_data,
         "something else follows");
  expect("{'descr': '<u2', 'fortran_order': False, 'shape': (6, 3, 5)}", 179, Code::missing_data, "5 of 6 frames");
  expect("{'descr': '<u2', 'fortran_order': False, 'shape': (99999999999999999999, 3, 5)}", 30, Code::corrupt_data,
         "2^64");
  expect("{'descr': '<u2', 'fortran_order': False, 'shape': (9999999999999, 9999999, 4, 4)}", 30, Code::corrupt_data,
         "2^64");
  expect("{'descr': '<u2', 'fortran_order': False, 'shape': (1, 9999999, 9999999)}", 30, Code::unsupported, "pixels");
  expect("{'descr': '<u2', 'shape': (6, 3, 5)}", 180, Code::corrupt_data, "fortran_order");
  expect("{'descr': '<u2', 'fortran_order': False, 'shape': (6, 3, 5)", 0, Code::corrupt_data, "','");
  expect("", 180, Code::corrupt_data, "'{'");
  EXPECT_EQ(inspect_npy(write("b.npy", "not numpy")).error().code, Code::corrupt_data);
  EXPECT_EQ(inspect_npy(write("b.npy", std::string("\x93NUMPY\1\0\xff\xff{", 11))).error().code, Code::corrupt_data);
  EXPECT_EQ(inspect_npy(write("b.npy", std::string("\x93NUMPY\4\0\1\0{", 11))).error().code, Code::unsupported);
  EXPECT_EQ(inspect_npy(folder_ / "absent.npy").error().code, Code::io);
}

TEST_F(NpyFiles, C16_ACutFileHasItsWholeFrames) {
  OpenOptions options;
  options.missing = Missing::mark;
  const auto c =
      inspect_npy(write_dict("{'descr': '<u2', 'fortran_order': False, 'shape': (2, 3, 3, 5)}", 149), options);
  ASSERT_TRUE(c);
  EXPECT_FALSE(c->not_ready && c->not_ready->code != Code::missing_data);
  EXPECT_EQ(c->n_stored, 4u);
  EXPECT_EQ(c->n_expected, 6u);
  EXPECT_EQ(c->shape.scan, (Extent{2, 3}));
  EXPECT_EQ(c->parts[0].chunks[0].bytes, 120u);
}

TEST_F(NpyFiles, WrittenAsNumpyWrites) {
  const std::uint64_t shape[] = {2, 3, 4, 5};
  const std::string header = npy_header(Dtype::u16, shape);
  EXPECT_EQ(header.size(), 128u);
  EXPECT_EQ(header.substr(10, 70), "{'descr': '<u2', 'fortran_order': False, 'shape': (2, 3, 4, 5), }     ");
  EXPECT_EQ(header.back(), '\n');
  const std::uint64_t one[] = {7};
  EXPECT_NE(npy_header(Dtype::f64, one).find("'<f8', 'fortran_order': False, 'shape': (7,), }"), std::string::npos);
}

TEST_F(NpyFiles, C91_AppearsCompleteOrNotAtAll) {
  const std::vector<float> image = {1, 2, 3, 4, 5, 6};
  const ArrayView view{Dtype::f32, {2, 3}, image.data()};
  const auto path = folder_ / "bild \xc3\xa4.npy";
  ASSERT_TRUE(write_npy(path, view));
  const auto again = write_npy(path, view);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::io);
  EXPECT_NE(again.error().message.find("exists"), std::string::npos);
  ASSERT_TRUE(write_npy(path, view, true));
  EXPECT_EQ(std::filesystem::file_size(path), 128u + 24);
  std::ifstream in(path, std::ios::binary);
  in.seekg(128);
  std::vector<float> back(6);
  in.read(reinterpret_cast<char*>(back.data()), 24);
  EXPECT_EQ(back, image);
  EXPECT_EQ(write_npy(folder_ / "absent" / "a.npy", view).error().code, Code::io);

  const Shape4 shape{{7, 11}, {5, 3}};
  const FrameProvider provider = [](std::uint64_t k, std::span<std::byte> out) -> Result<Done> {
    for (std::uint16_t i = 0; i < 15; ++i) {
      const auto v = static_cast<std::uint16_t>(k * 15 + i);
      std::memcpy(out.data() + 2 * i, &v, 2);
    }
    return Done{};
  };
  const auto four = write_npy(folder_ / "four.npy", shape, Dtype::u16, provider);
  ASSERT_TRUE(four) << four.error().message;
  EXPECT_EQ(four->logical_bytes, 77u * 30);
  const auto c = inspect_npy(folder_ / "four.npy");
  ASSERT_TRUE(c);
  EXPECT_EQ(c->shape, shape);
  std::ifstream data(folder_ / "four.npy", std::ios::binary);
  data.seekg(static_cast<std::streamoff>(c->parts[0].chunks[0].offset));
  std::vector<std::uint16_t> values(77 * 15), expected(77 * 15);
  data.read(reinterpret_cast<char*>(values.data()), 77 * 30);
  std::iota(expected.begin(), expected.end(), std::uint16_t{0});
  EXPECT_EQ(values, expected);

  const std::size_t before = n_files();
  const FrameProvider failing = [](std::uint64_t k, std::span<std::byte>) -> Result<Done> {
    if (k == 40) return Error{Code::corrupt_data, "frame 40"};
    return Done{};
  };
  EXPECT_EQ(write_npy(folder_ / "failed.npy", shape, Dtype::u16, failing).error().message, "frame 40");
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(
      write_npy(folder_ / "cancelled.npy", shape, Dtype::u16, provider, false, {{}, stop.get_token()}).error().code,
      Code::cancelled);
  EXPECT_EQ(n_files(), before);
}

TEST_F(NpyFiles, C22_FramesOfBigEndianAndRawFilesAreRead) {
  std::string data;
  for (int k = 0; k < 6 * 15; ++k) data += {static_cast<char>(k >> 8), static_cast<char>(1000 - 7 * k)};
  const std::string dict = "{'descr': '>u2', 'fortran_order': False, 'shape': (2, 3, 3, 5)}";
  const auto npy =
      write("a.npy", std::string("\x93NUMPY\1\0", 8) + static_cast<char>(dict.size()) + '\0' + dict + data);
  std::string gaps = "head";
  for (int f = 0; f < 6; ++f) gaps += data.substr(static_cast<std::size_t>(f) * 30, 30) + "gap";
  OpenOptions options;
  options.raw = RawLayout{Dtype::u16, {3, 5}, 4, 3, true};
  options.scan_shape = Extent{2, 3};
  for (const auto& opened : {inspect(npy), inspect(write("a.raw", gaps), options)}) {
    ASSERT_TRUE(opened) << opened.error().message;
    ASSERT_FALSE(opened->not_ready) << opened->not_ready->message;
    EXPECT_EQ(opened->shape, (Shape4{{2, 3}, {3, 5}}));
    const auto reader = FrameReader::open(*opened);
    ASSERT_TRUE(reader);
    FrameReader::Scratch scratch;
    for (std::uint64_t f = 0; f < 6; ++f) {
      std::vector<std::uint16_t> frame(15);
      ASSERT_FALSE(reader->read_frame(f, std::as_writable_bytes(std::span(frame)), scratch));
      for (std::size_t p = 0; p < 15; ++p) {
        const auto* at = reinterpret_cast<const unsigned char*>(data.data()) + 2 * (f * 15 + p);
        ASSERT_EQ(frame[p], at[0] << 8 | at[1]) << f << " " << p;
      }
    }
  }
}

TEST_F(NpyFiles, RawLayoutsFitOrAreRefused) {
  OpenOptions options;
  const auto path = write("a.raw", std::string(16 + 6 * (30 + 4), '\2'));
  EXPECT_EQ(inspect_raw(path, options).error().code, Code::invalid_argument);
  options.raw = RawLayout{Dtype::u16, {3, 5}, 16, 4, true};
  const auto c = inspect_raw(path, options);
  ASSERT_TRUE(c) << c.error().message;
  EXPECT_EQ(c->n_stored, 6u);
  EXPECT_EQ(c->parts[0].frame_stride_bytes, 34u);
  EXPECT_EQ(c->parts[0].chunks[0].offset, 16u);
  EXPECT_EQ(c->parts[0].chunks[0].bytes, 5u * 34 + 30);
  EXPECT_TRUE(c->parts[0].big_endian);
  options.raw->gap_bytes = 5;
  const auto refused = inspect_raw(path, options);
  ASSERT_TRUE(refused);
  ASSERT_TRUE(refused->not_ready);
  EXPECT_EQ(refused->not_ready->code, Code::invalid_argument);
  options.raw->gap_bytes = ~std::uint64_t{0};
  EXPECT_TRUE(inspect_raw(path, options)->not_ready);
  options.raw = RawLayout{Dtype::u16, {3, 5}, 1000, 0, false};
  EXPECT_TRUE(inspect_raw(path, options)->not_ready);
}

// Field case L06 for raw files: only a scan of more positions tells a cut file from a wrong layout.
TEST_F(NpyFiles, L06_ACutRawFileKeepsItsWholeFrames) {
  const auto path = write("a.raw", std::string(4 * 30 + 7, '\3'));
  OpenOptions options;
  options.raw = RawLayout{Dtype::u16, {3, 5}, 0, 0, false};
  options.missing = Missing::mark;
  EXPECT_TRUE(inspect(path, options)->not_ready);
  options.scan_shape = Extent{2, 2};
  EXPECT_TRUE(inspect(path, options)->not_ready);
  options.scan_shape = Extent{2, 3};
  const auto marked = inspect(path, options);
  ASSERT_TRUE(marked);
  ASSERT_FALSE(marked->not_ready) << marked->not_ready->message;
  EXPECT_EQ(marked->n_stored, 4u);
  EXPECT_EQ(marked->n_missing, 2u);
  EXPECT_EQ(marked->warnings.at(0),
            "a.raw is cut off: 4 whole frames of a scan of (2, 3), and 7 bytes of another; copy it again");
  options.missing = Missing::error;
  EXPECT_NE(inspect(path, options)->not_ready->message.find("loads what is whole"), std::string::npos);
}

}  // namespace
}  // namespace quantem
