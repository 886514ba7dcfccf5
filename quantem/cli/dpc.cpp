// `quantem-gpu dpc`: centre of mass, rotation between detector and scan, DPC and iDPC, with everything in between.

#include "quantem/cli/acquisition.h"
#include "quantem/cli/deflection.h"
#include "quantem/cli/detectors.h"
#include "quantem/detector/mean_pattern.h"

namespace quantem::cli {
namespace {

constexpr const char* kProducts[] = {"com_row",         "com_col",         "dpc_magnitude", "dpc_direction", "idpc",
                                     "com_row_aligned", "com_col_aligned", "divergence",    "curl"};

// Detector sampling from the disc where only the semi-angle is known; without a disc it stays unknown.
Result<Done> complete_calibration(Acquisition& acquisition, Session& session) {
  const Volume& volume = acquisition.volume;
  Calibration& calibration = acquisition.calibration;
  if (!calibration.semiangle_mrad.value || calibration.det_sampling_mrad.value) return Done{};
  QUANTEM_TRY_ASSIGN(mean, mean_pattern(volume, session.job()));
  if (const auto probe = auto_probe(mean, volume.valid_pixels()))
    calibration.det_sampling_mrad = det_sampling_from_probe(*calibration.semiangle_mrad.value, *probe);
  else
    session.warn(probe.error().message);
  return Done{};
}

// Centre of mass of all counts, of those under a mask, or weighted.
Result<ComField> com_of(const Volume& volume, const std::string& mask_file, const Job& job) {
  if (mask_file.empty()) return com_field(volume, nullptr, job);
  QUANTEM_TRY_ASSIGN(selection, selection_of_file(mask_file, volume.shape().det));
  if (const auto* mask = std::get_if<Mask>(&selection)) return com_field(volume, mask, job);
  return com_field(volume, std::get<Weights>(selection), job);
}

Result<Answer> dpc_of(Acquisition acquisition, Collection collection, OutputSet& output,
                      const DpcVerbArguments& arguments, Session& session) {
  Stopwatch watch;
  QUANTEM_TRY(complete_calibration(acquisition, session));
  const Calibration& calibration = acquisition.calibration;
  QUANTEM_TRY_ASSIGN(com, com_of(acquisition.volume, arguments.mask, session.job()));
  add_com_maps(com, calibration, collection);
  collection.time("com", watch.lap());
  QUANTEM_TRY_ASSIGN(options, dpc_options(arguments.dpc, calibration));
  QUANTEM_TRY_ASSIGN(result, arguments.mask.empty()
                                 ? dpc_where_counts_are(acquisition.volume, com, calibration, options)
                                 : run_dpc(com, calibration, options));
  QUANTEM_TRY_ASSIGN(deflection, add_deflection(std::move(result), calibration, options, true, true, true, collection));
  collection.time("dpc", watch.lap());
  Findings findings{"dpc", {{"dpc", deflection.json}}, deflection.lines, deflection.phase};
  return write_results(std::move(acquisition), findings, arguments, collection, output, session);
}

}  // namespace

Result<Answer> dpc(const DpcVerbArguments& arguments, Session& session) {
  return for_each_acquisition(arguments, session, {std::begin(kProducts), std::end(kProducts)}, {"dpc_vectors"},
                              [&](Acquisition acquisition, Collection collection, OutputSet& output) {
                                return dpc_of(std::move(acquisition), std::move(collection), output, arguments,
                                              session);
                              });
}

}  // namespace quantem::cli
