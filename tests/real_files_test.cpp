// Files that detectors and other programs wrote (QUANTEM_REAL_DATA): shapes, sums, minima and maxima of every readable dataset, clear
// refusals for the others.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "quantem/core/sha256.h"
#include "quantem/io/dataset_bytes.h"
#include "tests/support/hdf5_writer.h"
#include "tests/support/open.h"
#include "tests/support/real_files.h"

namespace quantem {
namespace {
using namespace support;

class RealFiles : public testing::Test {
 protected:
  void SetUp() override {
    const char* folder = std::getenv("QUANTEM_REAL_DATA");
    if (!folder || !*folder) GTEST_SKIP() << "QUANTEM_REAL_DATA is not set";
    root_ = folder;
    ASSERT_TRUE(fs::is_directory(root_)) << "QUANTEM_REAL_DATA names no folder: " << root_;
  }
  [[nodiscard]] fs::path at(std::string_view name) const { return root_ / name; }
  fs::path root_;
};

// All numbers of a dataset as double (integers here are below 2^53).
std::vector<double> numbers(const DatasetBytes& d) {
  std::vector<double> out(d.bytes.size() / d.item_bytes);
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::byte item[8] = {};
    for (std::size_t b = 0; b < d.item_bytes; ++b)
      item[b] = d.bytes[i * d.item_bytes + (d.big_endian ? d.item_bytes - 1 - b : b)];
    const auto as = [&]<class T>(T v) { return std::memcpy(&v, item, sizeof v), static_cast<double>(v); };
    if (d.type == "float32")
      out[i] = as(float{});
    else if (d.type == "float64")
      out[i] = as(double{});
    else if (d.type == "int8")
      out[i] = as(std::int8_t{});
    else if (d.type == "int16")
      out[i] = as(std::int16_t{});
    else if (d.type == "int32")
      out[i] = as(std::int32_t{});
    else if (d.type == "int64")
      out[i] = as(std::int64_t{});
    else if (d.type == "uint8")
      out[i] = as(std::uint8_t{});
    else if (d.type == "uint16")
      out[i] = as(std::uint16_t{});
    else if (d.type == "uint32")
      out[i] = as(std::uint32_t{});
    else
      ADD_FAILURE() << "type " << d.type;
  }
  return out;
}

struct Summary {
  double min = INFINITY, max = -INFINITY, sum = 0;
  std::uint64_t n_nan = 0;
};
Summary summary(const std::vector<double>& values) {
  Summary s;
  for (const double v : values) {
    if (std::isnan(v)) {
      ++s.n_nan;
      continue;
    }
    s.min = std::min(s.min, v);
    s.max = std::max(s.max, v);
    s.sum += v;
  }
  return s;
}

std::string text_of(const std::vector<std::uint64_t>& shape) {
  std::string t = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) t += (i ? ", " : "") + std::to_string(shape[i]);
  return t + ")";
}

// The manifest gives integers exactly and floats to nine digits.
void expect_equal(double found, double expected, bool exact, const std::string& what) {
  if (exact)
    EXPECT_EQ(found, expected) << what;
  else
    EXPECT_NEAR(found, expected, 1e-8 * std::abs(expected)) << what;
}

TEST_F(RealFiles, FilesAreTheOnesOfTheManifest) {
  for (const real::FileRow& row : real::kFiles) {
    std::ifstream in(at(row.path), std::ios::binary);
    ASSERT_TRUE(in) << row.path;
    const std::string bytes((std::istreambuf_iterator<char>(in)), {});
    EXPECT_EQ(bytes.size(), row.bytes) << row.path;
    EXPECT_EQ(sha256_hex(bytes.data(), bytes.size()), row.sha256) << row.path;
  }
}

TEST_F(RealFiles, EveryDatasetHasItsValues) {
  int read = 0, refused = 0;
  for (const real::DatasetRow& row : real::kDatasets) {
    const std::string what = std::string(row.file) + ": " + std::string(row.dataset);
    const auto d = read_dataset_bytes(at(row.file), row.dataset);
    const bool can = row.filter == 0 || row.filter == 1 || row.filter == 2 || row.filter == 32004 ||
                     row.filter == 32008 || row.filter == 32015;
    if (!can) {
      ASSERT_FALSE(d) << what;
      EXPECT_EQ(d.error().code, Code::unsupported) << d.error().message;
      EXPECT_HOLDS(d.error().message, std::to_string(row.filter));
      ++refused;
      continue;
    }
    ASSERT_TRUE(d) << d.error().message;
    EXPECT_EQ(text_of(d->shape), row.shape) << what;
    EXPECT_EQ(d->type, row.type) << what;
    const Summary s = summary(numbers(*d));
    const bool exact = row.type.find("int") != std::string_view::npos;
    expect_equal(s.min, row.min, exact, what + " min");
    expect_equal(s.max, row.max, exact, what + " max");
    expect_equal(s.sum, row.sum, exact, what + " sum");
    EXPECT_EQ(s.n_nan, row.n_nan) << what;
    ++read;
  }
  EXPECT_GT(read, 150);
  EXPECT_GT(refused, 10);
}

// The same values frame by frame, through inspect() and FrameReader.
TEST_F(RealFiles, L29_EveryDatasetOfCountsReadsFrameByFrame) {
  int read = 0;
  for (const real::DatasetRow& row : real::kDatasets) {
    const std::string what = std::string(row.file) + ": " + std::string(row.dataset);
    OpenOptions options;
    options.dataset_path = row.dataset;
    auto c = inspect(at(row.file), options);
    if (!c) {
      EXPECT_EQ(c.error().code, Code::unsupported) << c.error().message;
      continue;
    }
    if (c->not_ready && c->not_ready->code == Code::undetermined) {  // frames that are no square: one line
      options.scan_shape = Extent{1, static_cast<std::uint32_t>(c->n_stored)};
      c = inspect(at(row.file), options);
    }
    if (c->not_ready) {
      EXPECT_EQ(c->not_ready->code, Code::unsupported) << what << ": " << c->not_ready->message;
      continue;
    }
    if (c->dtype == Dtype::f32) continue;
    double sum = 0, low = INFINITY, high = -INFINITY;
    for (const ReadFrame& frame : read_positions(*c)) {
      ASSERT_FALSE(frame.fault) << frame.fault->reason;
      for (const std::int64_t v : frame.values) {
        low = std::min(low, static_cast<double>(v));
        high = std::max(high, static_cast<double>(v));
        sum += static_cast<double>(v);
      }
    }
    EXPECT_EQ(sum, row.sum) << what;
    EXPECT_EQ(low, row.min) << what;
    EXPECT_EQ(high, row.max) << what;
    ++read;
  }
  EXPECT_GT(read, 80);
}

TEST_F(RealFiles, L29_LinksLeadToTheSameNumbers) {
  for (const real::LinkRow& row : real::kLinks) {
    const auto through = read_dataset_bytes(at(row.file), row.link);
    const fs::path target = at(row.file).parent_path() / row.target_file;
    if (!fs::exists(target)) {
      ASSERT_FALSE(through);
      EXPECT_EQ(through.error().code, Code::missing_data);
      EXPECT_HOLDS(through.error().message,
                   std::string(row.target_file) + " not found in " + fs::canonical(target.parent_path()).string());
      continue;
    }
    const auto direct = read_dataset_bytes(target, row.target);
    ASSERT_TRUE(through) << through.error().message;
    ASSERT_TRUE(direct) << direct.error().message;
    EXPECT_EQ(through->bytes, direct->bytes);
  }
}

TEST_F(RealFiles, L15_BitshuffleAndLz4OfEveryBlockSize) {
  for (const auto& [name, count] :
       {std::pair("layouts_jhdf/bitshuffle_datasets.hdf5", 40u), {"layouts_jhdf/lz4_datasets.hdf5", 20u}}) {
    const auto paths = list_datasets(at(name));
    ASSERT_TRUE(paths);
    EXPECT_EQ(paths->size(), count);
    for (const std::string& path : *paths) {
      const auto d = read_dataset_bytes(at(name), path);
      ASSERT_TRUE(d) << d.error().message;
      const auto values = numbers(*d);
      ASSERT_EQ(values.size(), 20u) << path;
      for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(values[i], static_cast<double>(i)) << path;
    }
  }
  for (const char* name : {"filters/bitshuffle_regression_0.1.3.h5", "filters/bitshuffle_regression_0.4.0.h5"}) {
    const auto paths = list_datasets(at(name));
    ASSERT_TRUE(paths);
    int compared = 0;
    for (const std::string& path : *paths) {
      if (!path.starts_with("/compressed")) continue;
      const auto packed = read_dataset_bytes(at(name), path),
                 plain = read_dataset_bytes(at(name), "/original" + path.substr(path.find('/', 1)));
      ASSERT_TRUE(packed) << packed.error().message;
      ASSERT_TRUE(plain) << plain.error().message;
      EXPECT_EQ(packed->bytes, plain->bytes) << path;
      ++compared;
    }
    EXPECT_GT(compared, 5) << name;
  }
}

TEST_F(RealFiles, U01_GenuineArina) {
  const Container c = open(at("arina_rsciio/test_00_master.h5"));
  ASSERT_FALSE(c.not_ready) << c.not_ready->message;
  EXPECT_EQ(c.format, "arina");
  EXPECT_EQ(c.shape, (Shape4{{4, 4}, {192, 192}}));
  EXPECT_EQ(c.dtype, Dtype::u32);
  EXPECT_EQ(c.n_stored, 16u);
  EXPECT_EQ(c.n_expected, 16u);
  EXPECT_EQ(c.scan_shape_origin, Origin::side_file);
  EXPECT_EQ(sum_image(c), Sums(16, 0));
  EXPECT_TRUE(c.parts[0].one_frame_per_chunk());
  EXPECT_EQ(c.saturation_value, 8352u);
  EXPECT_EQ(c.calibration.voltage_kV.value, 300.0);
  EXPECT_NEAR(c.calibration.scan_sampling_A.value->col, 1.3915206, 1e-6);
  EXPECT_EQ(c.calibration.scan_sampling_A.note, "uncalibrated");
  EXPECT_EQ(c.calibration.rotation_deg.value, 0.0);
  EXPECT_DOUBLE_EQ(*c.calibration.camera_length_mm.value, 115.0);
  // Without the side file: no invented size.
  const Folder folder("U01");
  for (const char* name : {"test_00_master.h5", "test_00_data_000001.h5"})
    fs::copy_file(at("arina_rsciio") / name, folder / name);
  const Container alone = open(folder / "test_00_master.h5");
  EXPECT_EQ(alone.scan_shape_origin, Origin::guessed);
  EXPECT_FALSE(alone.calibration.scan_sampling_A);
  EXPECT_FALSE(alone.calibration.rotation_deg);
}

TEST_F(RealFiles, L04_GenuineArinaWithoutItsData) {
  const fs::path master = at("arina_ncem_missing_data/au_145mm_68kx_microprobe_01_master.h5");
  const Error error = refusal(master);
  EXPECT_EQ(error.code, Code::missing_data);
  EXPECT_HOLDS(error.message, "au_145mm_68kx_microprobe_01_data_000001.h5 not found in " +
                                  fs::canonical(master.parent_path()).string());
  const Container c = open(master);
  EXPECT_EQ(c.n_expected, 4096u);
  EXPECT_EQ(c.shape, (Shape4{{64, 64}, {192, 192}}));
  EXPECT_EQ(c.calibration.voltage_kV.value, 300.0);
  EXPECT_TRUE(c.has_pixel_mask && c.valid_pixels.all());
  const auto metadata = nlohmann::json::parse(c.metadata_json);
  EXPECT_EQ(metadata["master"]["/entry/instrument/detector/description"], "Dectris ARINA CZT");
  EXPECT_EQ(metadata["master"]["/entry/instrument/detector/detectorSpecific/ntrigger"], 4096);
}

TEST_F(RealFiles, G17_OddFrameAndMask) {
  const Container c = open(at("dectris/dataset_artificial_small_001/test_master.h5"), scan(1, 5));
  ASSERT_FALSE(c.not_ready) << c.not_ready->message;
  EXPECT_EQ(c.shape.det, (Extent{13, 11}));
  std::int64_t total = 0;
  for (const auto& s : sum_image(c)) total += s.value_or(0);
  EXPECT_EQ(total, 50765);
  EXPECT_LT(c.valid_pixels.n_set(), 143u);
  const Container fixture = open(at("quantem_gpu/fixture_master.h5"));
  EXPECT_EQ(fixture.shape, (Shape4{{1, 1}, {64, 64}}));
  EXPECT_EQ(sum_image(fixture), Sums{522360});
  EXPECT_EQ(fixture.valid_pixels.n_set(), 4095u);
}

TEST_F(RealFiles, L18_EigerFramesSumAlike) {
  for (const char* codec : {"bslz4", "lz4"})
    for (const char* part : {"1", "2"}) {
      const Container c = open(at("dectris/datasets_eiger1/eiger1_testmode10_2datafiles_4images_" + std::string(codec) +
                                  "_data_00000" + part + ".h5"),
                               scan(1, 2));
      for (const ReadFrame& f : read_positions(c)) {
        ASSERT_FALSE(f.fault);
        EXPECT_EQ(f.sum(), 2511479273);
        EXPECT_EQ(std::count(f.values.begin(), f.values.end(), 65535), 38164);
      }
    }
  const Container eiger4m = open(at("eiger4m/bitshuffle.h5"));
  const auto frame = read_positions(eiger4m)[0];
  std::int64_t valid = 0, flagged = 0, most = 0;
  for (const std::int64_t v : frame.values) {
    flagged += v == 0xffffffff;
    if (v != 0xffffffff) valid += v, most = std::max(most, v);
  }
  EXPECT_EQ(flagged, 251302);
  EXPECT_EQ(valid, 168427642);
  EXPECT_EQ(most, 1208081);
}

TEST_F(RealFiles, Emd_Py4dstemAndPrismatic) {
  const Container py = open(at("emd/py4DSTEM_size2x3x4x5.h5"));
  ASSERT_FALSE(py.not_ready) << py.not_ready->message;
  EXPECT_EQ(py.format, "emd");
  EXPECT_EQ(py.shape, (Shape4{{2, 3}, {4, 5}}));
  EXPECT_EQ(py.dtype, Dtype::f32);
  EXPECT_NEAR(py.calibration.scan_sampling_A.value->row, 1.26796875, 1e-9);
  EXPECT_FALSE(py.calibration.det_sampling_mrad) << "1/A without a voltage";
  const Container real = open(at("emd/real_py4dstem.h5"));
  EXPECT_EQ(real.shape, (Shape4{{2, 2}, {4, 4}}));
  EXPECT_DOUBLE_EQ(real.calibration.scan_sampling_A.value->col, 2.5);
  EXPECT_EQ(real.calibration.center_px.value, (Point{31.5, 32.25}));
  EXPECT_EQ(nlohmann::json::parse(real.metadata_json)["emd"]["calibration"]["QR_flip"], 1);
  const Error two = refusal(at("emd/Si100_4D.emd"));
  EXPECT_EQ(two.code, Code::undetermined);
  EXPECT_HOLDS(two.message, "CBED_array_depth0000/datacube");
  EXPECT_HOLDS(two.message, "CBED_array_depth0001/datacube");
  OpenOptions named;
  named.dataset_path = "/4DSTEM_simulation/data/datacubes/CBED_array_depth0001/datacube";
  const Container si = open(at("emd/Si100_4D.emd"), named);
  EXPECT_EQ(si.shape, (Shape4{{11, 11}, {8, 8}}));
  EXPECT_FALSE(si.not_ready);
  ASSERT_TRUE(si.calibration.scan_sampling_A);
  EXPECT_EQ(refusal(at("emd/emd_type1_stringDims.h5")).code, Code::unsupported);
  EXPECT_HOLDS(refusal(at("emd/emd_type1_stringDims.h5")).message, "int64");
  for (const char* velox :
       {"emd/fei_example_dpc_titles.emd", "emd/fei_example_tem_stack.emd", "quantem_gpu/fixture_velox.emd"}) {
    EXPECT_EQ(refusal(at(velox)).code, Code::unsupported) << velox;
    EXPECT_HOLDS(refusal(at(velox)).message, "Velox");
  }
}

TEST_F(RealFiles, G03_FormatsWithoutAReaderAreNamed) {
  const std::pair<const char*, const char*> kRows[] = {
      {"other/128x128x5-diffraction_preview_1.ser", "TIA .ser"},
      {"other/20241021_00405_movie.mrc", "MRC"},
      {"other/Custom_movie.mrc", "MRC"},
      {"other/ROI_Random_Scan_movie.mrc", "MRC"},
      {"other/Merlin_Single_Quad.zip", "zip"},
      {"other/Merlin_navigation4x2_ROI.zip", "zip"},
      {"other/Merlin_navigation4x2_signalNx256_ROI.zip", "zip"},
      {"other/dmTest_3D_int16_64,65,66.dm4", ".dm4"},
      {"other/test1.blo", ".blo"},
      {"other/test2.blo", ".blo"},
  };
  for (const auto& [name, format] : kRows) {
    const Error error = refusal(at(name));
    EXPECT_EQ(error.code, Code::unsupported) << name;
    EXPECT_HOLDS(error.message, format);
    EXPECT_HOLDS(error.message, "not supported yet");
  }
  for (const char* name : {"filters/h5ex_d_blosc.h5", "filters/h5ex_d_blosc2.h5", "filters/h5ex_d_lzf.h5"})
    EXPECT_EQ(refusal(at(name)).code, Code::unsupported) << name;
  for (const char* name : {"nexus/nexus_dls_example.nxs", "nexus/simple_signal.nxs"}) {
    const Error error = refusal(at(name));
    EXPECT_TRUE(error.code == Code::unsupported || error.code == Code::undetermined) << error.message;
  }
}

}  // namespace
}  // namespace quantem
