#include "quantem/cli/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <ostream>
#include <thread>
#include <utility>

#include "quantem/cli/parse.h"

namespace quantem::cli {
namespace {

constexpr std::string_view kPrefix = "QUANTEM_GPU_";
constexpr std::string_view kKnown[] = {"BACKEND", "DEVICE",    "MEMORY_LIMIT", "WORK_BYTES", "PINNED_BYTES",
                                       "THREADS", "CACHE_DIR", "PROGRESS",     "LOG",        "TOKEN"};

Result<int> parse_count(std::string_view text, std::string_view name, std::uint64_t low) {
  QUANTEM_TRY_ASSIGN(value, parse_unsigned(text, name));
  if (value < low || value > 65536)
    return Error{Code::invalid_argument, fmt::format("{}: expected {} to 65536, found {}", name, low, value)};
  return static_cast<int>(value);
}

}  // namespace

std::optional<std::string> Session::variable(const std::string& name) const {
  const auto found = host_.environment.find(std::string(kPrefix) + name);
  if (found == host_.environment.end() || found->second.empty()) return std::nullopt;
  return found->second;
}

Result<Done> Session::check_environment() {
  for (const auto& [name, value] : host_.environment) {
    if (!name.starts_with(kPrefix)) continue;
    const auto known = std::find(std::begin(kKnown), std::end(kKnown), std::string_view(name).substr(kPrefix.size()));
    if (known == std::end(kKnown)) warn(name + " is not a variable of this program; it was ignored");
  }
  if (const auto v = variable("BACKEND"))
    if (const auto parsed = parse_backend(*v); !parsed) return with_context("QUANTEM_GPU_BACKEND", parsed.error());
  if (const auto v = variable("DEVICE")) QUANTEM_TRY(parse_count(*v, "QUANTEM_GPU_DEVICE", 0));
  if (const auto v = variable("THREADS")) QUANTEM_TRY(parse_count(*v, "QUANTEM_GPU_THREADS", 1));
  for (const char* name : {"MEMORY_LIMIT", "WORK_BYTES", "PINNED_BYTES"})
    if (const auto v = variable(name)) QUANTEM_TRY(parse_bytes(*v, std::string(kPrefix) + name));
  if (const auto v = variable("LOG"); v && *v != "error" && *v != "info" && *v != "debug")
    return Error{Code::invalid_argument, "QUANTEM_GPU_LOG: expected error, info or debug, found '" + *v + "'"};
  return Done{};
}

Result<Done> Session::start(const CommonArguments& common) {
  quiet_ = common.quiet;
  QUANTEM_TRY(check_environment());
  const bool from_option = !common.progress.empty();
  QUANTEM_TRY_ASSIGN(style, parse_progress(from_option ? common.progress : variable("PROGRESS").value_or("auto"),
                                           host_.err_is_terminal, from_option ? "--progress" : "QUANTEM_GPU_PROGRESS"));
  const bool silent = quiet_ && !from_option;
  progress_.emplace(err_, silent ? ProgressStyle::none : style, host_.terminal_cols);
  return Done{};
}

Result<DeviceChoice> Session::choose(const DeviceArguments& device) const {
  DeviceOptions options;
  if (const auto v = variable("WORK_BYTES")) {
    QUANTEM_TRY_ASSIGN(bytes, parse_bytes(*v, "QUANTEM_GPU_WORK_BYTES"));
    options.work_bytes = bytes;
  }
  if (const auto v = variable("PINNED_BYTES")) {
    QUANTEM_TRY_ASSIGN(bytes, parse_bytes(*v, "QUANTEM_GPU_PINNED_BYTES"));
    options.pinned_bytes = bytes;
  }
  if (const auto limit = device.memory_limit.empty() ? variable("MEMORY_LIMIT") : device.memory_limit) {
    QUANTEM_TRY_ASSIGN(bytes, parse_bytes(*limit, "--memory-limit"));
    options.memory_limit_bytes = bytes;
  }
  if (!device.threads.empty()) {
    QUANTEM_TRY_ASSIGN(threads, parse_count(device.threads, "--threads", 1));
    options.threads = threads;
    ::setenv("QUANTEM_GPU_THREADS", std::to_string(threads).c_str(), 1);  // for calls that take no device
  }
  QUANTEM_TRY_ASSIGN(backend,
                     parse_backend(device.backend.empty() ? variable("BACKEND").value_or("auto") : device.backend));
  int index = 0;
  if (const auto v = device.device.empty() ? variable("DEVICE") : device.device) {
    QUANTEM_TRY_ASSIGN(parsed, parse_count(*v, device.device.empty() ? "QUANTEM_GPU_DEVICE" : "--device", 0));
    index = parsed;
  }
  return DeviceChoice{backend, index, options};
}

Result<Device> Session::open(const DeviceChoice& choice) {
  auto opened = open_device(choice.backend, choice.index, choice.options);
  if (!opened && choice.backend == Backend::automatic)
    return Error{opened.error().code, opened.error().message + " (--backend cpu)"};
  return opened;
}

Result<Device> Session::open(const DeviceArguments& device) const {
  QUANTEM_TRY_ASSIGN(choice, choose(device));
  return open(choice);
}

std::future<void> Session::free_beside(Volume volume) const {
  const bool leave = host_.ends && last_acquisition_;
  auto free_all = [leave, volume = std::optional(std::move(volume))]() mutable {
    const Device device = volume->device();
    volume.reset();
    if (leave) leave_device(device);
  };
  if (!leave) return std::async(std::launch::async, std::move(free_all));
  std::thread(std::move(free_all)).detach();
  return {};
}

void Session::warn(const std::string& message) {
  const std::string text = with_option_names(message);
  const auto add = [&](std::vector<std::string>& list) {
    if (std::find(list.begin(), list.end(), text) != list.end()) return false;
    list.push_back(text);
    return true;
  };
  add(acquisition_warnings_);
  if (add(warnings_)) say("warning: " + text);
}

void Session::say(std::string_view text) {
  end_progress();
  if (!quiet_) err_ << text << '\n' << std::flush;
}

Job Session::job() {
  return {[this](const Progress& progress) {
            if (progress_) progress_->report(progress);
          },
          host_.stop};
}

}  // namespace quantem::cli
