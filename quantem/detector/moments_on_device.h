#pragma once
// moment_sums (masked_sum.h) of encoded counts on a CUDA device, left there: the same integers. For operations that go on from them
// without a way through the host.
//   images  u32 or u64  three of (scan_rows, scan_cols), device memory: total, row moment, col moment; 0 at missing positions
// Errors: those of moment_sums; unsupported where the counts are not encoded on a CUDA device.

#include <memory>

#include "quantem/core/job.h"
#include "quantem/detector/geometry.h"
#include "quantem/resident/volume.h"
#include "quantem/runtime/cuda_context.h"

namespace quantem {

class MomentsOnDevice {
 public:
  // Holds the context's query lock from here to its end. Null mask: all valid pixels.
  static Result<MomentsOnDevice> open(const Volume& volume, const Mask* mask = nullptr, const Job& job = {});
  MomentsOnDevice(MomentsOnDevice&&) noexcept;
  MomentsOnDevice& operator=(MomentsOnDevice&&) noexcept;
  ~MomentsOnDevice();

  [[nodiscard]] CudaContext& context() const;
  [[nodiscard]] bool wide() const;              // u64 elements, else u32
  [[nodiscard]] std::uint64_t n_bytes() const;  // of the three images together
  [[nodiscard]] std::string_view path() const;  // the name that provenance gives the sums

  // Writes the three images, one behind the other, on the query stream; does not wait.
  Result<Done> queue(void* images) const;

 private:
  struct State;
  explicit MomentsOnDevice(std::unique_ptr<State> state);
  static Result<MomentsOnDevice> open_selected(const Volume& volume, const BitMask& selected, const Job& job);
  std::unique_ptr<State> state_;
};

}  // namespace quantem
