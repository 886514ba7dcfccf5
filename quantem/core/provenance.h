#pragma once
// What was done to the source to get a result. Every product carries one; two products computed alike carry equal ones.
// Schema quantem.gpu.provenance/v1.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "quantem/core/region.h"
#include "quantem/core/shape.h"

namespace quantem {

// A named value of an operation ("inner_px", 30.0). Values print to JSON as they are.
using ParameterValue = std::variant<std::nullptr_t, bool, std::int64_t, double, std::string, std::vector<double>,
                                    std::vector<std::string>>;
using Parameters = std::vector<std::pair<std::string, ParameterValue>>;

struct SourceFile {
  std::string name;  // without its directory
  std::uint64_t bytes = 0;
  std::int64_t mtime_ns = 0;
  std::string sha256;  // empty when not computed
  bool operator==(const SourceFile&) const = default;
};

// One processing step in the order in which it ran ("bad_pixel_zeroing", changes_measurements true, what it did).
struct ProcessingStep {
  std::string operation;
  bool changes_measurements = false;
  Parameters parameters;
};

struct Provenance {
  // Of the volume: filled while loading, copied into every product.
  std::vector<SourceFile> source_identity;
  Shape4 source_shape;
  std::string source_dtype;
  Region scan_region, detector_region;  // in source coordinates
  Extent scan_bin{1, 1}, detector_bin{1, 1};
  std::string scan_order = "raster";
  struct {
    std::uint64_t count = 0;
    std::string sha256, policy;  // policy: "zeroed", "kept" or "no mask in source"
  } bad_pixels;
  std::uint64_t missing_positions = 0, flagged_samples = 0, ignored_frames = 0;
  std::string representation, codec_profile;  // "dense", ""; "encoded", "bit-sliced-v1"
  std::string backend, device;
  std::vector<ProcessingStep> steps;
  // Of the product.
  std::string operation, path;  // path: the code that ran, "<backend>_<what it does>"
  Parameters parameters;
  std::string output_shape, output_dtype, accumulator_dtype;
  struct {
    std::string sha256;
    std::uint64_t n_pixels = 0;
  } mask;
  struct ProbeUse {
    Point center;
    double radius;
    std::string center_origin, radius_origin;
  };
  std::optional<ProbeUse> probe;
  std::vector<std::string> evidence;  // cropped binned scaled filtered incomplete cached preview; none means native
  std::vector<std::string> warnings;

  void add_evidence(const std::string& word);  // once
  void warn(const std::string& text);          // once
};

std::string to_json(const Provenance& provenance, int indent = -1);
std::string
software_revision();  // "0.1.0+g<commit>", with "-dirty" behind it when the tree differed; the version alone without git

}  // namespace quantem
