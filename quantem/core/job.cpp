#include "quantem/core/job.h"

#include <algorithm>
#include <string>

namespace quantem {

void ProgressMeter::add(std::uint64_t amount) {
  const std::lock_guard lock(mutex_);
  done_ = std::min(done_ + amount, total_);
  if (!job_.on_progress || done_ == total_) return;  // the last call is finish()'s
  const auto now = std::chrono::steady_clock::now();
  if (now - last_ < std::chrono::milliseconds(50)) return;
  last_ = now;
  job_.on_progress({stage_, done_, total_, unit_});
}

void ProgressMeter::finish() {
  const std::lock_guard lock(mutex_);
  done_ = total_;
  if (job_.on_progress) job_.on_progress({stage_, done_, total_, unit_});
}

Error ProgressMeter::cancelled_error(const char* what) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t percent = total_ ? 100 * done_ / total_ : 0;
  return Error{Code::cancelled, std::string(what) + " cancelled at " + std::to_string(percent) + " %"};
}

}  // namespace quantem
