#include "quantem/cli/acquisition.h"

#include <fmt/format.h>

#include <algorithm>

#include "quantem/cli/deflection.h"
#include "quantem/cli/parse.h"
#include "quantem/cli/resolve.h"
#include "quantem/io/load.h"

namespace quantem::cli {
namespace {

namespace fs = std::filesystem;

// "scan_7" of /data/scan_7_master.h5.
std::string stem_of(const std::string& file) {
  std::string stem = fs::path(file).stem().string();
  if (stem.size() > 7 && stem.ends_with("_master")) stem.resize(stem.size() - 7);
  return stem;
}

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

Result<Answer> one_acquisition(const std::string& file, const ResultArguments& arguments, const LoadOptions& how,
                               WriteFormats formats, Device& device, OutputSet& output, Session& session,
                               const MakeResults& make) {
  Stopwatch watch;
  Collection collection(formats);
  session.begin_acquisition();
  QUANTEM_TRY_ASSIGN(container, open_ready(file, arguments.source));
  QUANTEM_TRY(override_calibration(arguments.calibration, container.calibration));
  for (const std::string& warning : container.warnings) session.warn(warning);
  collection.time("inspect", watch.lap());
  QUANTEM_TRY_ASSIGN(volume, load(device, container, how, session.job()));
  collection.time("load", watch.lap());
  if (volume.valid_positions().none())
    return Error{Code::missing_data,
                 fmt::format("{}: none of the {} scan positions has a frame, so there is nothing to "
                             "show; quantem-gpu info says which files are missing",
                             file, volume.shape().n_positions())};
  const Calibration calibration = volume.calibration();
  return make({std::move(container), std::move(volume), calibration}, std::move(collection), output);
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
  Calibration given;  // options are read before any file is
  QUANTEM_TRY(override_calibration(arguments.calibration, given));
  QUANTEM_TRY(dpc_options(arguments.dpc, given));
  if (!arguments.truth_at_least.empty()) QUANTEM_TRY(parse_number(arguments.truth_at_least, "--truth-at-least"));
  for (const std::string& small : {arguments.mask, arguments.truth})  // before anything long begins
    if (!small.empty()) QUANTEM_TRY(read_npy(small));
  QUANTEM_TRY_ASSIGN(device, session.open(arguments.device));

  Answer series;
  series.result["series"] = Json::array();
  for (std::size_t i = 0; i < folders.size(); ++i) {
    const std::string& file = arguments.files[i];
    auto answer = one_acquisition(file, arguments, how, formats, device, outputs[i], session, make);
    if (folders.size() == 1) return answer;
    if (!answer) return with_context(fmt::format("series: {} ({} of {})", file, i + 1, folders.size()), answer.error());
    append(series, *std::move(answer));
  }
  return series;
}

Result<Answer> write_results(const Acquisition& acquisition, const Findings& findings, const ResultArguments& arguments,
                             const Collection& collection, OutputSet& output, Session& session) {
  const Container& container = acquisition.container;
  for (const Product& product : collection.products())
    for (const std::string& warning : product.provenance.warnings) session.warn(warning);
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
  QUANTEM_TRY_ASSIGN(written, collection.write(output, std::move(report), sheet, session.acquisition_warnings()));
  QUANTEM_TRY(output.commit());

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
