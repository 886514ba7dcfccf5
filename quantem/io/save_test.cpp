// Arina-layout sets as written: what libhdf5 sees in them, what our decoder makes of their chunks, and that failures leave nothing.

#include "quantem/io/save.h"

#include <gtest/gtest.h>
#define H5_USE_110_API
#include <hdf5.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <mutex>

#include "quantem/io/container.h"
#include "quantem/io/filters.h"
#include "quantem/io/frame_reader.h"

namespace quantem {
namespace {

namespace fs = std::filesystem;

std::uint32_t value_of(std::uint64_t position, std::uint64_t pixel) {
  return static_cast<std::uint32_t>((position * 7919 + pixel * pixel) % 65521 % (pixel % 5 == 0 ? 65521 : 3));
}
template <class T>
FrameProvider provider() {
  return [](std::uint64_t position, std::span<std::byte> out) -> Result<Done> {
    for (std::size_t p = 0; p < out.size() / sizeof(T); ++p) {
      const T v = static_cast<T>(value_of(position, p));
      std::memcpy(out.data() + p * sizeof(T), &v, sizeof(T));
    }
    return Done{};
  };
}

class SaveArina : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("quantem-save-" + std::to_string(::getpid()) +
                                           testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder_);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
  void TearDown() override { fs::remove_all(folder_); }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }
  fs::path folder_;
};

struct Dataset {
  hid_t file, id;
  Dataset(const fs::path& path, const char* name)
      : file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT)), id(H5Dopen2(file, name, H5P_DEFAULT)) {}
  ~Dataset() {
    H5Dclose(id);
    H5Fclose(file);
  }
  template <class T>
  std::vector<T> attribute(const char* name, std::size_t n) const {
    std::vector<T> values(n);
    const hid_t a = H5Aopen(id, name, H5P_DEFAULT);
    EXPECT_GE(a, 0) << name;
    H5Aread(a, H5T_NATIVE_UINT64, values.data());
    H5Aclose(a);
    return values;
  }
};

template <class T>
void check_frames(const fs::path& path, std::uint64_t first, std::uint64_t n, Extent det, std::uint64_t missing) {
  const Dataset d(path, "/entry/data/data");
  ASSERT_GE(d.id, 0);
  const hid_t space = H5Dget_space(d.id), create = H5Dget_create_plist(d.id), type = H5Dget_type(d.id);
  hsize_t shape[3], most[3], chunk[3];
  ASSERT_EQ(H5Sget_simple_extent_dims(space, shape, most), 3);
  EXPECT_EQ(shape[0], n);
  EXPECT_EQ(shape[1], det.rows);
  EXPECT_EQ(shape[2], det.cols);
  EXPECT_EQ(most[0], H5S_UNLIMITED);
  EXPECT_EQ(H5Pget_chunk(create, 3, chunk), 3);
  EXPECT_EQ(chunk[0], 1u);
  EXPECT_EQ(H5Tget_size(type), sizeof(T));
  unsigned flags = 0, client[8] = {}, config = 0;
  std::size_t n_client = 8;
  char name[8] = {};
  EXPECT_EQ(H5Pget_nfilters(create), 1);
  EXPECT_EQ(H5Pget_filter2(create, 0, &flags, &n_client, client, 8, name, &config), 32008);
  ASSERT_EQ(n_client, 5u);
  EXPECT_EQ((std::vector<unsigned>(client, client + 5)), (std::vector<unsigned>{0, 3, sizeof(T), 0, 2}));
  std::uint32_t fill = 0;
  H5Pget_fill_value(create, type, &fill);
  EXPECT_EQ(static_cast<T>(fill), static_cast<T>(~T{0}));
  EXPECT_EQ(d.attribute<std::uint64_t>("image_nr_low", 1)[0], first + 1);
  EXPECT_EQ(d.attribute<std::uint64_t>("image_nr_high", 1)[0], first + n);
  EXPECT_EQ(d.attribute<std::uint64_t>("scan_shape", 2), (std::vector<std::uint64_t>{3, 7}));
  DecodeScratch scratch;
  for (std::uint64_t k = 0; k < n; ++k) {
    const hsize_t at[3] = {k, 0, 0};
    hsize_t bytes = 0;
    const bool stored = H5Dget_chunk_storage_size(d.id, at, &bytes) >= 0 && bytes > 0;
    EXPECT_EQ(stored, first + k != missing);
    if (!stored) continue;
    std::vector<std::byte> packed(bytes);
    std::uint32_t mask = 9;
    ASSERT_GE(H5Dread_chunk(d.id, H5P_DEFAULT, at, &mask, packed.data()), 0);
    EXPECT_EQ(mask, 0u);
    std::vector<T> values(det.count());
    const ChunkFault fault = decode_chunk(packed, {{32008, {0, 3, sizeof(T), 0, 2}}}, 0, sizeof(T),
                                          std::as_writable_bytes(std::span(values)), scratch);
    ASSERT_TRUE(fault.ok()) << describe(fault);
    for (std::size_t p = 0; p < values.size(); ++p) ASSERT_EQ(values[p], static_cast<T>(value_of(first + k, p)));
  }
  H5Tclose(type);
  H5Pclose(create);
  H5Sclose(space);
}

TEST_F(SaveArina, L01_SetsAreWrittenAsTheDetectorDoes) {
  const Shape4 shape{{3, 7}, {33, 51}};
  for (const Dtype dtype : {Dtype::u8, Dtype::u16, Dtype::u32}) {
    ArinaSpec spec;
    spec.shape = shape;
    spec.dtype = dtype;
    spec.frames_per_file = 8;
    spec.overwrite = dtype != Dtype::u8;
    spec.voltage_kV = 300;
    spec.saturation_value = 8352;
    spec.pixel_mask.assign(shape.frame_pixels(), 0);
    spec.pixel_mask[5] = 2;
    spec.valid_positions = BitMask(21, true);
    spec.valid_positions.set(9, false);
    spec.metadata = {{"title", "test"}};
    const FrameProvider frames = dtype == Dtype::u8    ? provider<std::uint8_t>()
                                 : dtype == Dtype::u16 ? provider<std::uint16_t>()
                                                       : provider<std::uint32_t>();
    const auto report = write_arina(folder_ / "x_master.h5", spec, frames);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(report->n_frames, 20u);
    EXPECT_EQ(report->logical_bytes, 20u * 33 * 51 * item_bytes(dtype));
    EXPECT_EQ(report->files.back(), folder_ / "x_master.h5");
    EXPECT_EQ(names(),
              (std::vector<std::string>{"x_data_000001.h5", "x_data_000002.h5", "x_data_000003.h5", "x_master.h5"}));
    for (std::uint64_t i = 0; i < 3; ++i) {
      const fs::path path = folder_ / ("x_data_00000" + std::to_string(i + 1) + ".h5");
      const std::uint64_t n = i < 2 ? 8 : 5;
      if (dtype == Dtype::u8)
        check_frames<std::uint8_t>(path, 8 * i, n, shape.det, 9);
      else if (dtype == Dtype::u16)
        check_frames<std::uint16_t>(path, 8 * i, n, shape.det, 9);
      else
        check_frames<std::uint32_t>(path, 8 * i, n, shape.det, 9);
    }
    // Through the master: the links lead to the data files, the counts and the mask stand where the detector puts them.
    const Dataset linked(folder_ / "x_master.h5", "/entry/data/data_000003");
    ASSERT_GE(linked.id, 0);
    EXPECT_EQ(linked.attribute<std::uint64_t>("image_nr_high", 1)[0], 21u);
    const Dataset mask(folder_ / "x_master.h5", "/entry/instrument/detector/detectorSpecific/pixel_mask");
    std::vector<std::uint32_t> values(shape.frame_pixels());
    ASSERT_GE(H5Dread(mask.id, H5T_NATIVE_UINT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
    EXPECT_EQ(values, spec.pixel_mask);
    const Dataset trigger(folder_ / "x_master.h5", "/entry/instrument/detector/detectorSpecific/ntrigger");
    std::uint64_t ntrigger = 0;
    ASSERT_GE(H5Dread(trigger.id, H5T_NATIVE_UINT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, &ntrigger), 0);
    EXPECT_EQ(ntrigger, 21u);
    const Dataset energy(folder_ / "x_master.h5", "/entry/instrument/detector/detectorSpecific/photon_energy");
    double volts = 0;
    ASSERT_GE(H5Dread(energy.id, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, &volts), 0);
    EXPECT_EQ(volts, 300000);
  }
}

// What was written is read back by this program: shape, counts, mask, missing frame, calibration with its origins.
TEST_F(SaveArina, C22_ReadBackByOurReader) {
  ArinaSpec spec;
  spec.shape = {{3, 7}, {33, 51}};
  spec.frames_per_file = 8;
  spec.saturation_value = 8352;
  spec.pixel_mask.assign(spec.shape.frame_pixels(), 0);
  spec.pixel_mask[5] = 2;
  spec.valid_positions = BitMask(21, true);
  spec.valid_positions.set(9, false);
  Calibration k;
  k.voltage_kV = {80.0, "kV", Origin::caller, ""};
  k.semiangle_mrad = {21.5, "mrad", Origin::caller, ""};
  k.scan_sampling_A = {Pair{0.5, 0.25}, "A", Origin::caller, ""};
  k.det_sampling_mrad = {Pair{1.5, 1.25}, "mrad", Origin::caller, ""};
  spec.calibration = k;
  ASSERT_TRUE(write_arina(folder_ / "x_master.h5", spec, provider<std::uint16_t>()));
  OpenOptions options;
  options.missing = Missing::mark;
  const auto c = inspect(folder_ / "x_master.h5", options);
  ASSERT_TRUE(c) << c.error().message;
  ASSERT_FALSE(c->not_ready) << c->not_ready->message;
  EXPECT_EQ(c->shape, spec.shape);
  EXPECT_EQ(c->dtype, Dtype::u16);
  EXPECT_EQ(c->scan_shape_origin, Origin::file);
  EXPECT_EQ(c->n_missing, 1u);
  EXPECT_EQ(c->valid_pixels.first_unset(), 5u);
  EXPECT_EQ(c->saturation_value, 8352u);
  EXPECT_EQ(c->calibration.voltage_kV.value, 80.0);
  EXPECT_EQ(c->calibration.semiangle_mrad.value, 21.5);
  ASSERT_TRUE(c->calibration.scan_sampling_A);
  EXPECT_EQ(*c->calibration.scan_sampling_A.value, (Pair{0.5, 0.25}));
  ASSERT_TRUE(c->calibration.det_sampling_mrad);
  EXPECT_EQ(*c->calibration.det_sampling_mrad.value, (Pair{1.5, 1.25}));
  const auto reader = FrameReader::open(*c);
  ASSERT_TRUE(reader) << reader.error().message;
  FrameReader::Scratch scratch;
  std::vector<std::uint16_t> frame(spec.shape.frame_pixels());
  for (std::uint64_t position = 0; position < 21; ++position) {
    const auto fault = reader->read_frame(position, std::as_writable_bytes(std::span(frame)), scratch);
    EXPECT_EQ(fault.has_value(), position == 9) << position;
    if (fault) continue;
    for (std::size_t p = 0; p < frame.size(); ++p)
      ASSERT_EQ(frame[p], static_cast<std::uint16_t>(value_of(position, p)));
  }
}

TEST_F(SaveArina, C91_FailedOrRefusedLeavesNothing) {
  ArinaSpec spec;
  spec.shape = {{3, 7}, {4, 5}};
  spec.frames_per_file = 8;
  const FrameProvider failing = [](std::uint64_t k, std::span<std::byte> out) -> Result<Done> {
    std::memset(out.data(), 0, out.size());
    if (k == 18) return Error{Code::corrupt_data, "frame 18"};
    return Done{};
  };
  EXPECT_EQ(write_arina(folder_ / "x_master.h5", spec, failing).error().message, "frame 18");
  EXPECT_TRUE(names().empty());
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(write_arina(folder_ / "x_master.h5", spec, provider<std::uint16_t>(), {{}, stop.get_token()}).error().code,
            Code::cancelled);
  EXPECT_TRUE(names().empty());

  std::ofstream(folder_ / "x_data_000002.h5") << "precious";
  const auto refused = write_arina(folder_ / "x_master.h5", spec, provider<std::uint16_t>());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::io);
  EXPECT_NE(refused.error().message.find("x_data_000002.h5"), std::string::npos);
  EXPECT_EQ(names(), (std::vector<std::string>{"x_data_000002.h5"}));
  spec.overwrite = true;
  EXPECT_TRUE(write_arina(folder_ / "x_master.h5", spec, provider<std::uint16_t>()));
  EXPECT_EQ(names().size(), 4u);

  const auto code = [&](const char* name) {
    return write_arina(folder_ / name, spec, provider<std::uint16_t>()).error().code;
  };
  EXPECT_EQ(code("x.h5"), Code::invalid_argument);
  EXPECT_EQ(code("_master.h5"), Code::invalid_argument);
  spec.dtype = Dtype::f32;
  EXPECT_EQ(code("y_master.h5"), Code::invalid_argument);
  spec.dtype = Dtype::u16;
  spec.pixel_mask.assign(19, 0);
  EXPECT_EQ(code("y_master.h5"), Code::invalid_argument);
  EXPECT_EQ(names().size(), 4u);
}

TEST_F(SaveArina, CalibrationIsWrittenBesideWhatTheMasterHasNoPlaceFor) {
  ArinaSpec spec;
  spec.shape = {{2, 2}, {4, 5}};
  Calibration k;
  k.voltage_kV = {80.0, "kV", Origin::caller, ""};
  k.semiangle_mrad = {21.4, "mrad", Origin::caller, ""};
  k.scan_sampling_A = {Pair{0.5, 0.25}, "A", Origin::caller, ""};
  spec.calibration = k;
  const auto report = write_arina(folder_ / "x_master.h5", spec, provider<std::uint16_t>());
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(names(), (std::vector<std::string>{"x_data_000001.h5", "x_em_metadata.h5", "x_master.h5"}));
  const Dataset d(folder_ / "x_em_metadata.h5", "/electron_microscope/scan_controller/regular_scan/pixel_size_x");
  double x = 0;
  ASSERT_GE(H5Dread(d.id, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, &x), 0);
  EXPECT_EQ(x, 0.25);
}

}  // namespace
}  // namespace quantem
