// The grammar of the command line, as CLI11 declarations: which verb has which options, with help and examples.

#include "quantem/cli/arguments.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>
#include <string_view>

#include "quantem/core/provenance.h"

namespace quantem::cli {
namespace {

void add_common(CLI::App& verb, CommonArguments& common) {
  verb.option_defaults()->group("Output");
  verb.add_flag("--json", common.json, "the answer as one JSON object (schema quantem.gpu.cli/v1) on stdout");
  verb.add_flag("--quiet,-q", common.quiet, "no messages and no progress on stderr, errors excepted");
  verb.add_option("--progress", common.progress,
                  "auto, bar, json or none (auto: a bar on a terminal, lines in a pipe)");
}

void add_device(CLI::App& verb, DeviceArguments& device) {
  verb.option_defaults()->group("Device");
  verb.add_option("--backend", device.backend, "auto, cpu or cuda; auto takes an accelerator and never the CPU");
  verb.add_option("--device", device.device, "index among the devices of the backend (0)");
  verb.add_option("--memory-limit", device.memory_limit, "as '8 GB' (10^9 bytes) or '512 MiB' (2^20)");
  verb.add_option("--threads", device.threads, "CPU and reader threads (all cores); never changes a result");
}

void add_source(CLI::App& verb, SourceArguments& source) {
  verb.option_defaults()->group("What is read");
  verb.add_option("--scan-shape", source.scan_shape, "ROWSxCOLS of the scan, where the file does not say or is wrong");
  verb.add_option("--scan-order", source.scan_order, "raster, or serpentine: odd rows stored in reverse");
  verb.add_option("--flyback-cols", source.flyback_cols, "frames after each row that belong to no position");
  verb.add_option("--skip-frames", source.skip_frames, "frames at the start that belong to no position");
  verb.add_option("--extra-frames", source.extra_frames, "error, or drop: frames after the last position");
  verb.add_option("--missing", source.missing, "error, or mark: load what is whole and mark the rest as missing");
  verb.add_flag("--tolerate-missing", source.tolerate_missing, "the same as --missing mark");
  verb.add_option("--dataset", source.dataset, "path of the dataset inside an HDF5 file");
  verb.add_option("--channel", source.channel, "name of the threshold channel, where there are several");
  verb.add_option("--raw", source.raw, "raw binary: DTYPE,ROWSxCOLS[,OFFSET[,GAP]] in bytes; '>u16' is big-endian");
}

void add_load(CLI::App& verb, LoadArguments& load) {
  verb.option_defaults()->group("What is kept");
  verb.add_option("--scan-region", load.scan_region, "ROW_START:ROW_STOP,COL_START:COL_STOP of scan positions");
  verb.add_option("--det-region", load.det_region, "the same of detector pixels");
  verb.add_option("--scan-bin", load.scan_bin, "N or ROWS,COLS positions are summed into one");
  verb.add_option("--det-bin", load.det_bin, "N or ROWS,COLS pixels are summed into one");
  verb.add_option("--dtype", load.dtype, "working dtype, accepted when every value fits (the source's)");
  verb.add_flag("--no-mask", load.no_mask, "ignore the source's pixel mask; recorded");
  verb.add_option("--bad-pixel", load.bad_pixels, "ROW,COL of a pixel to exclude; may be repeated")
      ->allow_extra_args(false);
  verb.add_option("--flagged", load.flagged,
                  "0xFFFFFFFF in uint32: zero (no value, the default), keep (a count) or error");
  verb.add_option("--hot-pixels", load.hot_pixels, "none, or median: replace hot pixels; recorded");
  verb.add_option("--representation", load.representation, "encoded or dense (encoded where it can be)");
  verb.add_flag("--tiles-4", load.tiles_4,
                "also keep sums over 4x4 pixels: 12 % more memory, faster masks, same results");
}

void add_calibration(CLI::App& verb, CalibrationArguments& calibration) {
  verb.option_defaults()->group("Calibration that overrides the file's");
  verb.add_option("--voltage-kv", calibration.voltage_kV, "accelerating voltage in kV");
  verb.add_option("--semiangle-mrad", calibration.semiangle_mrad, "convergence semi-angle in mrad");
  verb.add_option("--scan-step-a,--scan-sampling-a", calibration.scan_step_A, "scan step in angstrom, STEP or ROW,COL");
  verb.add_option("--det-mrad,--det-sampling-mrad", calibration.det_mrad, "mrad per detector pixel, STEP or ROW,COL");
}

void add_dpc_options(CLI::App& verb, DpcArguments& dpc) {
  verb.option_defaults()->group("DPC and iDPC");
  verb.add_option("--rotation-deg", dpc.rotation_deg, "detector to scan rotation in degrees; auto searches");
  verb.add_option("--transpose", dpc.transpose, "yes, no or auto: detector axes exchanged before the rotation");
  verb.add_option("--method", dpc.method, "of the rotation search: auto, fourier, curl or grid");
  verb.add_option("--polarity", dpc.polarity,
                  "none, or skewness (atoms are bright): how the 180 degree ambiguity is settled");
  verb.add_option("--descan", dpc.descan, "mean, plane, parabola, none, or ROW,COL in pixels");
  verb.add_option("--units", dpc.units, "relative, gradient or rad (rad where the calibration allows, else relative)");
  verb.add_option("--boundary", dpc.boundary, "periodic, mirror or zeropad (by units)");
  verb.add_option("--sign", dpc.sign, "+1: atoms bright, -1: atoms dark");
  verb.add_option("--epsilon", dpc.epsilon, "added to the squared frequency (0)");
  verb.add_option("--highpass", dpc.highpass, "Butterworth cut-off (off)");
  verb.add_option("--lowpass", dpc.lowpass, "Butterworth cut-off (off)");
  verb.add_option("--order", dpc.order, "order of the Butterworth filters (2)");
}

void add_doctor(CLI::App& app, DoctorArguments& doctor, CommonArguments& common) {
  auto* verb = app.add_subcommand("doctor", "devices, libraries, limits, and a one-second self-test");
  verb->add_option("--require", doctor.require, "cpu or cuda: exit status 6 where it is absent");
  add_common(*verb, common);
  verb->footer("Examples:\n  quantem-gpu doctor\n  quantem-gpu doctor --require cuda --json");
}

void add_info(CLI::App& app, InfoArguments& info, CommonArguments& common) {
  auto* verb = app.add_subcommand("info", "what files hold, from headers alone");
  verb->add_option("FILE", info.files, "master file, HDF5, .npy or raw binary; several may be named")->required();
  verb->add_flag("--hash", info.hash, "the SHA-256 of every file of the acquisition (reads all of it)");
  add_source(*verb, info.source);
  add_load(*verb, info.load);
  add_device(*verb, info.device);
  add_common(*verb, common);
  verb->footer(
      "No device is needed. Exit status 3 when a file cannot be opened or is not ready to load.\n"
      "Examples:\n  quantem-gpu info scan_master.h5\n  quantem-gpu info scan_master.h5 --scan-shape 512x512 --json\n"
      "  quantem-gpu info frames.raw --raw u16,192x192 --scan-shape 64x64");
}

// What products and dpc share: files, folder, and at the end how and where results are written.
void add_files(CLI::App& verb, ResultArguments& results) {
  verb.add_option("FILE", results.files, "what to open; several are one series, a folder each below DIR")->required();
  verb.add_option("--out,-o", results.out, "DIR, the folder to write to")->required();
}

void add_results(CLI::App& verb, ResultArguments& results) {
  add_dpc_options(verb, results.dpc);
  add_calibration(verb, results.calibration);
  add_source(verb, results.source);
  add_load(verb, results.load);
  add_device(verb, results.device);
  verb.option_defaults()->group("What is written");
  verb.add_option("--write", results.write, "npy, tiff (float32) and png, as a list")->capture_default_str();
  verb.add_flag("--no-pictures", results.no_pictures, "the same without png and without the contact sheet");
  verb.add_option("--truth", results.truth, "FILE.npy to correlate iDPC with (a simulation's blurred phase)");
  verb.add_option("--truth-at-least", results.truth_at_least, "exit status 7 when that correlation is lower");
  verb.add_flag("--overwrite", results.overwrite, "replace files that exist");
  verb.add_option("--on-error", results.on_error,
                  "of a series: fail at the first FILE that cannot be loaded, or skip it and say so")
      ->capture_default_str();
}

void add_products(CLI::App& app, ProductsArguments& products, CommonArguments& common) {
  auto* verb = app.add_subcommand("products", "images and patterns of acquisitions, as arrays and pictures");
  add_files(*verb, products);
  verb->option_defaults()->group("Products (all, but --stats)");
  constexpr std::pair<const char*, const char*> kProducts[] = {
      {"bf", "bright field, [0, R]"},
      {"abf", "annular bright field, [R/2, R]"},
      {"adf", "annular dark field, [R, 2R]"},
      {"haadf", "high-angle annular dark field, [2R, 4R]"},
      {"df", "dark field, [R, inf)"},
      {"total", "all counts of each position"},
      {"mean", "mean diffraction pattern"},
      {"max", "maximum of each detector pixel"},
      {"com", "centre of mass, row and col"},
      {"dpc", "deflection: magnitude and direction"},
      {"idpc", "integrated deflection"},
      {"fft", "Fourier magnitudes of BF and iDPC"},
      {"stats", "total, largest, non-zero and saturated counts of each frame"}};
  for (const auto& [name, help] : kProducts)
    verb->add_flag_callback(
        std::string("--") + name, [&products, name = std::string(name)] { products.selected.push_back(name); }, help);
  verb->option_defaults()->group("Detectors");
  verb->add_option("--center", products.probe.center, "ROW,COL of the bright-field disc in pixels (found)");
  verb->add_option("--radius", products.probe.radius, "its radius R (found)");
  verb->add_option("--inner", products.inner, "inner edge of the ring detector selected, or of one named 'annular'");
  verb->add_option("--outer", products.outer, "its outer edge");
  verb->add_option("--unit", products.probe.unit, "of --radius, --inner and --outer: px, mrad, A^-1 or R (px)");
  verb->add_option("--mask", products.mask,
                   "FILE.npy of the detector's shape: one more image, zeros and ones or weights");
  verb->add_flag("--exact", products.exact, "sums as exact integers too (NAME_exact.npy)");
  verb->option_defaults()->group("Several FILEs: compare.png");
  verb->add_option("--compare", products.compare, "the detector image that is compared, or none (bf)");
  verb->add_option("--compare-window", products.compare_window, "one for all panels (common), or each its own")
      ->capture_default_str();
  verb->add_option("--tilts-deg", products.tilts_deg, "tilt of each FILE, as a list, for the labels (the files')");
  add_results(*verb, products);
  add_common(*verb, common);
  verb->footer(
      "Writes NAME.npy, NAME.png and NAME.json for each product, contact_sheet.png and report.json; for several FILEs "
      "a\n"
      "folder each, and compare.png with one image of all of them, seven a picture.\n"
      "Examples:\n  quantem-gpu products scan_master.h5 --out results --backend cpu\n"
      "  quantem-gpu products scan_master.h5 -o adf --adf --inner 60 --outer 120 --unit mrad --semiangle-mrad 21.4\n"
      "  quantem-gpu products cube.npy -o out --bf --mean --center 95.5,95.5 --radius 30 --backend cpu\n"
      "  quantem-gpu products *_master.h5 -o series --write npy,tiff,png --backend cpu\n"
      "  quantem-gpu products a.h5 b.h5 c.h5 -o tilts --compare adf --tilts-deg -10,0,10 --on-error skip --backend "
      "cpu");
}

void add_dpc(CLI::App& app, DpcVerbArguments& dpc, CommonArguments& common) {
  auto* verb = app.add_subcommand("dpc", "centre of mass, scan rotation, DPC and iDPC");
  add_files(*verb, dpc);
  verb->add_option("--mask", dpc.mask, "FILE.npy of the detector's shape: only these pixels enter, or with weights");
  add_results(*verb, dpc);
  add_common(*verb, common);
  verb->footer(
      "Examples:\n  quantem-gpu dpc scan_master.h5 --out dpc --backend cpu\n"
      "  quantem-gpu dpc scan_master.h5 -o dpc --rotation-deg -12.5 --transpose no --units rad --voltage-kv 300 "
      "--semiangle-mrad 21.4 --scan-step-a 0.2");
}

void add_simulate(CLI::App& app, SimulateArguments& simulate, CommonArguments& common) {
  auto* verb = app.add_subcommand("simulate", "a small physical acquisition of a crystal with known phase, seeded");
  verb->add_option("OUT", simulate.out, "NAME_master.h5 (Arina layout, compressed) or NAME.npy")->required();
  verb->add_option("--scan", simulate.scan, "ROWSxCOLS scan positions")->capture_default_str();
  verb->add_option("--detector", simulate.detector, "ROWSxCOLS detector pixels")->capture_default_str();
  verb->add_option("--dose", simulate.dose, "electrons a frame, Poisson; 0: float32 intensities without noise")
      ->capture_default_str();
  verb->add_option("--seed", simulate.seed, "of the noise")->capture_default_str();
  verb->add_option("--dtype", simulate.dtype, "uint8, uint16 or uint32")->capture_default_str();
  verb->add_option("--voltage-kv", simulate.voltage_kV, "kV")->capture_default_str();
  verb->add_option("--semiangle-mrad", simulate.semiangle_mrad, "convergence semi-angle")->capture_default_str();
  verb->add_option("--scan-step-a,--scan-sampling-a", simulate.scan_step_A, "angstrom, STEP or ROW,COL")
      ->capture_default_str();
  verb->add_option("--det-mrad,--det-sampling-mrad", simulate.det_mrad,
                   "mrad per detector pixel (disc radius 1/6 of the side)");
  verb->add_option("--center", simulate.center, "ROW,COL of the optical axis (the middle)");
  verb->add_option("--phase-max", simulate.phase_max, "largest phase of the specimen in rad")->capture_default_str();
  verb->add_option("--c10-nm", simulate.c10_nm, "C10 = -defocus in nm")->capture_default_str();
  verb->add_option("--c12-nm", simulate.c12_nm, "two-fold astigmatism in nm")->capture_default_str();
  verb->add_option("--phi12-deg", simulate.phi12_deg, "its angle")->capture_default_str();
  verb->add_option("--c21-nm", simulate.c21_nm, "axial coma in nm")->capture_default_str();
  verb->add_option("--phi21-deg", simulate.phi21_deg, "its angle")->capture_default_str();
  verb->add_option("--rotation-deg", simulate.rotation_deg, "detector to scan rotation")->capture_default_str();
  verb->add_flag("--transpose", simulate.transpose, "detector axes exchanged");
  verb->add_flag("--overwrite", simulate.overwrite, "replace files that exist");
  add_common(*verb, common);
  verb->footer(
      "Beside OUT: NAME_phase.npy (true phase, rad), NAME_phase_blurred.npy (blurred by the probe: what iDPC shows), "
      "NAME_simulation.json.\nNo device is needed.\n"
      "Examples:\n  quantem-gpu simulate sample_master.h5 --scan 64x64 --dose 20000 --seed 1\n"
      "  quantem-gpu simulate small.npy --scan 32x32 --detector 48x48 --rotation-deg 20 --transpose");
}

void add_convert(CLI::App& app, ConvertArguments& convert, CommonArguments& common) {
  auto* verb = app.add_subcommand("convert", "to .npy or to a compressed Arina-layout master; the source is kept");
  verb->add_option("IN", convert.in, "what to open")->required();
  verb->add_option("OUT", convert.out, "NAME.npy or NAME_master.h5")->required();
  verb->add_option("--format", convert.format, "npy or arina (by the name of OUT)");
  verb->add_flag("--overwrite", convert.overwrite, "replace files that exist");
  add_source(*verb, convert.source);
  add_load(*verb, convert.load);
  add_device(*verb, convert.device);
  add_common(*verb, common);
  verb->footer(
      "No accelerator is needed. Counts are copied as they are, 0xFFFFFFFF included, unless an option says otherwise.\n"
      "Examples:\n  quantem-gpu convert scan_master.h5 scan.npy\n"
      "  quantem-gpu convert cube.npy cube_master.h5 --format arina --dtype uint16");
}

}  // namespace

ParsedArguments parse_arguments(const std::vector<std::string>& arguments) {
  ParsedArguments parsed;
  Arguments& a = parsed.arguments;
  CLI::App app("Images and phase from 4D-STEM acquisitions, every count exact.", "quantem-gpu");
  app.option_defaults()->ignore_case();
  app.require_subcommand(1);
  app.set_version_flag("--version", software_revision());
  app.footer("`quantem-gpu VERB --help` shows the options of a verb with examples.");
  // CLI11 compares every option with every other one, letter by letter: 8 ms of a program's start where all verbs are there.
  constexpr std::string_view kVerbs[] = {"doctor", "info", "products", "dpc", "simulate", "convert"};
  const bool named =
      !arguments.empty() && std::find(std::begin(kVerbs), std::end(kVerbs), arguments.front()) != std::end(kVerbs);
  const auto wanted = [&](std::string_view verb) { return !named || arguments.front() == verb; };
  if (wanted("doctor")) add_doctor(app, a.doctor, a.common);
  if (wanted("info")) add_info(app, a.info, a.common);
  if (wanted("products")) add_products(app, a.products, a.common);
  if (wanted("dpc")) add_dpc(app, a.dpc, a.common);
  if (wanted("simulate")) add_simulate(app, a.simulate, a.common);
  if (wanted("convert")) add_convert(app, a.convert, a.common);

  std::vector<std::string> reversed;  // CLI11 takes them from the back
  for (auto it = arguments.rbegin(); it != arguments.rend(); ++it)
    // CLI11 reads "[a,b]" as a list; a path is the user's bytes and not a pattern.
    reversed.push_back(it->starts_with('[') && it->ends_with(']') ? "./" + *it : *it);
  try {
    app.parse(reversed);
    a.verb = app.get_subcommands().front()->get_name();
  } catch (const CLI::ParseError& error) {
    std::ostringstream out, err;
    const int status = app.exit(error, out, err);
    (status == 0 ? parsed.help : parsed.usage) = status == 0 ? out.str() : std::string(error.what());
    if (!app.get_subcommands().empty()) a.verb = app.get_subcommands().front()->get_name();
    if (a.verb.empty() && status != 0 && !arguments.empty() && !arguments.front().starts_with('-'))
      parsed.usage = "'" + arguments.front() + "' is none of doctor, info, products, dpc, simulate, convert";
  }
  return parsed;
}

}  // namespace quantem::cli
