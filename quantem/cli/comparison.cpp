#include "quantem/cli/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "quantem/cli/parse.h"
#include "quantem/display/compare.h"
#include "quantem/display/png.h"

namespace quantem::cli {
namespace {

constexpr std::size_t kLongName = 24;  // characters that surely fit above a panel
constexpr std::string_view kEllipsis = "\u2026";

std::string picture_name(std::uint64_t i) {
  return i == 0 ? "compare.png" : fmt::format("compare_{}.png", i + 1);
}

Result<std::string> product_to_compare(const ProductsArguments& arguments, const std::vector<std::string>& made) {
  const auto is_made = [&](const std::string& name) { return std::find(made.begin(), made.end(), name) != made.end(); };
  if (arguments.compare == "none") return std::string();
  if (!arguments.compare.empty()) {
    if (arguments.files.size() < 2) return Error{Code::invalid_argument, "--compare needs several FILEs; there is one"};
    if (is_detector(arguments.compare) && is_made(arguments.compare)) return arguments.compare;
    return Error{Code::invalid_argument,
                 fmt::format("--compare: expected 'none' or a detector image that is made here ({}), found '{}'",
                             fmt::join(made, ", "), arguments.compare)};
  }
  if (is_made("bf")) return std::string("bf");
  const auto first = std::find_if(made.begin(), made.end(), [](const std::string& n) { return is_detector(n); });
  return first == made.end() ? std::string() : *first;
}

Result<std::vector<std::optional<double>>> tilts_of(const ProductsArguments& arguments) {
  std::vector<std::optional<double>> tilts;
  if (arguments.tilts_deg.empty()) return tilts;
  for (const std::string_view text : split(arguments.tilts_deg, ',')) {
    QUANTEM_TRY_ASSIGN(tilt, parse_number(std::string(text), "--tilts-deg"));
    tilts.emplace_back(tilt);
  }
  if (tilts.size() != arguments.files.size())
    return Error{Code::invalid_argument,
                 fmt::format("--tilts-deg: expected a number for each of the {} FILEs, found {}",
                             arguments.files.size(), tilts.size())};
  return tilts;
}

std::string tilt_text(double tilt_deg) {
  return fmt::format("tilt {}{:g}\u00b0", tilt_deg > 0 ? "+" : "", tilt_deg);
}

}  // namespace

std::string stem_of(const std::string& file) {
  std::string stem = std::filesystem::path(file).stem().string();
  if (stem.size() > 7 && stem.ends_with("_master")) stem.resize(stem.size() - 7);
  return stem;
}

std::vector<std::string> short_names(std::vector<std::string> names) {
  if (names.size() < 2 ||
      std::none_of(names.begin(), names.end(), [](const std::string& n) { return n.size() > kLongName; }))
    return names;
  std::size_t common = 0;
  while (std::all_of(names.begin(), names.end(),
                     [&](const std::string& n) { return common + 1 < n.size() && n[common] == names.front()[common]; }))
    ++common;
  // A sign belongs to the number behind it: "tilt_-10" and "tilt_-5" keep theirs.
  const std::size_t at = names.front().substr(0, common).find_last_of("_. ");
  if (at == std::string::npos) return names;
  for (std::string& name : names) name = std::string(kEllipsis) + name.substr(at + 1);
  return names;
}

std::optional<double> tilt_of(const std::string& metadata_json) {
  constexpr std::string_view kKeys[] = {"tilt_deg",       "tilt_angle_deg",  "alpha_tilt_deg",
                                        "stage_tilt_deg", "stage_alpha_deg", "alpha_deg"};
  const Json metadata = Json::parse(metadata_json, nullptr, false);
  if (!metadata.is_object()) return std::nullopt;
  const Json flat = metadata.flatten();
  for (const auto& [path, value] : flat.items()) {
    const std::string key = path.substr(path.rfind('/') + 1);
    if (value.is_number() && std::find(std::begin(kKeys), std::end(kKeys), key) != std::end(kKeys))
      return value.get<double>();
  }
  return std::nullopt;
}

Result<Comparison> Comparison::plan(const ProductsArguments& arguments, const std::vector<std::string>& made) {
  Comparison c(OutputSet(arguments.out, arguments.overwrite));
  QUANTEM_TRY_ASSIGN(product, product_to_compare(arguments, made));
  QUANTEM_TRY_ASSIGN(tilts, tilts_of(arguments));
  if (arguments.compare_window != "common" && arguments.compare_window != "each")
    return Error{Code::invalid_argument,
                 fmt::format("--compare-window: expected common or each, found '{}'", arguments.compare_window)};
  const auto formats = split(arguments.write, ',');
  const bool pictures = !arguments.no_pictures && std::find(formats.begin(), formats.end(), "png") != formats.end();
  if (arguments.files.size() < 2 || !pictures || product.empty()) return c;
  c.product_ = std::move(product);
  c.tilts_deg_ = std::move(tilts);
  c.common_window_ = arguments.compare_window == "common";
  c.files_ = arguments.files;
  std::vector<std::string> names{"compare.json"};
  for (std::uint64_t i = 0; i < n_compare_grids(arguments.files.size()); ++i) names.push_back(picture_name(i));
  QUANTEM_TRY(c.output_.check(names));
  return c;
}

void Comparison::add(const Container& container, const std::string& title, const Image<float>& image,
                     const ProbeFacts& facts, const std::optional<PixelStep>& step) {
  title_ = title;
  const std::string file = container.path.string();
  std::optional<double> tilt = tilt_of(container.metadata_json);
  const auto place = std::find_if(files_.begin(), files_.end(), [&](const std::string& f) {
    return std::filesystem::path(f).lexically_normal() == std::filesystem::path(file).lexically_normal();
  });
  if (!tilts_deg_.empty() && place != files_.end()) tilt = tilts_deg_[static_cast<std::size_t>(place - files_.begin())];
  members_.push_back({stem_of(file), file, image, step, facts.probe, tilt});
}

std::vector<std::string> Comparison::header() const {
  std::vector<std::string> lines;
  lines.push_back(fmt::format("{} of {} acquisitions; {}", members_.size(), files_.size(),
                              common_window_ ? "one window for all panels: brightness can be compared"
                                             : "each panel has its own window: brightness cannot be compared"));
  std::string unknown;
  for (const std::string& file : files_)
    if (std::none_of(members_.begin(), members_.end(), [&](const Member& m) { return m.name == stem_of(file); }))
      unknown += (unknown.empty() ? "" : ", ") + stem_of(file);
  if (!unknown.empty()) lines.push_back("not shown: " + unknown);
  return lines;
}

Json Comparison::json(const std::vector<std::string>& pictures) const {
  Json json = {{"product", product_}, {"window", common_window_ ? "common" : "each"}, {"pictures", pictures}};
  json["acquisitions"] = Json::array();
  for (const Member& m : members_)
    json["acquisitions"].push_back({{"name", m.name},
                                    {"file", m.file},
                                    {"tilt_deg", m.tilt_deg ? Json(*m.tilt_deg) : Json()},
                                    {"center", m.probe ? to_json_array(m.probe->center) : Json()},
                                    {"radius_px", m.probe ? Json(m.probe->radius) : Json()},
                                    {"provenance", provenance_json(m.image.provenance)}});
  return json;
}

Result<Done> Comparison::write(Answer& series, const Session& session) {
  if (members_.empty()) return Done{};
  if (session.cancelled()) return Error{Code::cancelled, "products cancelled; the comparison was not written"};
  std::vector<std::string> names;
  for (const Member& m : members_) names.push_back(m.name);
  names = short_names(std::move(names));
  std::vector<ComparePanel> panels;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const Member& m = members_[i];
    std::string subtitle = m.tilt_deg ? tilt_text(*m.tilt_deg) : "";
    if (m.probe)
      subtitle += fmt::format("{}disc ({:.1f}, {:.1f}), R {:.1f} px", m.tilt_deg ? ", " : "", m.probe->center.row,
                              m.probe->center.col, m.probe->radius);
    panels.push_back({names[i], std::move(subtitle), &m.image, m.step});
  }
  CompareOptions options;
  options.common_window = common_window_;
  Sheet sheet;
  sheet.title = title_;
  sheet.header = header();
  if (const std::string& full = members_.front().name; names.front() != full)
    sheet.header.push_back("\u2026 is " + full.substr(0, full.size() - (names.front().size() - kEllipsis.size())));
  QUANTEM_TRY_ASSIGN(grids, compare_grids(panels, sheet, options));
  std::vector<std::string> pictures;
  for (std::uint64_t i = 0; i < grids.size(); ++i) {
    QUANTEM_TRY_ASSIGN(bytes, encode_png(grids[i]));
    pictures.push_back(picture_name(i));
    output_.add(pictures.back(), std::string(bytes.begin(), bytes.end()));
  }
  series.result["compare"] = json(pictures);
  output_.add("compare.json", series.result["compare"].dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  QUANTEM_TRY(output_.commit());
  for (const std::string& picture : pictures)
    series.text += fmt::format("{} of all: {}\n", product_, (output_.folder() / picture).string());
  return Done{};
}

}  // namespace quantem::cli
