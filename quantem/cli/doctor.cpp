// `quantem-gpu doctor`: what this machine offers, what this build is made of, and whether its arithmetic is right here.

#include <fmt/format.h>

#include <chrono>

#include "quantem/cli/libraries.h"
#include "quantem/cli/parse.h"
#include "quantem/cli/self_check.h"
#include "quantem/cli/verbs.h"
#include "quantem/core/provenance.h"
#include "quantem/core/shape.h"
#include "quantem/runtime/thread_pool.h"

namespace quantem::cli {
namespace {

Json device_json(const DeviceInfo& d) {
  return {{"backend", backend_name(d.backend)},
          {"index", d.index},
          {"name", d.name},
          {"driver", d.driver},
          {"runtime", d.runtime},
          {"total_bytes", d.total_bytes},
          {"free_bytes", d.free_bytes}};
}

std::string device_text(const DeviceInfo& d) {
  const std::string label = d.backend == Backend::cpu ? "cpu" : fmt::format("{}:{}", backend_name(d.backend), d.index);
  return fmt::format("  {:8} {}{}{}, {} of {} free\n", label, d.name, d.runtime.empty() ? "" : ", " + d.runtime,
                     d.driver.empty() ? "" : ", driver " + d.driver, format_bytes(d.free_bytes),
                     format_bytes(d.total_bytes));
}

void add_devices(Answer& answer, bool& has_cuda) {
  answer.text += "devices\n";
  answer.result["devices"] = Json::array();
  const DeviceList cuda = list_cuda_devices();
  has_cuda = !cuda.devices.empty();
  for (const DeviceList& list : {list_cpu_devices(), cuda})
    for (const DeviceInfo& d : list.devices) {
      answer.result["devices"].push_back(device_json(d));
      answer.text += device_text(d);
    }
  answer.result["cuda_reason"] = has_cuda ? Json() : Json(cuda.reason);
  if (!has_cuda) answer.text += fmt::format("  {:8} none: {}\n", "cuda", cuda.reason);
}

void add_limits(Answer& answer) {
  const DeviceOptions defaults;
  answer.result["limits"] = {{"threads", default_thread_count()},
                             {"work_bytes", defaults.work_bytes},
                             {"pinned_bytes", defaults.pinned_bytes},
                             {"max_frame_pixels", kMaxFramePixels}};
  answer.text +=
      fmt::format("limits\n  threads {}, work area {}, host staging {}, frames to {} pixels\n", default_thread_count(),
                  format_bytes(defaults.work_bytes), format_bytes(defaults.pinned_bytes), kMaxFramePixels);
}

// Every device that this build can open computes the same known volume.
void add_self_test(Answer& answer) {
  Json json = {{"checks", 0}, {"differences", Json::array()}};
  std::size_t n = 0;
  const auto start = std::chrono::steady_clock::now();
  const auto test = [&](Backend backend, int index) {
    const auto device = open_device(backend, index);
    std::vector<SelfCheck> checks;
    if (device)
      checks = self_test(*device);
    else
      checks.push_back({fmt::format("{}:{}: open", backend_name(backend), index), false, device.error().message});
    for (const SelfCheck& check : checks) {
      ++n;
      if (!check.equal) json["differences"].push_back({{"check", check.name}, {"found", check.found}});
    }
  };
  test(Backend::cpu, 0);
  for (const DeviceInfo& d : list_cuda_devices().devices) test(Backend::cuda, d.index);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const std::size_t n_wrong = json["differences"].size();
  json["checks"] = n;
  json["seconds"] = seconds;
  answer.text += fmt::format("self-test\n  {} of {} products of a known volume equal the plain loops ({:.2f} s)\n",
                             n - n_wrong, n, seconds);
  for (const Json& d : json["differences"])
    answer.text += fmt::format("  DIFFERENT: {}: {}\n", d["check"].get<std::string>(), d["found"].get<std::string>());
  if (n_wrong != 0 || n == 0) {
    answer.exit_status = 7;
    answer.failure = fmt::format("self-test: {} of {} products differ from the plain loops", n_wrong, n);
  }
  answer.result["self_test"] = std::move(json);
}

}  // namespace

Result<Answer> doctor(const DoctorArguments& arguments, Session& session) {
  if (!arguments.require.empty() && arguments.require != "cpu" && arguments.require != "cuda")
    return Error{Code::invalid_argument, "--require: expected cpu or cuda, found '" + arguments.require + "'"};
  Answer answer;
  answer.result["version"] = software_revision();
  answer.text = "quantem-gpu " + software_revision() + "\n";
  bool has_cuda = false;
  add_devices(answer, has_cuda);
  answer.text += "libraries\n ";
  answer.result["libraries"] = Json::object();
  for (const auto& [name, version] : library_versions()) {
    answer.result["libraries"][name] = version;
    answer.text += " " + name + " " + version;
  }
  answer.text += "\n";
  add_limits(answer);
  if (session.cancelled()) return Error{Code::cancelled, "doctor cancelled"};
  add_self_test(answer);
  if (arguments.require == "cuda" && !has_cuda) {
    answer.exit_status = code_info(Code::device).exit_status;
    answer.failure_code = code_info(Code::device).name;
    answer.failure = "cuda is required and has no device: " + list_cuda_devices().reason;
  }
  return answer;
}

}  // namespace quantem::cli
