#pragma once
// Which detectors an acquisition is looked at with: the named bands around its probe, a ring of the caller's, a mask from a file.

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "quantem/cli/arguments.h"
#include "quantem/core/result.h"
#include "quantem/detector/geometry.h"
#include "quantem/detector/probe.h"

namespace quantem::cli {

// The disc as far as it is known: from the caller, else measured. `reason` says why a value is absent.
struct ProbeFacts {
  std::optional<Point> center;
  std::optional<double> radius_px;
  std::optional<Probe> probe;
  std::optional<Error> reason;
};
Result<ProbeFacts> probe_facts(const ProbeArguments& arguments, const Pattern<double>& mean,
                               const BitMask& valid_pixels, const Calibration& calibration);

struct VirtualDetector {
  std::string name, title, subtitle;  // "adf", "ADF", "12.3 to 24.6 px, 20 to 40 mrad"
  Mask mask;
  std::optional<Weights> weights;  // instead of the mask
};
// Names with a detector: bf abf adf haadf df total annular masked.
bool is_detector(const std::string& name);
Result<VirtualDetector> make_detector(const std::string& name, const ProductsArguments& arguments,
                                      const ProbeFacts& facts, Extent det, const Calibration& calibration);

// FILE.npy of the detector's shape: bool, or integers that are all 0 or 1, is a binary mask; any other numbers are weights.
Result<std::variant<Mask, Weights>> selection_of_file(const std::string& file, Extent det);

}  // namespace quantem::cli
