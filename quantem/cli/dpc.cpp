// `quantem-gpu dpc`: centre of mass, rotation between detector and scan, DPC and iDPC, with everything in between.

#include <fmt/format.h>

#include "quantem/cli/deflection.h"
#include "quantem/cli/detectors.h"
#include "quantem/cli/product.h"
#include "quantem/cli/resolve.h"
#include "quantem/cli/verbs.h"
#include "quantem/detector/mean_pattern.h"
#include "quantem/io/load.h"

namespace quantem::cli {
namespace {

constexpr const char* kProducts[] = {"com_row",         "com_col",         "dpc_magnitude", "dpc_direction", "idpc",
                                     "com_row_aligned", "com_col_aligned", "divergence",    "curl"};

std::vector<std::string> planned_files() {
  std::vector<std::string> files = {"report.json", "contact_sheet.png", "dpc_vectors.png"};
  for (const char* product : kProducts)
    for (std::string& name : Collection::file_names(product)) files.push_back(std::move(name));
  return files;
}

// Detector sampling from the disc where only the semi-angle is known; without a disc it stays unknown.
Result<Calibration> completed_calibration(const Volume& volume, Session& session) {
  Calibration calibration = volume.calibration();
  if (!calibration.semiangle_mrad.value || calibration.det_sampling_mrad.value) return calibration;
  QUANTEM_TRY_ASSIGN(mean, mean_pattern(volume, session.job()));
  if (const auto probe = auto_probe(mean, volume.valid_pixels()))
    calibration.det_sampling_mrad = det_sampling_from_probe(*calibration.semiangle_mrad.value, *probe);
  else
    session.warn(probe.error().message);
  return calibration;
}

}  // namespace

Result<Answer> dpc(const DpcVerbArguments& arguments, Session& session) {
  OutputSet output(arguments.out, arguments.overwrite);
  QUANTEM_TRY(output.check(planned_files()));
  QUANTEM_TRY_ASSIGN(load_how, load_options(arguments.load));
  Calibration given;
  QUANTEM_TRY(override_calibration(arguments.calibration, given));
  QUANTEM_TRY(dpc_options(arguments.dpc, given));
  QUANTEM_TRY_ASSIGN(device, session.open(arguments.device));
  Stopwatch watch;
  QUANTEM_TRY_ASSIGN(container, open_ready(arguments.file, arguments.source));
  QUANTEM_TRY(override_calibration(arguments.calibration, container.calibration));
  for (const std::string& warning : container.warnings) session.warn(warning);
  QUANTEM_TRY_ASSIGN(volume, load(device, container, load_how, session.job()));
  Collection collection(!arguments.no_pictures);
  collection.time("load", watch.lap());

  QUANTEM_TRY_ASSIGN(calibration, completed_calibration(volume, session));
  std::optional<Mask> mask;
  if (!arguments.mask.empty()) {
    QUANTEM_TRY_ASSIGN(read, mask_of_file(arguments.mask, volume.shape().det));
    mask = std::move(read);
  }
  QUANTEM_TRY_ASSIGN(com, com_field(volume, mask ? &*mask : nullptr, session.job()));
  const ComMaps maps = to_maps(com);
  Look look;
  look.step = scan_step(calibration), look.colormap = "RdBu_r", look.subtitle = "detector axes, absolute";
  QUANTEM_TRY(collection.add("com_row", "CoM row", maps.row, look));
  QUANTEM_TRY(collection.add("com_col", "CoM col", maps.col, look));
  collection.time("com", watch.lap());
  QUANTEM_TRY_ASSIGN(options, dpc_options(arguments.dpc, calibration));
  QUANTEM_TRY_ASSIGN(deflection, add_deflection(com, calibration, options, true, true, true, collection));
  collection.time("dpc", watch.lap());

  for (const Product& product : collection.products())
    for (const std::string& warning : product.provenance.warnings) session.warn(warning);
  Json report = {{"schema", "quantem.gpu.report/v1"}, {"command", "dpc"}, {"version", software_revision()}};
  report.update(acquisition_json(container, volume));
  report["calibration"] = calibration_json(calibration);
  report["dpc"] = deflection.json;
  Answer answer;
  QUANTEM_TRY(compare_with_truth(deflection.phase, arguments.truth, arguments.truth_at_least, report, answer));
  const std::string truth_line = std::move(answer.text);
  Sheet sheet;
  sheet.title = container.path.filename().string();
  sheet.header = sheet_header(container, volume);
  sheet.footer = session.warnings();
  if (session.cancelled()) return Error{Code::cancelled, "dpc cancelled; nothing was written"};
  QUANTEM_TRY_ASSIGN(written, collection.write(output, std::move(report), sheet, session.warnings()));
  QUANTEM_TRY(output.commit());

  answer.text = container.path.string() + "\n";
  for (const std::string& line : sheet.header) answer.text += "  " + line + "\n";
  for (const std::string& line : deflection.lines) answer.text += "  " + line + "\n";
  answer.text += truth_line;
  answer.text += fmt::format("{} product(s) in {}\n", collection.products().size(), output.folder().string());
  answer.result = std::move(written);
  answer.result["folder"] = output.folder().string();
  return answer;
}

}  // namespace quantem::cli
