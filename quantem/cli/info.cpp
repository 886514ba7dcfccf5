// `quantem-gpu info`: what files hold, from their headers alone. No device is opened; no count is read.

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>

#include "quantem/cli/describe.h"
#include "quantem/cli/parse.h"
#include "quantem/cli/resolve.h"
#include "quantem/cli/verbs.h"
#include "quantem/core/sha256.h"

namespace quantem::cli {
namespace {

std::string filters_text(const FilterPipeline& pipeline) {
  std::string text;
  for (const Filter& filter : pipeline) {
    text += (text.empty() ? "" : " + ") + filter_name(filter.id);
    const std::uint32_t inside = filter.id == 32008 && filter.client.size() > 4 ? filter.client[4] : 0;
    if (inside == 2) text += "-LZ4";
    if (inside == 3) text += "-zstd";
  }
  return text.empty() ? "none" : text;
}

// The SHA-256 of every file that holds frames, and of the master, as sha256sum prints it.
Result<Done> hash_files(Container& c, const Job& job) {
  std::uint64_t total = 0;
  for (const SourceFile& file : c.identity) total += file.bytes;
  ProgressMeter meter(job, "hash", total, "bytes");
  std::vector<char> piece(std::size_t{4} << 20);
  for (std::size_t i = 0; i < std::min(c.files.size(), c.identity.size()); ++i) {
    std::ifstream in(c.files[i], std::ios::binary);
    if (!in) return Error{Code::io, c.files[i].string() + ": " + std::strerror(errno)};
    Sha256 hash;
    while (in.read(piece.data(), static_cast<std::streamsize>(piece.size())) || in.gcount() > 0) {
      hash.update(piece.data(), static_cast<std::size_t>(in.gcount()));
      meter.add(static_cast<std::uint64_t>(in.gcount()));
      if (meter.cancelled()) return meter.cancelled_error("hash");
    }
    if (in.bad()) return Error{Code::io, c.files[i].string() + ": could not be read to its end"};
    c.identity[i].sha256 = hash.hex();
  }
  meter.finish();
  return check_unchanged(c);
}

Json identity_json(const Container& c) {
  Json json = Json::array();
  for (const SourceFile& file : c.identity)
    json.push_back({{"name", file.name},
                    {"bytes", file.bytes},
                    {"mtime_ns", file.mtime_ns},
                    {"sha256", file.sha256.empty() ? Json() : Json(file.sha256)}});
  return json;
}

Json part_json(const Container& c, const Part& part) {
  Json json;
  json["file"] = part.file < c.files.size() ? c.files[part.file].filename().string() : "";
  json["dataset"] = part.dataset;
  json["dtype"] = dtype_name(part.dtype);
  json["first_frame"] = part.first_frame;
  json["n_frames"] = part.n_frames;
  json["chunk"] = part.chunk;
  json["filters"] = filters_text(part.filters);
  json["absent"] = part.absent_reason.empty() ? Json() : Json(part.absent_reason);
  return json;
}

// What loading needs: encoded storage by the compressed bytes, and dense. Nothing where the library cannot say.
Json memory_json(const Container& c, LoadOptions options, const Device& device) {
  Json json;
  const bool tiles_4 = options.tiles_4;
  for (const Representation kind : {Representation::encoded, Representation::dense}) {
    options.representation = kind;
    options.tiles_4 = tiles_4 && kind == Representation::encoded;
    const auto need = estimate(device, c, options);
    json[std::string(representation_name(kind))] =
        need ? Json{{"resident_bytes", need->resident_bytes}, {"work_bytes", need->work_bytes}, {"fits", need->fits()}}
             : Json();
  }
  return json;
}

Json container_json(const Container& c) {
  Json json;
  json["file"] = c.path.string();
  json["ready"] = !c.not_ready;
  json["reason"] = c.not_ready ? Json(with_option_names(c.not_ready->message)) : Json();
  json["code"] = c.not_ready ? Json(code_info(c.not_ready->code).name) : Json();
  json["format"] = c.format;
  json["shape"] = shape_json(c.shape);
  json["scan_shape_origin"] = origin_name(c.scan_shape_origin);
  json["dtype"] = dtype_name(c.dtype);
  json["dense_bytes"] = c.shape.n_values() * item_bytes(c.dtype);
  json["frames"] = {
      {"stored", c.n_stored}, {"expected", c.n_expected}, {"missing", c.n_missing}, {"ignored", c.n_ignored_frames}};
  std::uint64_t bytes = 0;
  for (const SourceFile& file : c.identity) bytes += file.bytes;
  json["file_bytes"] = bytes;
  json["identity"] = identity_json(c);
  json["parts"] = Json::array();
  for (const Part& part : c.parts) json["parts"].push_back(part_json(c, part));
  json["pixel_mask"] = {{"present", c.has_pixel_mask}, {"bad_pixels", c.valid_pixels.count() - c.valid_pixels.n_set()}};
  json["saturation_value"] = c.saturation_value ? Json(*c.saturation_value) : Json();
  json["calibration"] = calibration_json(c.calibration);
  json["metadata"] = Json::parse(c.metadata_json, nullptr, false);
  json["warnings"] = c.warnings;
  return json;
}

std::string storage_text(const Container& c) {
  std::map<std::string, std::uint64_t> kinds;
  std::uint64_t n_absent = 0;
  for (const Part& part : c.parts)
    if (part.absent_reason.empty())
      ++kinds[filters_text(part.filters)];
    else
      ++n_absent;
  std::string text = fmt::format("{} part(s)", c.parts.size());
  if (n_absent) text += fmt::format(", {} absent", n_absent);
  for (const auto& [filters, n] : kinds)
    text += fmt::format(", {} {}", n, filters == "none" ? "uncompressed" : filters);
  return text;
}

std::string container_text(const Container& c, const Json& json) {
  std::string text = fmt::format("{}\n", c.path.string());
  text += c.not_ready ? fmt::format("  not ready    {}\n", with_option_names(c.not_ready->message))
                      : std::string("  ready\n");
  text += fmt::format("  shape        {} scan x {} detector, {} ({}; scan shape: {})\n", to_string(c.shape.scan),
                      to_string(c.shape.det), dtype_name(c.dtype), c.format, origin_name(c.scan_shape_origin));
  text += fmt::format("  frames       {} stored of {}{}{}\n", c.n_stored, c.n_expected,
                      c.n_missing ? fmt::format(", {} missing", c.n_missing) : "",
                      c.n_ignored_frames ? fmt::format(", {} ignored", c.n_ignored_frames) : "");
  text += fmt::format("  storage      {}; {} in {} file(s), {} dense\n", storage_text(c),
                      format_bytes(json["file_bytes"].get<std::uint64_t>()), c.identity.size(),
                      format_bytes(json["dense_bytes"].get<std::uint64_t>()));
  text += c.has_pixel_mask ? fmt::format("  pixel mask   {} bad of {}\n",
                                         c.valid_pixels.count() - c.valid_pixels.n_set(), c.valid_pixels.count())
                           : std::string("  pixel mask   none in the source\n");
  text += fmt::format("  calibration  {}\n", calibration_text(c.calibration));
  for (const SourceFile& file : c.identity)
    if (!file.sha256.empty()) text += fmt::format("  sha256       {}  {}\n", file.sha256, file.name);
  if (json.contains("memory"))
    for (const auto& [kind, need] : json["memory"].items())
      if (!need.is_null())
        text += fmt::format(
            "  {:12} {} + {} work area: {}\n", kind, format_bytes(need["resident_bytes"].get<std::uint64_t>()),
            format_bytes(need["work_bytes"].get<std::uint64_t>()), need["fits"].get<bool>() ? "fits" : "does not fit");
  return text;
}

// The device whose memory is compared with: the one named, or the first accelerator, or the CPU (nothing runs on it).
Result<Device> device_for_estimate(const DeviceArguments& arguments, const Session& session) {
  auto device = session.open(arguments);
  if (device || !arguments.backend.empty() || device.error().code != Code::device) return device;
  DeviceArguments cpu = arguments;
  cpu.backend = "cpu";
  return session.open(cpu);
}

}  // namespace

Result<Answer> info(const InfoArguments& arguments, Session& session) {
  QUANTEM_TRY_ASSIGN(open, open_options(arguments.source));
  QUANTEM_TRY_ASSIGN(load, load_options(arguments.load));
  QUANTEM_TRY_ASSIGN(device, device_for_estimate(arguments.device, session));
  Answer answer;
  answer.result["files"] = Json::array();
  for (const std::string& file : arguments.files) {
    auto container = inspect(file, open);
    if (container && arguments.hash)
      if (auto hashed = hash_files(*container, session.job()); !hashed) {
        if (hashed.error().code == Code::cancelled) return hashed.error();
        container = hashed.take_error();
      }
    Json json;
    const Error* problem = nullptr;
    if (!container) {
      problem = &container.error();
      json = {{"file", file},
              {"ready", false},
              {"reason", with_option_names(problem->message)},
              {"code", code_info(problem->code).name}};
      answer.text += fmt::format("{}\n  not ready    {}\n", file, with_option_names(problem->message));
    } else {
      json = container_json(*container);
      if (container->not_ready)
        problem = &*container->not_ready;
      else
        json["memory"] = memory_json(*container, load, device);
      for (const std::string& warning : container->warnings) session.warn(warning);
      answer.text += container_text(*container, json);
    }
    if (problem && answer.exit_status == 0) {
      answer.exit_status = code_info(problem->code).exit_status;
      answer.failure = with_option_names(problem->message);
      answer.failure_code = code_info(problem->code).name;
    }
    answer.result["files"].push_back(std::move(json));
  }
  return answer;
}

}  // namespace quantem::cli
