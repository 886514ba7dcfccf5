#include "quantem/cli/product.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "quantem/cli/parse.h"
#include "quantem/display/png.h"
#include "quantem/display/tiff.h"

namespace quantem::cli {
namespace {

// Least, greatest and mean of the values that exist; their number.
Json statistics_of(const Image<float>& image) {
  double low = INFINITY, high = -INFINITY, sum = 0;
  std::uint64_t n = 0;
  for (std::uint64_t i = 0; i < image.values.size(); ++i) {
    const double value = static_cast<double>(image.values[i]);
    if (!image.is_valid(i) || !std::isfinite(value)) continue;
    low = std::min(low, value), high = std::max(high, value), sum += value, ++n;
  }
  if (n == 0) return {{"min", nullptr}, {"max", nullptr}, {"mean", nullptr}, {"n_values", 0}};
  return {{"min", low}, {"max", high}, {"mean", sum / static_cast<double>(n)}, {"n_values", n}};
}

Result<std::string> png_of(const Rgba& picture, const Provenance& provenance) {
  PngOptions options;
  options.texts = {{"quantem.provenance", to_json(provenance)}};
  QUANTEM_TRY_ASSIGN(bytes, encode_png(picture, options));
  return std::string(bytes.begin(), bytes.end());
}

Result<std::string> tiff_of(const Product& product, const Image<float>& image, const std::optional<PixelStep>& step) {
  TiffOptions options;
  options.description = fmt::format("{}, {}; provenance in {}.json", product.title, product.unit, product.name);
  if (step && step->unit == "A" && step->note.empty()) options.pixel_size_A = step->size;
  QUANTEM_TRY_ASSIGN(bytes, encode_tiff(image, options));
  return std::string(bytes.begin(), bytes.end());
}

// What a file says against a value of its own goes wherever the value goes.
std::string caveat_of(const Known<Pair>& known) {
  return known.note.find("uncalibrated") != std::string::npos ? "uncalibrated" : "";
}

std::string text_of(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::unique_ptr<Product> Collection::begin(const std::string& name, const std::string& title, const std::string& unit,
                                           const Provenance& provenance, Dtype dtype, Extent extent) {
  auto product = std::make_unique<Product>();
  product->name = name, product->title = title, product->unit = unit, product->dtype = dtype;
  product->shape = {extent.rows, extent.cols};
  product->provenance = provenance;
  return product;
}

namespace {

Panel panel_of(const std::string& title, const Look& look) {
  Panel panel;
  panel.title = title, panel.subtitle = look.subtitle, panel.step = look.step, panel.circles = look.circles;
  return panel;
}

// The panel of a product as a picture of its own.
Result<Done> draw_product(Product& p) {
  const Look& look = p.look;
  QUANTEM_TRY_ASSIGN(range, look.limits      ? manual_window(look.limits->first, look.limits->second)
                            : look.symmetric ? symmetric_window(p.shown)
                                             : window(p.shown, {}, look.transform));
  QUANTEM_TRY_ASSIGN(panel, show_image(panel_of(p.title, look), p.shown, range, look.colormap));
  QUANTEM_TRY_ASSIGN(drawn, draw_panel(panel));
  p.drawn = std::move(drawn);
  QUANTEM_TRY_ASSIGN(png, png_of(p.drawn, p.provenance));
  p.png = std::move(png);
  return Done{};
}

Result<Done> make_files(Product& p, const WriteFormats& formats) {
  p.provenance_json = provenance_json(p.provenance);
  if (p.shown.extent.count() == 0) return Done{};  // an array only
  p.statistics = statistics_of(p.shown);
  if (formats.tiff) {
    QUANTEM_TRY_ASSIGN(tiff, tiff_of(p, p.shown, p.look.step));
    p.tiff = std::move(tiff);
  }
  if (formats.png) QUANTEM_TRY(draw_product(p));
  p.shown = {};
  return Done{};
}

}  // namespace

void Collection::finish(std::unique_ptr<Product> product) {
  products_.push_back(std::move(product));
  background_->start([p = products_.back().get(), formats = formats_] {
    if (auto made = make_files(*p, formats); !made) p->error = made.take_error();
  });
}

void Collection::add_vectors(const std::string& title, const Grid<float>& row, const Grid<float>& col,
                             const Look& look) {
  if (!formats_.png) return;
  vectors_.push_back(std::make_unique<Vectors>());
  Vectors* v = vectors_.back().get();
  v->stem = "dpc_vectors", v->title = title, v->look = look;
  static_cast<Grid<float>&>(v->row) = row, static_cast<Grid<float>&>(v->col) = col;
  if (!products_.empty()) v->provenance = products_.back()->provenance;
  background_->start([v] {
    const auto draw = [&]() -> Result<Done> {
      QUANTEM_TRY_ASSIGN(panel, show_vectors(panel_of(v->title, v->look), v->row, v->col));
      QUANTEM_TRY_ASSIGN(drawn, draw_panel(panel));
      v->drawn = std::move(drawn);
      QUANTEM_TRY_ASSIGN(png, png_of(v->drawn, v->provenance));
      v->png = std::move(png);
      return Done{};
    };
    if (auto drawn = draw(); !drawn) v->error = drawn.take_error();
  });
}

void Collection::refuse(const std::string& product, const Error& error) {
  notes_.push_back(
      {{"product", product}, {"code", code_info(error.code).name}, {"message", with_option_names(error.message)}});
}

std::vector<std::string> Collection::note_lines() const {
  std::vector<std::pair<std::string, std::string>> reasons;  // message, products
  for (const Json& note : notes_) {
    const auto message = note["message"].get<std::string>(), product = note["product"].get<std::string>();
    const auto same = [&](const auto& reason) { return reason.first == message; };
    if (const auto found = std::find_if(reasons.begin(), reasons.end(), same); found != reasons.end())
      found->second += ", " + product;
    else
      reasons.emplace_back(message, product);
  }
  std::vector<std::string> lines;
  for (const auto& [message, names] : reasons) lines.push_back("not made: " + names + ": " + message);
  return lines;
}

std::vector<std::string> Collection::file_names(const std::string& product) {
  return {product + ".npy", product + ".tif", product + ".json", product + ".png"};
}

Result<Json> Collection::write(OutputSet& output, Json report, const Sheet& sheet,
                               const std::vector<std::string>& warnings) {
  Stopwatch watch;
  background_->wait();
  for (const auto& product : products_)
    if (product->error) return *product->error;
  for (const auto& vectors : vectors_)
    if (vectors->error) return *vectors->error;
  time("pictures", watch.lap());
  QUANTEM_TRY_ASSIGN(whole, draw_sheet(sheet));
  if (!whole.empty()) time("contact_sheet", watch.lap());
  const auto put = [&](const std::string& name, std::string& bytes) {
    if (bytes.empty()) return Json();
    output.add(name, std::move(bytes));
    return Json(name);
  };
  Json& products = report["products"] = Json::object();
  for (const auto& product : products_) {
    Product& p = *product;
    output.add(p.name + ".json", text_of(p.provenance_json));
    products[p.name] = {{"array", put(p.name + ".npy", p.npy)},
                        {"tiff", put(p.name + ".tif", p.tiff)},
                        {"title", p.title},
                        {"shape", p.shape},
                        {"dtype", dtype_name(p.dtype)},
                        {"unit", p.unit},
                        {"statistics", std::move(p.statistics)},
                        {"picture", put(p.name + ".png", p.png)},
                        {"provenance", std::move(p.provenance_json)}};
  }
  for (const auto& v : vectors_) put(v->stem + ".png", v->png);
  report["contact_sheet"] = put("contact_sheet.png", whole);
  QUANTEM_TRY(output.flush());
  time("files", watch.lap());
  time("total", std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count());
  report["notes"] = notes_;
  report["timings_s"] = Json::object();
  for (const auto& [stage, seconds] : timings_) report["timings_s"][stage] = seconds;
  report["warnings"] = warnings;
  output.add("report.json", text_of(report));
  QUANTEM_TRY(output.commit());
  return report;
}

// The sheet of all panels as a PNG; empty where there is none.
Result<std::string> Collection::draw_sheet(const Sheet& sheet) {
  std::vector<const Rgba*> drawn;
  for (const auto& product : products_)
    if (product->drawn.extent.count() > 0) drawn.push_back(&product->drawn);
  for (const auto& vectors : vectors_) drawn.push_back(&vectors->drawn);
  if (drawn.empty()) return std::string();
  QUANTEM_TRY_ASSIGN(picture, sheet_of_drawn(drawn, sheet));
  return png_of(picture, products_.front()->provenance);
}

std::optional<PixelStep> scan_step(const Calibration& c) {
  if (!c.scan_sampling_A.value) return std::nullopt;
  return PixelStep{*c.scan_sampling_A.value, "A", caveat_of(c.scan_sampling_A)};
}

std::optional<PixelStep> detector_step(const Calibration& c) {
  if (!c.det_sampling_mrad.value) return std::nullopt;
  return PixelStep{*c.det_sampling_mrad.value, "mrad", caveat_of(c.det_sampling_mrad)};
}

std::optional<PixelStep> fft_step(const Calibration& c, Extent scan) {
  if (!c.scan_sampling_A.value) return std::nullopt;
  const Pair step = *c.scan_sampling_A.value;
  return PixelStep{{1 / (step.row * scan.rows), 1 / (step.col * scan.cols)}, "1/A", caveat_of(c.scan_sampling_A)};
}

Json acquisition_json(const Container& container, const Volume& volume) {
  Json json;
  json["file"] = container.path.string();
  json["format"] = container.format;
  json["source"] = {{"shape", shape_json(container.shape)},
                    {"dtype", dtype_name(container.dtype)},
                    {"scan_shape_origin", origin_name(container.scan_shape_origin)},
                    {"frames", {{"stored", container.n_stored}, {"expected", container.n_expected}}},
                    {"metadata", Json::parse(container.metadata_json, nullptr, false)}};
  json["shape"] = shape_json(volume.shape());
  json["dtype"] = dtype_name(volume.dtype());
  json["representation"] = representation_name(volume.representation());
  json["codec_profile"] = codec_profile_name(volume.profile());
  json["resident_bytes"] = volume.resident_bytes();
  json["logical_bytes"] = volume.logical_bytes();
  json["backend"] = backend_name(volume.device().backend());
  json["device"] = volume.device().info().name;
  json["audit"] = audit_json(volume);
  json["bad_pixels"] = {{"source_has_mask", container.has_pixel_mask},
                        {"count", volume.valid_pixels().count() - volume.valid_pixels().n_set()}};
  json["missing_positions"] = volume.valid_positions().count() - volume.valid_positions().n_set();
  json["calibration"] = calibration_json(volume.calibration());
  return json;
}

std::vector<std::string> sheet_header(const Container& container, const Volume& volume,
                                      const Calibration& calibration) {
  std::vector<std::string> lines;
  lines.push_back(fmt::format("{} scan positions, {} detector pixels, {}; counts {} to {}",
                              to_string(volume.shape().scan), to_string(volume.shape().det), dtype_name(volume.dtype()),
                              format_count(volume.audit().count_min), format_count(volume.audit().count_max)));
  const std::uint64_t n_bad = volume.valid_pixels().count() - volume.valid_pixels().n_set();
  const std::uint64_t n_missing = volume.valid_positions().count() - volume.valid_positions().n_set();
  lines.push_back(fmt::format("{}; {}",
                              container.has_pixel_mask || n_bad ? fmt::format("{} bad pixels", n_bad) : "no pixel mask",
                              n_missing ? fmt::format("{} positions missing", n_missing) : "no position missing"));
  lines.push_back(calibration_text(calibration));
  return lines;
}

Result<Done> compare_with_truth(const std::optional<Image<float>>& phase, const std::string& truth,
                                const std::string& at_least, Json& report, Answer& answer) {
  report["truth"] = nullptr;
  if (truth.empty()) {
    if (!at_least.empty()) return Error{Code::invalid_argument, "--truth-at-least needs --truth FILE.npy"};
    return Done{};
  }
  if (!phase) return Error{Code::invalid_argument, "--truth: iDPC was not made, so there is nothing to compare"};
  QUANTEM_TRY_ASSIGN(correlation, correlation_with(*phase, truth));
  report["truth"] = {{"file", truth}, {"correlation", correlation}};
  answer.text += fmt::format("  correlation of iDPC with {}: {:.6f}\n", truth, correlation);
  if (at_least.empty()) return Done{};
  QUANTEM_TRY_ASSIGN(bound, parse_number(at_least, "--truth-at-least"));
  if (!(correlation >= bound)) {
    answer.exit_status = 7;
    answer.failure =
        fmt::format("correlation of iDPC with {} is {:.6f}, expected at least {}", truth, correlation, bound);
  }
  return Done{};
}

Result<double> correlation_with(const Image<float>& image, const std::filesystem::path& file) {
  QUANTEM_TRY_ASSIGN(truth, read_npy(file));
  if (truth.shape != std::vector<std::uint64_t>{image.extent.rows, image.extent.cols})
    return Error{Code::invalid_argument, fmt::format("--truth {}: expected shape {}, found {}", file.string(),
                                                     to_string(image.extent), npy_shape_text(truth.shape))};
  double n = 0, mean_a = 0, mean_b = 0;
  const auto usable = [&](std::size_t i) {
    return image.is_valid(i) && std::isfinite(image.values[i]) && std::isfinite(truth.values[i]);
  };
  for (std::size_t i = 0; i < truth.values.size(); ++i)
    if (usable(i)) mean_a += static_cast<double>(image.values[i]), mean_b += truth.values[i], n += 1;
  mean_a /= n, mean_b /= n;
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < truth.values.size(); ++i)
    if (usable(i)) {
      const double a = static_cast<double>(image.values[i]) - mean_a, b = truth.values[i] - mean_b;
      ab += a * b, aa += a * a, bb += b * b;
    }
  if (!(aa > 0 && bb > 0))
    return Error{Code::undetermined, fmt::format("--truth {}: one of the two images is flat", file.string())};
  return ab / std::sqrt(aa * bb);
}

}  // namespace quantem::cli
