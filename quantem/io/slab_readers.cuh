#pragma once
// Streams and events of a load, and the threads that read its slabs.

#include <cuda_runtime_api.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "quantem/io/slab_plan.h"
#include "quantem/runtime/cuda_context.h"

namespace quantem {

// Go when the load does; a stream is finished by then. One that could not be made is null, and its first use says so.
struct Event {
  cudaEvent_t event = nullptr;
  Event() { cudaEventCreateWithFlags(&event, cudaEventDisableTiming); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() {
    if (event) cudaEventDestroy(event);
  }
};
struct CopyStream {
  cudaStream_t stream = nullptr;
  CopyStream() { cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking); }
  CopyStream(const CopyStream&) = delete;
  CopyStream& operator=(const CopyStream&) = delete;
  ~CopyStream() {
    if (stream) cudaStreamSynchronize(stream), cudaStreamDestroy(stream);
  }
};

// Threads that read pieces in order into a ring of pinned slots. A slot is free again when its copy to the device is done.
class Readers {
 public:
  Readers(const std::vector<SlabPlan>& slabs, const FrameReader& reader, std::vector<void*> slots, int n_threads,
          int device)
      : slabs_(slabs),
        reader_(reader),
        slots_(std::move(slots)),
        device_(device),
        left_(slabs.size()),
        copied_(slots_.size()) {
    for (std::size_t s = 0; s < slabs.size(); ++s) {
      left_[s] = slabs[s].pieces.size();
      for (std::size_t p = 0; p < slabs[s].pieces.size(); ++p) jobs_.push_back({s, p});
    }
    for (int t = 0; t < n_threads; ++t) threads_.emplace_back([this] { work(); });
  }
  ~Readers() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    for (std::thread& t : threads_) t.join();
  }
  // Waits until all bytes of a slab are in its slot.
  Result<const void*> wait(std::size_t slab) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return left_[slab] == 0 || error_; });
    if (error_) return *error_;
    return static_cast<const void*>(slots_[slab % slots_.size()]);
  }
  // The copy of this slab is queued on `stream`: its slot is free when the copy is done.
  Result<Done> queued(std::size_t slab, cudaStream_t stream, CudaContext& context) {
    QUANTEM_TRY(context.check(cudaEventRecord(copied_[slab % slots_.size()].event, stream), "load"));
    {
      const std::lock_guard lock(mutex_);
      n_queued_ = slab + 1;
    }
    changed_.notify_all();
    return Done{};
  }

 private:
  struct Job {
    std::size_t slab, piece;
  };
  void work() {
    cudaSetDevice(device_);
    for (;;) {
      const std::size_t i = next_++;
      if (i >= jobs_.size() || stop_) return;
      const Job job = jobs_[i];
      const std::size_t slot = job.slab % slots_.size();
      if (job.slab >= slots_.size()) {  // the slab that used this slot before must have been copied
        {
          std::unique_lock lock(mutex_);
          changed_.wait(lock, [&] { return stop_ || n_queued_ > job.slab - slots_.size(); });
          if (stop_) return;
        }
        cudaEventSynchronize(copied_[slot].event);  // a fault of the device is told by the thread that queues
      }
      const Piece& piece = slabs_[job.slab].pieces[job.piece];
      auto done =
          reader_.read_bytes(piece.file, piece.offset, {static_cast<std::byte*>(slots_[slot]) + piece.to, piece.bytes});
      bool last = false;
      {
        const std::lock_guard lock(mutex_);
        if (!done && !error_) error_ = done.error();
        if (error_) stop_ = true;  // nobody waits for the rest
        last = --left_[job.slab] == 0 || error_;
      }
      if (last) changed_.notify_all();
    }
  }

  const std::vector<SlabPlan>& slabs_;
  const FrameReader& reader_;
  std::vector<void*> slots_;
  int device_;
  std::vector<Job> jobs_;
  std::vector<std::size_t> left_;
  std::vector<Event> copied_;
  std::atomic<std::size_t> next_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t n_queued_ = 0;
  std::atomic<bool> stop_ = false;
  std::optional<Error> error_;
  std::vector<std::thread> threads_;
};

}  // namespace quantem
