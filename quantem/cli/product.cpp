#include "quantem/cli/product.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "quantem/cli/parse.h"
#include "quantem/display/png.h"
#include "quantem/display/tiff.h"
#include "quantem/runtime/thread_pool.h"

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

Product Collection::begin(const std::string& name, const std::string& title, const std::string& unit,
                          const Provenance& provenance, Dtype dtype, Extent extent) {
  Product product;
  product.name = name, product.title = title, product.unit = unit, product.dtype = dtype;
  product.shape = {extent.rows, extent.cols};
  product.provenance = provenance;
  return product;
}

Result<Done> Collection::finish(Product product, const Image<float>& shown, const Look& look) {
  product.statistics = statistics_of(shown);
  if (formats_.tiff) {
    QUANTEM_TRY_ASSIGN(tiff, tiff_of(product, shown, look.step));
    product.tiff = std::move(tiff);
  }
  if (formats_.png) {
    auto range = look.limits      ? manual_window(look.limits->first, look.limits->second)
                 : look.symmetric ? symmetric_window(shown)
                                  : window(shown, {}, look.transform);
    if (!range) return range.take_error();
    Panel panel;
    panel.title = product.title, panel.subtitle = look.subtitle, panel.step = look.step, panel.circles = look.circles;
    auto drawn = show_image(std::move(panel), shown, *range, look.colormap);
    if (!drawn) return drawn.take_error();
    product.panel = *std::move(drawn);
  }
  products_.push_back(std::move(product));
  return Done{};
}

Result<Done> Collection::add_vectors(const std::string& title, const Grid<float>& row, const Grid<float>& col,
                                     const Look& look) {
  if (!formats_.png) return Done{};
  Panel panel;
  panel.title = title, panel.subtitle = look.subtitle, panel.step = look.step;
  QUANTEM_TRY_ASSIGN(drawn, show_vectors(std::move(panel), row, col));
  extra_panels_.emplace_back("dpc_vectors", std::move(drawn));
  return Done{};
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
                               const std::vector<std::string>& warnings) const {
  Stopwatch watch;
  QUANTEM_TRY_ASSIGN(pictures, draw(sheet));
  const double drawing_s = watch.lap();
  auto picture = pictures.begin();
  report["products"] = Json::object();
  for (const Product& product : products_) {
    const auto put = [&](const std::string& bytes, const char* ending) {
      if (bytes.empty()) return Json();
      output.add(product.name + ending, bytes);
      return Json(product.name + ending);
    };
    const Json provenance = provenance_json(product.provenance);
    output.add(product.name + ".json", text_of(provenance));
    report["products"][product.name] = {{"array", put(product.npy, ".npy")},
                                        {"tiff", put(product.tiff, ".tif")},
                                        {"title", product.title},
                                        {"shape", product.shape},
                                        {"dtype", dtype_name(product.dtype)},
                                        {"unit", product.unit},
                                        {"statistics", product.statistics},
                                        {"picture", product.panel ? put(*picture++, ".png") : Json()},
                                        {"provenance", provenance}};
  }
  for (const auto& [stem, panel] : extra_panels_) output.add(stem + ".png", *picture++);
  report["contact_sheet"] = nullptr;
  if (picture != pictures.end()) {
    output.add("contact_sheet.png", *picture);
    report["contact_sheet"] = "contact_sheet.png";
  }
  report["notes"] = notes_;
  report["timings_s"] = Json::object();
  for (const auto& [stage, seconds] : timings_) report["timings_s"][stage] = seconds;
  if (!pictures.empty()) report["timings_s"]["pictures"] = drawing_s;
  report["warnings"] = warnings;
  output.add("report.json", text_of(report));
  return report;
}

// The PNG of every product that has a panel, of the extra panels, and of the sheet of them all, in this order; none where there is no panel.
// Compressing them is most of the time of a run, so each has a thread.
Result<std::vector<std::string>> Collection::draw(const Sheet& sheet) const {
  std::vector<Panel> panels;
  std::vector<const Provenance*> origins;
  for (const Product& product : products_)
    if (product.panel) panels.push_back(*product.panel), origins.push_back(&product.provenance);
  for (const auto& extra : extra_panels_)
    panels.push_back(extra.second), origins.push_back(&products_.back().provenance);
  if (panels.empty()) return std::vector<std::string>();
  origins.push_back(&products_.front().provenance);
  std::vector<std::string> pictures(origins.size());
  std::vector<std::optional<Error>> errors(origins.size());
  parallel_for(pictures.size(), [&](std::uint64_t k) {
    const std::uint64_t i = pictures.size() - 1 - k;  // the sheet is the largest: first
    const auto made = [&]() -> Result<std::string> {
      QUANTEM_TRY_ASSIGN(picture, i < panels.size() ? draw_panel(panels[i]) : contact_sheet(panels, sheet));
      return png_of(picture, *origins[i]);
    };
    if (auto png = made())
      pictures[i] = *std::move(png);
    else
      errors[i] = png.take_error();
  });
  for (const auto& error : errors)
    if (error) return *error;
  return pictures;
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
