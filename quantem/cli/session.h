#pragma once
// One call of the program: where messages go, what was asked of every verb (environment first, then options), progress,
// warnings.

#include <chrono>
#include <future>
#include <iosfwd>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "quantem/cli/arguments.h"
#include "quantem/cli/cli.h"
#include "quantem/cli/progress.h"
#include "quantem/core/job.h"
#include "quantem/core/result.h"
#include "quantem/resident/volume.h"
#include "quantem/runtime/device.h"

namespace quantem::cli {

struct DeviceChoice {
  Backend backend = Backend::automatic;
  int index = 0;
  DeviceOptions options;
};

class Session {
 public:
  Session(const CliHost& host, std::ostream& err) : host_(host), err_(err) {}

  // Checks QUANTEM_GPU_* (a bad value is an error naming the variable, an unknown name a warning) and starts progress.
  Result<Done> start(const CommonArguments& common);
  // The device that options and environment name, to be opened. Never the CPU unless it was asked for by name.
  Result<DeviceChoice> choose(const DeviceArguments& device) const;
  static Result<Device> open(const DeviceChoice& choice);
  Result<Device> open(const DeviceArguments& device) const;  // both

  [[nodiscard]] std::chrono::steady_clock::time_point began() const { return began_; }
  void warn(const std::string& message);  // once; into the answer and onto stderr, with the options that help
  void say(std::string_view text);        // a line on stderr, unless --quiet
  [[nodiscard]] Job job();
  [[nodiscard]] bool cancelled() const { return host_.stop.stop_requested(); }
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }  // of the whole call
  // Those of the acquisition at hand: since the last begin_acquisition().
  [[nodiscard]] const std::vector<std::string>& acquisition_warnings() const { return acquisition_warnings_; }
  // `last`: of the call.
  void begin_acquisition(bool last) { acquisition_warnings_.clear(), last_acquisition_ = last; }
  // Frees the acquisition's volume beside what the caller does next; after the last one of a program that ends all that it has on the
  // device, for which nobody waits.
  std::future<void> free_beside(Volume volume) const;
  void end_progress() {
    if (progress_) progress_->close();
  }

 private:
  [[nodiscard]] std::optional<std::string> variable(const std::string& name) const;
  Result<Done> check_environment();

  const CliHost& host_;
  std::ostream& err_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  bool quiet_ = false, last_acquisition_ = false;
  std::optional<ProgressPrinter> progress_;
  std::vector<std::string> warnings_, acquisition_warnings_;
};

}  // namespace quantem::cli
