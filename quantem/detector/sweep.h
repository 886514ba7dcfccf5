#pragma once
// Parts of a query on all threads of the volume's device, with progress and cancellation between parts.

#include <cstdint>

#include "quantem/core/job.h"
#include "quantem/resident/volume.h"
#include "quantem/runtime/thread_pool.h"

namespace quantem::detector_detail {

// Calls body(part) for every part in [0, n_parts); `cancelled` when the job is stopped, with what was left undone.
template <class Body>
Result<Done> sweep(const Volume& volume, const Job& job, const char* what, std::uint64_t n_parts, const Body& body) {
  const bool watched = job.on_progress || job.stop.stop_possible();
  if (!watched) {
    parallel_for(n_parts, body, volume.device().options().threads);
    return Done{};
  }
  ProgressMeter meter(job, what, n_parts, "parts");
  parallel_for(
      n_parts,
      [&](std::uint64_t part) {
        if (meter.cancelled()) return;
        body(part);
        meter.add(1);
      },
      volume.device().options().threads);
  if (meter.cancelled()) return meter.cancelled_error(what);
  meter.finish();
  return Done{};
}

}  // namespace quantem::detector_detail
