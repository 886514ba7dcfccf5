// `quantem-gpu doctor`: what this machine offers, what this build is made of, and whether its arithmetic is right here.

#include <fmt/format.h>

#include "quantem/cli/libraries.h"
#include "quantem/cli/parse.h"
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
  (void)session;
  if (arguments.require == "cuda" && !has_cuda) {
    answer.exit_status = code_info(Code::device).exit_status;
    answer.failure = "cuda is required and has no device: " + list_cuda_devices().reason;
  }
  return answer;
}

}  // namespace quantem::cli
