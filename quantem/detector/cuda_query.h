#pragma once
// What every query of a volume on a CUDA device has: the context, locked for its length, its stream, and the way down for results.

#include <cuda_runtime_api.h>

#include <mutex>
#include <utility>

#include "quantem/core/job.h"
#include "quantem/resident/volume.h"
#include "quantem/runtime/cuda_context.h"

namespace quantem::detector_detail {

class CudaQuery {
 public:
  [[nodiscard]] CudaContext& context() const { return *context_; }
  [[nodiscard]] const Volume& volume() const { return *volume_; }
  [[nodiscard]] cudaStream_t stream() const { return reinterpret_cast<cudaStream_t>(context_->query_stream()); }

  // Copies to pinned memory and waits; valid until the next query.
  Result<const void*> copy_down(const void* device_data, std::uint64_t n_bytes);

 protected:
  // `cancelled` where the job was stopped before; else what the volume keeps for its queries (made the first time) and then the lock.
  template <class Query, class Session, class Make>
  static Result<Query> open_with(const Volume& volume, const Job& job, const char* what, const Make& make) {
    ProgressMeter meter(job, what, 1, "parts");
    if (meter.cancelled()) return meter.cancelled_error(what);
    QUANTEM_TRY_ASSIGN(context, CudaContext::of(volume.device()));
    auto session = volume.derived().get<Session>(make);
    return Result<Query>(Query(volume, context, std::move(session)));
  }
  CudaQuery(const Volume& volume, CudaContext* context)
      : volume_(&volume), context_(context), lock_(context->query_lock()) {}

 private:
  const Volume* volume_;
  CudaContext* context_;
  std::unique_lock<std::mutex> lock_;
};

}  // namespace quantem::detector_detail
