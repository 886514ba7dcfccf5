// `quantem-gpu products`: every image and pattern of an acquisition, each with its provenance, in one folder.

#include <fmt/format.h>

#include <algorithm>

#include "quantem/cli/acquisition.h"
#include "quantem/cli/comparison.h"
#include "quantem/cli/deflection.h"
#include "quantem/cli/detectors.h"
#include "quantem/cli/frame_maps.h"
#include "quantem/cli/parse.h"
#include "quantem/detector/masked_sum.h"
#include "quantem/detector/mean_pattern.h"
#include "quantem/display/fft_magnitude.h"
#include "quantem/runtime/thread_pool.h"

namespace quantem::cli {
namespace {

// In the order of the sheet; the last one only by name.
constexpr const char* kAll[] = {"bf",  "abf", "adf", "haadf", "df",  "total", "mean",
                                "max", "com", "dpc", "idpc",  "fft", "stats"};

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
  for (const std::string name : kAll)
    if (plan.by_name ? contains(a.selected, name) : name != "stats") plan.names.push_back(name);
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

std::vector<std::string> planned_products(const Plan& plan) {
  std::vector<std::string> products;
  const auto add = [&](std::initializer_list<const char*> names) {
    products.insert(products.end(), names.begin(), names.end());
  };
  for (const std::string& name : plan.names) {
    if (name == "com")
      add({"com_row", "com_col"});
    else if (name == "dpc")
      add({"dpc_magnitude", "dpc_direction"});
    else if (name == "fft")
      add({"fft_bf", "fft_idpc"});
    else if (name == "stats")
      products.insert(products.end(), std::begin(kFrameMaps), std::end(kFrameMaps));
    else
      add({name.c_str(), (name + "_exact").c_str()});
  }
  return products;
}

// Everything that the steps share.
struct Work {
  const ProductsArguments& arguments;
  Session& session;
  const Plan& plan;
  Comparison& comparison;
  Acquisition acquisition;
  Collection collection;
  Stopwatch watch = {};
  Pattern<double> mean = {};
  ProbeFacts facts = {};
  std::optional<Image<float>> bf = {};
  Findings findings = {"products"};
  [[nodiscard]] const Volume& volume() const { return acquisition.volume; }
  [[nodiscard]] const Calibration& calibration() const { return acquisition.calibration; }

  // Fails when the product was asked for by name, else notes the refusal.
  Result<Done> refused(const std::string& product, const Error& error) {
    if (plan.by_name || error.code == Code::cancelled || error.code == Code::internal) return error;
    collection.refuse(product, error);
    return Done{};
  }
};

Result<Done> find_the_probe(Work& w) {
  QUANTEM_TRY_ASSIGN(mean, mean_pattern(w.volume(), w.session.job()));
  w.mean = std::move(mean);
  w.collection.time("mean_pattern", w.watch.lap());
  QUANTEM_TRY_ASSIGN(facts, probe_facts(w.arguments.probe, w.mean, w.volume().valid_pixels(), w.calibration()));
  w.facts = std::move(facts);
  Calibration& known = w.acquisition.calibration;
  if (w.facts.probe && known.semiangle_mrad.value && !known.det_sampling_mrad.value)
    known.det_sampling_mrad = det_sampling_from_probe(*known.semiangle_mrad.value, *w.facts.probe);
  w.collection.time("probe", w.watch.lap());
  return Done{};
}

void record_probe(const ProbeFacts& facts, Provenance& provenance) {
  if (!facts.probe) return;
  provenance.probe = {facts.probe->center, facts.probe->radius, std::string(origin_name(facts.probe->center_origin)),
                      std::string(origin_name(facts.probe->radius_origin))};
}

Result<Done> add_exact(Work& w, const VirtualDetector& detector) {
  if (is_unsigned_count(w.volume().dtype())) {
    QUANTEM_TRY_ASSIGN(image, masked_sum_exact(w.volume(), detector.mask));
    w.collection.add_array(detector.name + "_exact", image);
  } else if (is_signed_count(w.volume().dtype())) {
    QUANTEM_TRY_ASSIGN(image, masked_sum_signed(w.volume(), detector.mask));
    w.collection.add_array(detector.name + "_exact", image);
  } else {
    return w.refused(detector.name + "_exact", Error{Code::wrong_dtype, "float counts have no exact integer sum"});
  }
  return Done{};
}

Result<Done> add_image(Work& w, const VirtualDetector& detector, Image<float>& image) {
  if (detector.name != "total" && detector.name != "masked") record_probe(w.facts, image.provenance);
  Look look;
  look.subtitle = detector.subtitle;
  look.step = scan_step(w.calibration());
  w.collection.add(detector.name, detector.title, image, look);
  if (w.comparison.wants(detector.name))
    w.comparison.add(w.acquisition.container, detector.title, image, w.facts, look.step);
  if (detector.name == "bf") w.bf = image;
  if (w.arguments.exact && !detector.weights) return add_exact(w, detector);
  return Done{};
}

// All detectors in one pass over the counts.
Result<Done> add_images(Work& w) {
  std::vector<VirtualDetector> detectors;
  std::vector<Mask> masks;
  const auto want = [&](const std::string& name) -> Result<Done> {
    auto made = make_detector(name, w.arguments, w.facts, w.volume().shape().det, w.calibration());
    if (!made) return w.refused(name, made.error());
    if (!made->weights) masks.push_back(made->mask);
    detectors.push_back(*std::move(made));
    return Done{};
  };
  for (const std::string& name : w.plan.names)
    if (is_detector(name)) QUANTEM_TRY(want(name));
  if (w.plan.has("fft") && !w.plan.has("bf"))
    if (auto made = make_detector("bf", w.arguments, w.facts, w.volume().shape().det, w.calibration())) {
      QUANTEM_TRY_ASSIGN(image, masked_sum(w.volume(), made->mask));
      w.bf = std::move(image);
    }
  std::vector<Image<float>> images;
  if (!masks.empty()) {
    QUANTEM_TRY_ASSIGN(sums, masked_sums(w.volume(), masks, w.session.job()));
    images = std::move(sums);
  }
  auto image = images.begin();
  for (const VirtualDetector& detector : detectors) {
    if (detector.weights) {
      QUANTEM_TRY_ASSIGN(weighted, weighted_sum(w.volume(), *detector.weights, w.session.job()));
      QUANTEM_TRY(add_image(w, detector, weighted));
    } else {
      QUANTEM_TRY(add_image(w, detector, *image++));
    }
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
  look.step = detector_step(w.calibration());
  if (w.plan.has("mean")) {
    Look with_disc = look;
    if (w.facts.probe)
      with_disc.circles.push_back({w.facts.probe->center,
                                   w.facts.probe->radius,
                                   {80, 220, 255},
                                   fmt::format("centre ({:.2f}, {:.2f}), R {:.2f} px", w.facts.probe->center.row,
                                               w.facts.probe->center.col, w.facts.probe->radius)});
    with_disc.subtitle = "log scale";
    w.collection.add("mean", "Mean pattern", w.mean, with_disc);
  }
  if (w.plan.has("max")) {
    QUANTEM_TRY_ASSIGN(array, max_pattern(w.volume(), w.session.job()));
    look.subtitle = "log scale";
    visit_count_dtype(array.dtype, [&]<class T>() {
      w.collection.add("max", "Maximum pattern", as_pattern<T>(array, w.volume().shape().det), look);
    });
  }
  w.collection.time("patterns", w.watch.lap());
  return Done{};
}

Result<Done> add_centers(Work& w) {
  if (!w.plan.has("com") && !w.plan.has("dpc") && !w.plan.has("idpc") && !w.plan.has("fft")) return Done{};
  QUANTEM_TRY_ASSIGN(com, com_field(w.volume(), nullptr, w.session.job()));
  w.collection.time("com", w.watch.lap());
  if (w.plan.has("com")) add_com_maps(com, w.calibration(), w.collection);
  const bool with_dpc = w.plan.has("dpc"), with_idpc = w.plan.has("idpc") || (w.plan.has("fft") && !w.plan.by_name);
  if (!with_dpc && !with_idpc) return Done{};
  QUANTEM_TRY_ASSIGN(options, dpc_options(w.arguments.dpc, w.calibration()));
  const char* names = with_dpc ? (with_idpc ? "dpc, idpc" : "dpc") : "idpc";
  auto result = dpc_where_counts_are(w.volume(), com, w.calibration(), options);
  if (!result) return w.refused(names, result.error());
  auto answer = add_deflection(*std::move(result), w.calibration(), options, with_dpc, with_idpc, false, w.collection);
  if (!answer) return w.refused(names, answer.error());
  w.findings.report["dpc"] = answer->json;
  w.findings.phase = answer->phase;
  w.findings.lines.insert(w.findings.lines.end(), answer->lines.begin(), answer->lines.end());
  w.collection.time("dpc", w.watch.lap());
  return Done{};
}

Result<Done> add_transforms(Work& w) {
  if (!w.plan.has("fft")) return Done{};
  Look look;
  look.subtitle = "log magnitude";
  look.step = fft_step(w.calibration(), w.volume().shape().scan);
  const std::pair<const char*, const std::optional<Image<float>>*> images[] = {{"bf", &w.bf},
                                                                               {"idpc", &w.findings.phase}};
  std::optional<Result<Image<float>>> transforms[2];
  parallel_for(2, [&](std::uint64_t i) {
    if (const auto& image = *images[i].second) transforms[i] = fft_magnitude(*image);
  });
  for (std::size_t i = 0; i < 2; ++i) {
    if (!transforms[i]) continue;  // said where the image itself was refused
    const char* name = images[i].first;
    Result<Image<float>>& transformed = *transforms[i];
    if (!transformed) {
      QUANTEM_TRY(w.refused(std::string("fft_") + name, transformed.error()));
      continue;
    }
    const std::string title = std::string("FFT of ") + (name == std::string("bf") ? "BF" : "iDPC");
    w.collection.add(std::string("fft_") + name, title, *transformed, look);
  }
  w.collection.time("fft", w.watch.lap());
  return Done{};
}

Json probe_json(const ProbeFacts& facts) {
  Json json = {{"center", facts.center ? to_json_array(*facts.center) : Json()},
               {"radius_px", facts.radius_px ? Json(*facts.radius_px) : Json()}};
  json["center_origin"] = facts.probe ? Json(origin_name(facts.probe->center_origin)) : Json();
  json["radius_origin"] = facts.probe ? Json(origin_name(facts.probe->radius_origin)) : Json();
  json["reason"] = facts.reason ? Json(with_option_names(facts.reason->message)) : Json();
  return json;
}

void report_probe(Work& w) {
  w.findings.report["probe"] = probe_json(w.facts);
  w.findings.report["dpc"] = nullptr;
  const auto& probe = w.facts.probe;
  w.findings.lines.push_back(
      probe ? fmt::format("disc: centre ({:.3f}, {:.3f}), R {:.3f} px", probe->center.row, probe->center.col,
                          probe->radius)
            : fmt::format("disc: {}", w.facts.reason ? with_option_names(w.facts.reason->message) : "not looked for"));
}

Result<Done> add_statistics(Work& w) {
  if (!w.plan.has("stats")) return Done{};
  auto totals = add_frame_maps(w.volume(), scan_step(w.calibration()), w.session.job(), w.collection);
  if (!totals) return w.refused("stats", totals.error());
  w.findings.report["statistics"] = *std::move(totals);
  w.collection.time("stats", w.watch.lap());
  return Done{};
}

Result<Answer> products_of(Work w, OutputSet& output) {
  QUANTEM_TRY(find_the_probe(w));
  report_probe(w);
  QUANTEM_TRY(add_images(w));
  QUANTEM_TRY(add_patterns(w));
  QUANTEM_TRY(add_centers(w));
  QUANTEM_TRY(add_transforms(w));
  QUANTEM_TRY(add_statistics(w));
  return write_results(std::move(w.acquisition), w.findings, w.arguments, w.collection, output, w.session);
}

}  // namespace

Result<Answer> products(const ProductsArguments& arguments, Session& session) {
  const Plan plan = make_plan(arguments);
  QUANTEM_TRY_ASSIGN(comparison, Comparison::plan(arguments, plan.names));
  QUANTEM_TRY_ASSIGN(answer,
                     for_each_acquisition(arguments, session, planned_products(plan), {"dpc_vectors"},
                                          [&](Acquisition acquisition, Collection collection, OutputSet& output) {
                                            return products_of({arguments, session, plan, comparison,
                                                                std::move(acquisition), std::move(collection)},
                                                               output);
                                          }));
  QUANTEM_TRY(comparison.write(answer, session));
  return answer;
}

}  // namespace quantem::cli
