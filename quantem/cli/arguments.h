#pragma once
// What a user can ask for, as text where a value has a form of its own (resolve.h reads it). Names are those of the
// options.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace quantem::cli {

struct CommonArguments {
  bool json = false, quiet = false;
  std::string progress;
};

struct DeviceArguments {
  std::string backend, memory_limit, device, threads;
};

struct SourceArguments {
  std::string scan_shape, scan_order = "raster", extra_frames = "error", missing = "error", dataset, raw,
                          flyback_cols = "0", skip_frames = "0";
  std::optional<std::string> channel;
  bool tolerate_missing = false;
};

struct LoadArguments {
  std::string scan_region, det_region, scan_bin, det_bin, dtype, flagged, hot_pixels = "none", representation;
  std::vector<std::string> bad_pixels;
  bool no_mask = false, tiles_4 = false;
};

struct CalibrationArguments {
  std::string voltage_kV, semiangle_mrad, scan_step_A, det_mrad;
};

// Centre and radius of the bright-field disc; absent ones are found (auto probe).
struct ProbeArguments {
  std::string center, radius, unit = "px";
};

struct DpcArguments {
  std::string rotation_deg = "auto", transpose = "auto", polarity, method = "auto", descan = "mean", units, boundary,
              sign, epsilon, highpass, lowpass, order;
};

struct DoctorArguments {
  std::string require;
};

struct InfoArguments {
  std::vector<std::string> files;
  SourceArguments source;
  LoadArguments load;
  DeviceArguments device;
  bool hash = false;
};

// Verbs that turn acquisitions into a folder of results. Several files are one series.
struct ResultArguments {
  std::vector<std::string> files;
  std::string out, mask, truth, truth_at_least, write = "npy,png", on_error = "fail";
  SourceArguments source;
  LoadArguments load;
  DeviceArguments device;
  CalibrationArguments calibration;
  DpcArguments dpc;
  bool overwrite = false, no_pictures = false;
};

struct ProductsArguments : ResultArguments {
  std::string inner, outer, compare, compare_window = "common", tilts_deg;
  std::vector<std::string> selected;  // names of products; empty is all
  ProbeArguments probe;
  bool exact = false;
};

struct DpcVerbArguments : ResultArguments {};

struct SimulateArguments {
  std::string out, scan = "64x64", detector = "96x96", dtype = "uint16", voltage_kV = "300", semiangle_mrad = "20",
                   scan_step_A = "0.25", det_mrad, center, phase_max = "1", c10_nm = "0", c12_nm = "0", phi12_deg = "0",
                   c21_nm = "0", phi21_deg = "0", rotation_deg = "0", dose = "1000", seed = "1";
  bool transpose = false, overwrite = false;
};

struct ConvertArguments {
  std::string in, out, format;
  SourceArguments source;
  LoadArguments load;
  DeviceArguments device;
  bool overwrite = false;
};

struct Arguments {
  std::string verb;
  CommonArguments common;
  DoctorArguments doctor;
  InfoArguments info;
  ProductsArguments products;
  DpcVerbArguments dpc;
  SimulateArguments simulate;
  ConvertArguments convert;
};

// The verbs, their options, help and examples, read by CLI11.
struct ParsedArguments {
  Arguments arguments;
  std::string help;   // not empty: print it to stdout and end with 0
  std::string usage;  // not empty: a usage error for stderr, exit 2
};
ParsedArguments parse_arguments(const std::vector<std::string>& arguments);

}  // namespace quantem::cli
