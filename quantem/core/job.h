#pragma once
// Progress and cancellation of long calls. Results never depend on either.

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <stop_token>

#include "quantem/core/result.h"

namespace quantem {

struct Progress {
  const char* stage;
  std::uint64_t done, total;
  const char* unit;
};

struct Job {
  std::function<void(const Progress&)> on_progress;
  std::stop_token stop;
};

// Counts the work of one stage from any thread: calls come one at a time, at most 20 a second, `done` never decreases,
// the last call (finish) has done == total.
class ProgressMeter {
 public:
  ProgressMeter(const Job& job, const char* stage, std::uint64_t total, const char* unit)
      : job_(job), stage_(stage), unit_(unit), total_(total) {}
  void add(std::uint64_t amount);
  void finish();
  [[nodiscard]] bool cancelled() const { return job_.stop.stop_requested(); }
  // The error of a cancelled call: "load cancelled at 41 %".
  [[nodiscard]] Error cancelled_error(const char* what);

 private:
  const Job& job_;
  const char* stage_;
  const char* unit_;
  std::uint64_t total_, done_ = 0;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace quantem
