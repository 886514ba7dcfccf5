// `quantem-gpu products`: every image and pattern of an acquisition, each with its provenance, in one folder.

#include <fmt/format.h>

#include <algorithm>

#include "quantem/cli/deflection.h"
#include "quantem/cli/detectors.h"
#include "quantem/cli/parse.h"
#include "quantem/cli/product.h"
#include "quantem/cli/resolve.h"
#include "quantem/cli/verbs.h"
#include "quantem/detector/masked_sum.h"
#include "quantem/detector/mean_pattern.h"
#include "quantem/display/fft_magnitude.h"
#include "quantem/io/load.h"

namespace quantem::cli {
namespace {

constexpr const char* kAll[] = {"bf", "abf", "adf", "haadf", "df", "total", "mean", "max", "com", "dpc", "idpc", "fft"};

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// What is made, in the order of the sheet. Asked for by name, a product that cannot be made is an error; else it is a note.
struct Plan {
  std::vector<std::string> names;
  bool by_name = false;
  [[nodiscard]] bool has(std::string_view name) const { return contains(names, name); }
};

Plan make_plan(const ProductsArguments& a) {
  Plan plan;
  plan.by_name = !a.selected.empty();
  for (const char* name : kAll)
    if (!plan.by_name || contains(a.selected, name)) plan.names.push_back(name);
  const bool limits = !a.inner.empty() || !a.outer.empty();
  const bool ring_selected = contains(a.selected, "abf") || contains(a.selected, "adf") ||
                             contains(a.selected, "haadf") || contains(a.selected, "df");
  const auto after_detectors = [&] {
    return std::find_if(plan.names.begin(), plan.names.end(), [](const std::string& n) { return !is_detector(n); });
  };
  if (limits && !ring_selected) plan.names.insert(after_detectors(), "annular");
  if (!a.mask.empty()) plan.names.insert(after_detectors(), "masked");
  return plan;
}

std::vector<std::string> planned_files(const Plan& plan) {
  std::vector<std::string> files = {"report.json", "contact_sheet.png"};
  const auto add = [&](const std::string& product) {
    for (std::string& name : Collection::file_names(product)) files.push_back(std::move(name));
  };
  for (const std::string& name : plan.names) {
    if (name == "com")
      add("com_row"), add("com_col");
    else if (name == "dpc")
      add("dpc_magnitude"), add("dpc_direction"), files.push_back("dpc_vectors.png");
    else if (name == "fft")
      add("fft_bf"), add("fft_idpc");
    else
      add(name), files.push_back(name + "_exact.npy");
  }
  return files;
}

// Everything that the steps share.
struct Work {
  const ProductsArguments& arguments;
  Session& session;
  Plan plan;
  Container container;
  Volume volume;
  Collection collection;
  Stopwatch watch;
  Pattern<double> mean;
  ProbeFacts facts;
  Calibration calibration;
  std::optional<Image<float>> bf, phase;
  Json deflection;
  std::vector<std::string> lines;

  // Fails when the product was asked for by name, else notes the refusal.
  Result<Done> refused(const std::string& product, const Error& error) {
    if (plan.by_name || error.code == Code::cancelled || error.code == Code::internal) return error;
    collection.refuse(product, error);
    return Done{};
  }
};

Result<Done> find_the_probe(Work& w) {
  QUANTEM_TRY_ASSIGN(mean, mean_pattern(w.volume, w.session.job()));
  w.mean = std::move(mean);
  w.collection.time("mean_pattern", w.watch.lap());
  w.calibration = w.volume.calibration();
  QUANTEM_TRY_ASSIGN(facts, probe_facts(w.arguments.probe, w.mean, w.volume.valid_pixels(), w.calibration));
  w.facts = std::move(facts);
  if (w.facts.probe && w.calibration.semiangle_mrad.value && !w.calibration.det_sampling_mrad.value)
    w.calibration.det_sampling_mrad = det_sampling_from_probe(*w.calibration.semiangle_mrad.value, *w.facts.probe);
  w.collection.time("probe", w.watch.lap());
  return Done{};
}

void record_probe(const ProbeFacts& facts, Provenance& provenance) {
  if (!facts.probe) return;
  provenance.probe = {facts.probe->center, facts.probe->radius, std::string(origin_name(facts.probe->center_origin)),
                      std::string(origin_name(facts.probe->radius_origin))};
}

Result<Done> add_exact(Work& w, const VirtualDetector& detector) {
  if (is_unsigned_count(w.volume.dtype())) {
    QUANTEM_TRY_ASSIGN(image, masked_sum_exact(w.volume, detector.mask));
    w.collection.add_array(detector.name + "_exact", image);
  } else if (is_signed_count(w.volume.dtype())) {
    QUANTEM_TRY_ASSIGN(image, masked_sum_signed(w.volume, detector.mask));
    w.collection.add_array(detector.name + "_exact", image);
  } else {
    return w.refused(detector.name + "_exact", Error{Code::wrong_dtype, "float counts have no exact integer sum"});
  }
  return Done{};
}

// All detectors in one pass over the counts.
Result<Done> add_images(Work& w) {
  std::vector<VirtualDetector> detectors;
  std::vector<Mask> masks;
  const auto want = [&](const std::string& name) -> Result<Done> {
    auto made = make_detector(name, w.arguments, w.facts, w.volume.shape().det, w.calibration);
    if (!made) return w.refused(name, made.error());
    masks.push_back(made->mask);
    detectors.push_back(*std::move(made));
    return Done{};
  };
  for (const std::string& name : w.plan.names)
    if (is_detector(name)) QUANTEM_TRY(want(name));
  if (w.plan.has("fft") && !w.plan.has("bf"))
    if (auto made = make_detector("bf", w.arguments, w.facts, w.volume.shape().det, w.calibration)) {
      QUANTEM_TRY_ASSIGN(image, masked_sum(w.volume, made->mask));
      w.bf = std::move(image);
    }
  if (masks.empty()) return Done{};
  QUANTEM_TRY_ASSIGN(images, masked_sums(w.volume, masks, w.session.job()));
  for (std::size_t i = 0; i < images.size(); ++i) {
    if (detectors[i].name != "total" && detectors[i].name != "masked") record_probe(w.facts, images[i].provenance);
    Look look;
    look.subtitle = detectors[i].subtitle;
    look.step = scan_step(w.calibration);
    QUANTEM_TRY(w.collection.add(detectors[i].name, detectors[i].title, images[i], look));
    if (w.arguments.exact) QUANTEM_TRY(add_exact(w, detectors[i]));
    if (detectors[i].name == "bf") w.bf = images[i];
  }
  w.collection.time("images", w.watch.lap());
  return Done{};
}

// max_pattern as the Grid of its dtype.
template <class T>
Pattern<T> as_pattern(const HostArray& array, Extent det) {
  Pattern<T> pattern;
  pattern.extent = det;
  const auto values = array.as<T>();
  pattern.values.assign(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(det.count()));
  pattern.unit = "counts";
  pattern.valid = array.valid_pixels;
  pattern.provenance = array.provenance;
  return pattern;
}

Result<Done> add_patterns(Work& w) {
  Look look;
  look.colormap = "inferno", look.transform = Transform::log;
  look.step = detector_step(w.calibration);
  if (w.plan.has("mean")) {
    Look with_disc = look;
    if (w.facts.probe)
      with_disc.circles.push_back({w.facts.probe->center,
                                   w.facts.probe->radius,
                                   {80, 220, 255},
                                   fmt::format("centre ({:.2f}, {:.2f}), R {:.2f} px", w.facts.probe->center.row,
                                               w.facts.probe->center.col, w.facts.probe->radius)});
    with_disc.subtitle = "log scale";
    QUANTEM_TRY(w.collection.add("mean", "Mean pattern", w.mean, with_disc));
  }
  if (w.plan.has("max")) {
    QUANTEM_TRY_ASSIGN(array, max_pattern(w.volume, w.session.job()));
    Result<Done> added = Done{};
    look.subtitle = "log scale";
    visit_count_dtype(array.dtype, [&]<class T>() {
      added = w.collection.add("max", "Maximum pattern", as_pattern<T>(array, w.volume.shape().det), look);
    });
    QUANTEM_TRY(std::move(added));
  }
  w.collection.time("patterns", w.watch.lap());
  return Done{};
}

Result<Done> add_centers(Work& w) {
  if (!w.plan.has("com") && !w.plan.has("dpc") && !w.plan.has("idpc") && !w.plan.has("fft")) return Done{};
  QUANTEM_TRY_ASSIGN(com, com_field(w.volume, nullptr, w.session.job()));
  w.collection.time("com", w.watch.lap());
  const ComMaps maps = to_maps(com);
  if (w.plan.has("com")) {
    Look look;
    look.step = scan_step(w.calibration), look.colormap = "RdBu_r", look.subtitle = "detector axes, absolute";
    QUANTEM_TRY(w.collection.add("com_row", "CoM row", maps.row, look));
    QUANTEM_TRY(w.collection.add("com_col", "CoM col", maps.col, look));
  }
  const bool with_dpc = w.plan.has("dpc"), with_idpc = w.plan.has("idpc") || (w.plan.has("fft") && !w.plan.by_name);
  if (!with_dpc && !with_idpc) return Done{};
  QUANTEM_TRY_ASSIGN(options, dpc_options(w.arguments.dpc, w.calibration));
  auto answer = add_deflection(com, w.calibration, options, with_dpc, with_idpc, false, w.collection);
  if (!answer) return w.refused(with_dpc ? (with_idpc ? "dpc, idpc" : "dpc") : "idpc", answer.error());
  w.deflection = answer->json;
  w.phase = answer->phase;
  w.lines.insert(w.lines.end(), answer->lines.begin(), answer->lines.end());
  w.collection.time("dpc", w.watch.lap());
  return Done{};
}

Result<Done> add_transforms(Work& w) {
  if (!w.plan.has("fft")) return Done{};
  Look look;
  look.subtitle = "log magnitude";
  look.step = fft_step(w.calibration, w.volume.shape().scan);
  for (const auto& [name, image] : {std::pair{"bf", &w.bf}, std::pair{"idpc", &w.phase}}) {
    if (!*image) continue;  // said where the image itself was refused
    auto transformed = fft_magnitude(**image);
    if (!transformed) {
      QUANTEM_TRY(w.refused(std::string("fft_") + name, transformed.error()));
      continue;
    }
    const std::string title = std::string("FFT of ") + (name == std::string("bf") ? "BF" : "iDPC");
    QUANTEM_TRY(w.collection.add(std::string("fft_") + name, title, *transformed, look));
  }
  w.collection.time("fft", w.watch.lap());
  return Done{};
}

Json probe_json(const ProbeFacts& facts) {
  Json json = {{"center", facts.center ? to_json_array(*facts.center) : Json()},
               {"radius_px", facts.radius_px ? Json(*facts.radius_px) : Json()}};
  json["center_origin"] = facts.probe ? Json(origin_name(facts.probe->center_origin)) : Json();
  json["radius_origin"] = facts.probe ? Json(origin_name(facts.probe->radius_origin)) : Json();
  json["reason"] = facts.reason ? Json(facts.reason->message) : Json();
  return json;
}

Result<Answer> write_answer(Work& w, OutputSet& output) {
  for (const Product& product : w.collection.products())
    for (const std::string& warning : product.provenance.warnings) w.session.warn(warning);
  Json report = {{"schema", "quantem.gpu.report/v1"}, {"command", "products"}, {"version", software_revision()}};
  report.update(acquisition_json(w.container, w.volume));
  report["calibration"] = calibration_json(w.calibration);
  report["probe"] = probe_json(w.facts);
  report["dpc"] = w.deflection;
  Answer answer;
  QUANTEM_TRY(compare_with_truth(w.phase, w.arguments.truth, w.arguments.truth_at_least, report, answer));
  const std::string truth_line = std::move(answer.text);
  Sheet sheet;
  sheet.title = w.container.path.filename().string();
  sheet.header = sheet_header(w.container, w.volume);
  sheet.footer = w.collection.note_lines();
  for (const std::string& line : sheet.footer) w.session.say("note: " + line);
  sheet.footer.insert(sheet.footer.end(), w.session.warnings().begin(), w.session.warnings().end());
  if (w.session.cancelled()) return Error{Code::cancelled, "products cancelled; nothing was written"};
  QUANTEM_TRY_ASSIGN(written, w.collection.write(output, std::move(report), sheet, w.session.warnings()));
  QUANTEM_TRY(output.commit());

  answer.text = fmt::format("{}\n", w.container.path.string());
  for (const std::string& line : sheet.header) answer.text += "  " + line + "\n";
  answer.text += w.facts.probe
                     ? fmt::format("  disc: centre ({:.3f}, {:.3f}), R {:.3f} px\n", w.facts.probe->center.row,
                                   w.facts.probe->center.col, w.facts.probe->radius)
                     : fmt::format("  disc: {}\n", w.facts.reason ? w.facts.reason->message : "not looked for");
  for (const std::string& line : w.lines) answer.text += "  " + line + "\n";
  answer.text += truth_line;
  answer.text += fmt::format("{} product(s) in {}\n", w.collection.products().size(), output.folder().string());
  if (!w.arguments.no_pictures)
    answer.text += fmt::format("  all of them: {}\n", (output.folder() / "contact_sheet.png").string());
  answer.text += fmt::format("  numbers and provenance: {}\n", (output.folder() / "report.json").string());
  answer.result = std::move(written);
  answer.result["folder"] = output.folder().string();
  return answer;
}

}  // namespace

Result<Answer> products(const ProductsArguments& arguments, Session& session) {
  const Plan plan = make_plan(arguments);
  OutputSet output(arguments.out, arguments.overwrite);
  QUANTEM_TRY(output.check(planned_files(plan)));
  QUANTEM_TRY_ASSIGN(load_how, load_options(arguments.load));
  Calibration given;  // options are read before the file is
  QUANTEM_TRY(override_calibration(arguments.calibration, given));
  QUANTEM_TRY(dpc_options(arguments.dpc, given));
  QUANTEM_TRY_ASSIGN(device, session.open(arguments.device));
  Stopwatch watch;
  QUANTEM_TRY_ASSIGN(container, open_ready(arguments.file, arguments.source));
  QUANTEM_TRY(override_calibration(arguments.calibration, container.calibration));
  for (const std::string& warning : container.warnings) session.warn(warning);
  const double inspect_seconds = watch.lap();
  QUANTEM_TRY_ASSIGN(volume, load(device, container, load_how, session.job()));
  const double load_seconds = watch.lap();

  Work work{arguments,
            session,
            plan,
            std::move(container),
            std::move(volume),
            Collection(!arguments.no_pictures),
            watch,
            {},
            {},
            {},
            {},
            {},
            {},
            {}};
  work.collection.time("inspect", inspect_seconds);
  work.collection.time("load", load_seconds);
  QUANTEM_TRY(find_the_probe(work));
  QUANTEM_TRY(add_images(work));
  QUANTEM_TRY(add_patterns(work));
  QUANTEM_TRY(add_centers(work));
  QUANTEM_TRY(add_transforms(work));
  return write_answer(work, output);
}

}  // namespace quantem::cli
