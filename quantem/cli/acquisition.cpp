#include "quantem/cli/acquisition.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <utility>

#include "quantem/cli/comparison.h"
#include "quantem/cli/deflection.h"
#include "quantem/cli/parse.h"
#include "quantem/cli/resolve.h"
#include "quantem/dpc/device_dpc.h"
#include "quantem/io/load.h"
#include "quantem/resident/series.h"

namespace quantem::cli {
namespace {

namespace fs = std::filesystem;

// A folder for each file: DIR itself for one, DIR/STEM for several.
Result<std::vector<fs::path>> folders_of(const ResultArguments& arguments) {
  std::vector<fs::path> folders;
  for (const std::string& file : arguments.files) {
    fs::path folder = arguments.out;
    if (arguments.files.size() > 1) folder /= stem_of(file);
    if (std::find(folders.begin(), folders.end(), folder) != folders.end())
      return Error{Code::invalid_argument, fmt::format("series: {} and another FILE would both write to {}; give them "
                                                       "in separate calls",
                                                       file, folder.string())};
    folders.push_back(std::move(folder));
  }
  return folders;
}

Result<WriteFormats> formats_of(const ResultArguments& arguments) {
  WriteFormats formats{false, false, false};
  for (const std::string_view name : split(arguments.write, ',')) {
    if (name == "npy")
      formats.npy = true;
    else if (name == "tiff" || name == "tif")
      formats.tiff = true;
    else if (name == "png")
      formats.png = !arguments.no_pictures;
    else
      return Error{Code::invalid_argument,
                   fmt::format("--write: expected npy, tiff and png as a list, found '{}'", arguments.write)};
  }
  return formats;
}

// A file's description with the seconds that it took to read.
struct Inspected {
  Result<Container> container;
  double seconds;
};

Inspected inspect_file(const std::string& file, const ResultArguments& arguments) {
  Stopwatch watch;
  auto container = open_ready(file, arguments.source);
  return {std::move(container), watch.lap()};
}

Result<Acquisition> load_acquisition(const std::string& file, Inspected inspected, const ResultArguments& arguments,
                                     const LoadOptions& how, Device& device, Session& session, Collection& collection) {
  session.begin_acquisition(&file == &arguments.files.back());
  QUANTEM_TRY_ASSIGN(container, std::move(inspected.container));
  QUANTEM_TRY(override_calibration(arguments.calibration, container.calibration));
  for (const std::string& warning : container.warnings) session.warn(warning);
  collection.time("inspect", inspected.seconds);
  Stopwatch watch;
  QUANTEM_TRY_ASSIGN(volume, load(device, container, how, session.job()));
  collection.time("load", watch.lap());
  if (volume.valid_positions().none())
    return Error{Code::missing_data,
                 fmt::format("{}: none of the {} scan positions has a frame, so there is nothing to "
                             "show; quantem-gpu info says which files are missing",
                             file, volume.shape().n_positions())};
  const Calibration calibration = volume.calibration();
  return Acquisition{std::move(container), std::move(volume), calibration};
}

bool contains_dpc(const std::vector<std::string>& products) {
  return std::any_of(products.begin(), products.end(),
                     [](const std::string& name) { return name == "idpc" || name == "dpc_magnitude"; });
}

// How a file is named in an error of its series.
std::string place_of(const std::vector<std::string>& files, std::size_t i) {
  return fmt::format("series: {} ({} of {})", files[i], i + 1, files.size());
}

// Lists a file that cannot be loaded, where that was asked for; else the error.
Result<Done> skipped_or_failed(const Error& error, OnError on_error, std::size_t i,
                               const std::vector<std::string>& files, Answer& series, Session& session) {
  if (on_error == OnError::fail || error.code == Code::cancelled || error.code == Code::internal)
    return with_context(place_of(files, i), error);
  const std::string message = with_option_names(error.message);
  session.warn(fmt::format("skipped {}: {}", files[i], message));
  series.result["skipped"].push_back({{"file", files[i]}, {"code", code_info(error.code).name}, {"message", message}});
  series.text += fmt::format("{}\n  skipped: {}\n", files[i], message);
  return Done{};
}

// The answers of a series as one.
void append(Answer& series, Answer one) {
  series.result["series"].push_back(std::move(one.result));
  series.text += one.text;
  if (one.exit_status == 0 || series.exit_status != 0) return;
  series.exit_status = one.exit_status;
  series.failure = std::move(one.failure);
  series.failure_code = std::move(one.failure_code);
}

}  // namespace

Result<Answer> for_each_acquisition(const ResultArguments& arguments, Session& session,
                                    const std::vector<std::string>& planned_products,
                                    const std::vector<std::string>& planned_pictures, const MakeResults& make) {
  QUANTEM_TRY_ASSIGN(formats, formats_of(arguments));
  QUANTEM_TRY_ASSIGN(folders, folders_of(arguments));
  std::vector<std::string> names = {"report.json", "contact_sheet.png"};
  for (const std::string& product : planned_products)
    for (std::string& name : Collection::file_names(product)) names.push_back(std::move(name));
  for (const std::string& picture : planned_pictures) names.push_back(picture + ".png");
  std::vector<OutputSet> outputs;
  for (const fs::path& folder : folders) {
    outputs.emplace_back(folder, arguments.overwrite);
    QUANTEM_TRY(outputs.back().check(names));
  }
  QUANTEM_TRY_ASSIGN(how, load_options(arguments.load));
  QUANTEM_TRY(open_options(arguments.source));
  auto on_error = parse_on_error(arguments.on_error);
  if (!on_error)
    return Error{Code::invalid_argument,
                 fmt::format("--on-error: expected fail or skip, found '{}'", arguments.on_error)};
  Calibration given;  // options are read before any file is
  QUANTEM_TRY(override_calibration(arguments.calibration, given));
  QUANTEM_TRY_ASSIGN(dpc, dpc_options(arguments.dpc, given));
  if (!arguments.truth_at_least.empty()) QUANTEM_TRY(parse_number(arguments.truth_at_least, "--truth-at-least"));
  for (const std::string& small : {arguments.mask, arguments.truth})  // before anything long begins
    if (!small.empty()) QUANTEM_TRY(read_npy(small));
  // A device takes longer to open than a file to inspect.
  QUANTEM_TRY_ASSIGN(choice, session.choose(arguments.device));
  auto opening = std::async(std::launch::async, [&choice] {
    Stopwatch watch;
    auto opened = Session::open(choice);
    return std::pair(std::move(opened), watch.lap());
  });
  std::optional<Inspected> first = inspect_file(arguments.files.front(), arguments);
  auto opened = opening.get();
  QUANTEM_TRY_ASSIGN(device, std::move(opened.first));
  std::future<void> preparing;
  if (contains_dpc(planned_products) && first->container && !how.scan_region && how.scan_bin == Extent{1, 1})
    preparing = std::async(std::launch::async,
                           [&device, &dpc, scan = first->container->shape.scan] { prepare_dpc(device, scan, dpc); });

  Answer series;
  series.result["series"] = series.result["skipped"] = Json::array();
  std::optional<Error> first_skipped;
  for (std::size_t i = 0; i < folders.size(); ++i) {
    Collection collection(formats, i == 0 ? session.began() : std::chrono::steady_clock::now());
    if (i == 0) collection.time("device", opened.second);
    auto inspected = i == 0 ? *std::exchange(first, std::nullopt) : inspect_file(arguments.files[i], arguments);
    auto loaded =
        load_acquisition(arguments.files[i], std::move(inspected), arguments, how, device, session, collection);
    if (preparing.valid()) {
      Stopwatch watch;
      preparing.get();
      collection.time("prepare_dpc", watch.lap());
    }
    if (!loaded && folders.size() > 1) {
      QUANTEM_TRY(skipped_or_failed(loaded.error(), *on_error, i, arguments.files, series, session));
      if (!first_skipped) first_skipped = with_context(place_of(arguments.files, i), loaded.error());
      continue;
    }
    if (!loaded) return loaded.take_error();
    auto answer = make(*std::move(loaded), std::move(collection), outputs[i]);
    if (folders.size() == 1) return answer;
    if (!answer) return with_context(place_of(arguments.files, i), answer.error());
    append(series, *std::move(answer));
  }
  if (series.result["series"].empty())
    return with_context("no acquisition of the series could be loaded", *first_skipped);
  return series;
}

Result<Answer> write_results(Acquisition acquisition, const Findings& findings, const ResultArguments& arguments,
                             Collection& collection, OutputSet& output, Session& session) {
  const Container& container = acquisition.container;
  for (const auto& product : collection.products())
    for (const std::string& warning : product->provenance.warnings) session.warn(warning);
  Json report = {{"schema", "quantem.gpu.report/v1"}, {"command", findings.command}, {"version", software_revision()}};
  report.update(acquisition_json(container, acquisition.volume));
  report["calibration"] = calibration_json(acquisition.calibration);
  report.update(findings.report);
  Answer answer;
  QUANTEM_TRY(compare_with_truth(findings.phase, arguments.truth, arguments.truth_at_least, report, answer));
  const std::string truth_line = std::move(answer.text);
  Sheet sheet;
  sheet.title = container.path.filename().string();
  sheet.header = sheet_header(container, acquisition.volume, acquisition.calibration);
  sheet.footer = collection.note_lines();
  for (const std::string& line : sheet.footer) session.say("note: " + line);
  sheet.footer.insert(sheet.footer.end(), session.acquisition_warnings().begin(), session.acquisition_warnings().end());
  if (session.cancelled())
    return Error{Code::cancelled, std::string(findings.command) + " cancelled; nothing was written"};
  const auto freeing = session.free_beside(std::move(acquisition.volume));
  QUANTEM_TRY_ASSIGN(written, collection.write(output, std::move(report), sheet, session.acquisition_warnings()));

  answer.text = fmt::format("{}\n", container.path.string());
  for (const std::string& line : sheet.header) answer.text += "  " + line + "\n";
  for (const std::string& line : findings.lines) answer.text += "  " + line + "\n";
  answer.text += truth_line;
  answer.text += fmt::format("{} product(s) in {}\n", collection.products().size(), output.folder().string());
  if (!written["contact_sheet"].is_null())
    answer.text += fmt::format("  all of them: {}\n", (output.folder() / "contact_sheet.png").string());
  answer.text += fmt::format("  numbers and provenance: {}\n", (output.folder() / "report.json").string());
  answer.result = std::move(written);
  answer.result["folder"] = output.folder().string();
  return answer;
}

}  // namespace quantem::cli
