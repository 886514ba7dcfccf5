#include "quantem/cli/resolve.h"

#include <fmt/format.h>

#include "quantem/cli/parse.h"

namespace quantem::cli {
namespace {

template <class T>
struct Choice {
  std::string_view name;
  T value;
};

template <class T, std::size_t N>
Result<T> choose(std::string_view text, std::string_view option, const Choice<T> (&choices)[N]) {
  std::string names;
  for (const Choice<T>& choice : choices) {
    if (choice.name == text) return choice.value;
    names += (names.empty() ? "" : ", ") + std::string(choice.name);
  }
  return Error{Code::invalid_argument, fmt::format("{}: expected one of {}, found '{}'", option, names, text)};
}

Result<std::uint32_t> parse_u32(std::string_view text, std::string_view option) {
  QUANTEM_TRY_ASSIGN(value, parse_unsigned(text, option));
  if (value > 0xFFFFFFFFu)
    return Error{Code::invalid_argument, fmt::format("{}: {} is above 4294967295", option, value)};
  return static_cast<std::uint32_t>(value);
}

// Parses `text` into `target` unless it is empty.
#define QUANTEM_CLI_SET(target, text, parse, option) \
  if (!(text).empty()) {                             \
    auto parsed = parse((text), (option));           \
    if (!parsed) return parsed.take_error();         \
    (target) = *parsed;                              \
  }

Result<Position> parse_position(std::string_view text) {
  const auto pieces = split(text, ',');
  if (pieces.size() != 2)
    return Error{Code::invalid_argument, fmt::format("--bad-pixel: expected ROW,COL, found '{}'", text)};
  QUANTEM_TRY_ASSIGN(row, parse_u32(pieces[0], "--bad-pixel"));
  QUANTEM_TRY_ASSIGN(col, parse_u32(pieces[1], "--bad-pixel"));
  return Position{row, col};
}

template <class T>
Known<T> from_caller(T value, const char* unit, const char* option) {
  return {value, unit, Origin::caller, option};
}

}  // namespace

Result<OpenOptions> open_options(const SourceArguments& source) {
  OpenOptions options;
  QUANTEM_CLI_SET(options.scan_shape, source.scan_shape, parse_extent, "--scan-shape");
  constexpr Choice<ScanOrder> kOrders[] = {{"raster", ScanOrder::raster}, {"serpentine", ScanOrder::serpentine}};
  QUANTEM_TRY_ASSIGN(order, choose(source.scan_order, "--scan-order", kOrders));
  options.scan_order = order;
  QUANTEM_CLI_SET(options.flyback_cols, source.flyback_cols, parse_u32, "--flyback-cols");
  QUANTEM_CLI_SET(options.skip_frames, source.skip_frames, parse_u32, "--skip-frames");
  constexpr Choice<ExtraFrames> kExtra[] = {{"error", ExtraFrames::error}, {"drop", ExtraFrames::drop}};
  QUANTEM_TRY_ASSIGN(extra, choose(source.extra_frames, "--extra-frames", kExtra));
  options.extra_frames = extra;
  constexpr Choice<Missing> kMissing[] = {{"error", Missing::error}, {"mark", Missing::mark}};
  QUANTEM_TRY_ASSIGN(missing, choose(source.missing, "--missing", kMissing));
  options.missing = source.tolerate_missing ? Missing::mark : missing;
  options.dataset_path = source.dataset;
  options.channel = source.channel;
  QUANTEM_CLI_SET(options.raw, source.raw, parse_raw, "--raw");
  return options;
}

Result<LoadOptions> load_options(const LoadArguments& load) {
  LoadOptions options;
  QUANTEM_CLI_SET(options.scan_region, load.scan_region, parse_region, "--scan-region");
  QUANTEM_CLI_SET(options.detector_region, load.det_region, parse_region, "--det-region");
  QUANTEM_CLI_SET(options.scan_bin, load.scan_bin, parse_bin, "--scan-bin");
  QUANTEM_CLI_SET(options.det_bin, load.det_bin, parse_bin, "--det-bin");
  if (!load.dtype.empty()) {
    auto parsed = parse_dtype(load.dtype);
    if (!parsed) return with_context("--dtype", parsed.error());
    options.dtype = *parsed;
  }
  options.apply_mask = !load.no_mask;
  options.tiles_4 = load.tiles_4;
  for (const std::string& text : load.bad_pixels) {
    QUANTEM_TRY_ASSIGN(position, parse_position(text));
    options.bad_pixels.push_back(position);
  }
  constexpr Choice<Flagged> kFlagged[] = {{"zero", Flagged::zero}, {"keep", Flagged::keep}, {"error", Flagged::error}};
  if (!load.flagged.empty()) {
    QUANTEM_TRY_ASSIGN(flagged, choose(load.flagged, "--flagged", kFlagged));
    options.flagged = flagged;
  }
  constexpr Choice<HotPixels> kHot[] = {{"none", HotPixels::none}, {"median", HotPixels::median}};
  QUANTEM_TRY_ASSIGN(hot, choose(load.hot_pixels, "--hot-pixels", kHot));
  options.hot_pixels = hot;
  if (!load.representation.empty()) {
    constexpr Choice<Representation> kKinds[] = {{"encoded", Representation::encoded},
                                                 {"dense", Representation::dense}};
    QUANTEM_TRY_ASSIGN(kind, choose(load.representation, "--representation", kKinds));
    options.representation = kind;
  }
  return options;
}

Result<Done> override_calibration(const CalibrationArguments& arguments, Calibration& calibration) {
  if (!arguments.voltage_kV.empty()) {
    QUANTEM_TRY_ASSIGN(value, parse_positive(arguments.voltage_kV, "--voltage-kv"));
    calibration.voltage_kV = from_caller(value, "kV", "--voltage-kv");
  }
  if (!arguments.semiangle_mrad.empty()) {
    QUANTEM_TRY_ASSIGN(value, parse_positive(arguments.semiangle_mrad, "--semiangle-mrad"));
    calibration.semiangle_mrad = from_caller(value, "mrad", "--semiangle-mrad");
  }
  if (!arguments.scan_step_A.empty()) {
    QUANTEM_TRY_ASSIGN(value, parse_step(arguments.scan_step_A, "--scan-step-a"));
    calibration.scan_sampling_A = from_caller(value, "A", "--scan-step-a");
  }
  if (!arguments.det_mrad.empty()) {
    QUANTEM_TRY_ASSIGN(value, parse_step(arguments.det_mrad, "--det-mrad"));
    calibration.det_sampling_mrad = from_caller(value, "mrad", "--det-mrad");
  }
  return Done{};
}

Result<Container> open_ready(const std::filesystem::path& file, const SourceArguments& source) {
  QUANTEM_TRY_ASSIGN(options, open_options(source));
  QUANTEM_TRY_ASSIGN(container, inspect(file, options));
  if (container.not_ready) return *container.not_ready;
  return container;
}

}  // namespace quantem::cli
