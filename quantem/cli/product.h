#pragma once
// Products on their way to a folder: NAME.npy, NAME.tif, NAME.png as asked for, NAME.json (provenance), one contact sheet, and
// report.json last, so that a folder with a report is whole.

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "quantem/cli/describe.h"
#include "quantem/cli/npy.h"
#include "quantem/cli/output_set.h"
#include "quantem/cli/session.h"
#include "quantem/cli/verbs.h"
#include "quantem/display/figure.h"
#include "quantem/runtime/background.h"

namespace quantem::cli {

// How a product is shown.
struct Look {
  std::string subtitle;
  std::optional<PixelStep> step;  // empty: pixels
  std::string colormap = "gray";
  std::optional<std::pair<double, double>> limits = {};  // of the colours, instead of percentiles
  Transform transform = Transform::linear;
  bool symmetric = false;  // signed: 0 in the middle
  std::vector<Circle> circles;
};

struct WriteFormats {
  bool npy = true, tiff = false, png = true;
};

struct Product {
  std::string name, title, unit;
  Dtype dtype = Dtype::f32;
  std::vector<std::uint64_t> shape;
  Provenance provenance;
  Look look;
  Image<float> shown;  // until it is drawn
  // Made beside the caller's work; there when the collection is written.
  std::string npy, tiff, png;  // the files' bytes; empty: not written
  Json provenance_json, statistics;
  Rgba drawn;  // the panel; empty: no picture
  std::optional<Error> error;
};

// Products are drawn and compressed beside the caller's work, each as soon as it is added.
class Collection {
 public:
  Collection(WriteFormats formats, std::chrono::steady_clock::time_point began) : formats_(formats), began_(began) {}

  // Adds an array with its picture. The .npy holds it as it is; TIFF and picture show it as f32. What cannot be drawn is write()'s error.
  template <class T>
  void add(const std::string& name, const std::string& title, const Grid<T>& grid, const Look& look) {
    auto product = begin(name, title, grid.unit, grid.provenance, dtype_of<T>(), grid.extent);
    if (formats_.npy) product->npy = npy_of(grid.values, product->shape);
    product->shown = displayable(grid);
    product->look = look;
    finish(std::move(product));
  }
  // Adds an array without a picture, as .npy whatever was asked for: exact integers have no other form here.
  template <class T>
  void add_array(const std::string& name, const Grid<T>& grid) {
    auto product = begin(name, name, grid.unit, grid.provenance, dtype_of<T>(), grid.extent);
    product->npy = npy_of(grid.values, product->shape);
    finish(std::move(product));
  }
  // A picture of two components, direction as hue; no array of its own.
  void add_vectors(const std::string& title, const Grid<float>& row, const Grid<float>& col, const Look& look);

  // A product that was not asked for by name and cannot be made: noted, not fatal.
  void refuse(const std::string& product, const Error& error);
  // Seconds of a stage, into the report. What goes on beside it is not counted.
  void time(const std::string& stage, double seconds) { timings_.emplace_back(stage, seconds); }

  [[nodiscard]] const std::vector<std::unique_ptr<Product>>& products() const { return products_; }
  // What was not made and why, one line a reason.
  [[nodiscard]] std::vector<std::string> note_lines() const;
  [[nodiscard]] bool empty() const { return products_.empty(); }

  // The names that a product writes.
  static std::vector<std::string> file_names(const std::string& product);
  // Writes everything to `output`: arrays, provenance, pictures, the sheet, and last `report` with products, notes and timings added.
  Result<Json> write(OutputSet& output, Json report, const Sheet& sheet, const std::vector<std::string>& warnings);

 private:
  struct Vectors {
    std::string stem, title;
    Look look;
    Image<float> row, col;
    Provenance provenance;
    std::string png;
    Rgba drawn;
    std::optional<Error> error;
  };
  static std::unique_ptr<Product> begin(const std::string& name, const std::string& title, const std::string& unit,
                                        const Provenance& provenance, Dtype dtype, Extent extent);
  void finish(std::unique_ptr<Product> product);
  Result<std::string> draw_sheet(const Sheet& sheet);

  WriteFormats formats_;
  std::chrono::steady_clock::time_point began_;
  std::vector<std::unique_ptr<Product>> products_;
  std::vector<std::unique_ptr<Vectors>> vectors_;
  Json notes_ = Json::array();
  std::vector<std::pair<std::string, double>> timings_;
  std::unique_ptr<Background> background_ =
      std::make_unique<Background>();  // last: its tasks end before what they fill
};

// Seconds since the last lap.
class Stopwatch {
 public:
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - last_).count();
    last_ = now;
    return seconds;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// Steps of a pixel, where they are known.
std::optional<PixelStep> scan_step(const Calibration& calibration);              // angstrom
std::optional<PixelStep> detector_step(const Calibration& calibration);          // mrad
std::optional<PixelStep> fft_step(const Calibration& calibration, Extent scan);  // 1/angstrom

// What a report says of the acquisition: source, shape, dtype, storage, audit, masks, calibration with origins.
Json acquisition_json(const Container& container, const Volume& volume);
std::vector<std::string> sheet_header(const Container& container, const Volume& volume, const Calibration& calibration);

// Adds the correlation of `phase` with the truth to the report and to the answer; exit status 7 when it is below `at_least`.
Result<Done> compare_with_truth(const std::optional<Image<float>>& phase, const std::string& truth,
                                const std::string& at_least, Json& report, Answer& answer);
// Pearson correlation of an image with an array of the same shape in FILE.npy. Errors: invalid_argument for another shape.
Result<double> correlation_with(const Image<float>& image, const std::filesystem::path& file);

}  // namespace quantem::cli
