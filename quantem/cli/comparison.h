#pragma once
// The picture that compares the acquisitions of a series: one detector image of each, under one window. compare.png, further grids as
// compare_2.png, ..., and compare.json, which says what each panel shows.

#include <optional>
#include <string>
#include <vector>

#include "quantem/cli/arguments.h"
#include "quantem/cli/detectors.h"
#include "quantem/cli/output_set.h"
#include "quantem/cli/verbs.h"
#include "quantem/display/figure.h"
#include "quantem/io/container.h"

namespace quantem::cli {

class Comparison {
 public:
  // Of `made`, the products in the order of the sheet: --compare, else bf, else the first detector image. Nothing is compared for one FILE,
  // without pictures, or where no detector image is made. Errors: invalid_argument for a bad option; as OutputSet::check().
  static Result<Comparison> plan(const ProductsArguments& arguments, const std::vector<std::string>& made);

  [[nodiscard]] bool wants(const std::string& product) const { return !product_.empty() && product == product_; }
  // One acquisition's image, copied.
  void add(const Container& container, const std::string& title, const Image<float>& image, const ProbeFacts& facts,
           const std::optional<PixelStep>& step);
  // Writes the grids and adds them to the answer of the series. Nothing where there is no image to compare.
  Result<Done> write(Answer& series, const Session& session);

 private:
  struct Member {
    std::string name, file;
    Image<float> image;
    std::optional<PixelStep> step;
    std::optional<Probe> probe;
    std::optional<double> tilt_deg;
  };
  explicit Comparison(OutputSet output) : output_(std::move(output)) {}
  [[nodiscard]] Json json(const std::vector<std::string>& pictures) const;
  [[nodiscard]] std::vector<std::string> header() const;

  OutputSet output_;
  std::string product_, title_;
  bool common_window_ = true;
  std::vector<std::string> files_;
  std::vector<std::optional<double>> tilts_deg_;  // a place a FILE; empty: those of the files
  std::vector<Member> members_;
};

// "scan_7" of /data/scan_7_master.h5: what an acquisition of a series is called.
std::string stem_of(const std::string& file);
// What tells the names apart, for titles: a common beginning that ends at '_', '-', '.' or ' ' is dropped where the names are long.
std::vector<std::string> short_names(std::vector<std::string> names);
// The stage's tilt in degrees, where the metadata has it under a name that says both ("tilt_deg", "stage_alpha_deg", ...).
std::optional<double> tilt_of(const std::string& metadata_json);

}  // namespace quantem::cli
