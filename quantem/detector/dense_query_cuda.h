#pragma once
// One query of a dense volume on a CUDA device: its context locked, its stream, and what is kept with the volume between queries.

#include <span>
#include <vector>

#include "quantem/detector/cuda_query.h"
#include "quantem/detector/detector_ops.h"
#include "quantem/resident/dense_device.h"

namespace quantem::detector_detail {

// Made once a volume; touched under the context's query lock.
struct DenseSession {
  mutable std::vector<std::uint64_t> total;  // sum over all valid pixels at each position; empty until it is needed
};

class DenseQuery : public CudaQuery {
 public:
  static Result<DenseQuery> open(const Volume& volume, const Job& job, const char* what);

  [[nodiscard]] const DenseSession& session() const { return *session_; }
  [[nodiscard]] std::uint64_t n_positions() const { return volume().shape().n_positions(); }
  [[nodiscard]] std::uint32_t frame_pixels() const {
    return static_cast<std::uint32_t>(volume().shape().frame_pixels());
  }
  template <class T>
  [[nodiscard]] const T* counts() const {
    return volume().dense_device()->counts.as<T>();
  }
  // Whether every frame is a whole number of 16-byte segments: then every frame begins at one.
  [[nodiscard]] bool has_segments() const {
    return volume().shape().frame_pixels() * item_bytes(volume().dtype()) % 16 == 0;
  }

  // What one launch needs, in the work area: room for its results, then copies of the parts, each at a multiple of 256 bytes. One
  // placement a synchronisation: the parts go up through one pinned area.
  struct Placed {
    void* results;
    std::vector<const void*> parts;
  };
  Result<Placed> place(std::uint64_t result_bytes, std::span<const std::span<const std::byte>> parts);

 private:
  friend CudaQuery;
  DenseQuery(const Volume& volume, CudaContext* context, std::shared_ptr<const DenseSession> session)
      : CudaQuery(volume, context), session_(std::move(session)) {}
  std::shared_ptr<const DenseSession> session_;
};

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

// --- kernels by themselves: what the table's functions queue, and what benchmarks time -------------------------------------
// The segments of 8- or 16-bit frames that have a selected pixel, in the work area, and the room for their sums.
struct SelectedOnDevice {
  const std::uint32_t* segments = nullptr;
  const void* masks = nullptr;  // 16 bytes a segment
  std::uint32_t n_segments = 0;
  std::uint64_t* image = nullptr;
};
Result<SelectedOnDevice> place_selected(DenseQuery& query, const BitMask& selected);
Result<Done> launch_selected(DenseQuery& query, const SelectedOnDevice& selected);
// Whether whole frames have the fused kernel: 8- and 16-bit counts, rows of whole segments.
bool has_com_kernel(const Volume& volume);
// total, row and column moments of whole frames: 3 * n_positions.
Result<Done> launch_com(DenseQuery& query, std::uint64_t* images);
// Sums over `members` (ascending; on_device their copy), or over all `n_positions` where it is empty; `sums` is set to 0 before.
Result<Done> launch_sum_positions(DenseQuery& query, std::uint64_t n_positions,
                                  const std::vector<std::uint64_t>& members, const void* on_device,
                                  std::uint64_t* sums);

// --- the table's functions -------------------------------------------------------------------------------------------------
DetectorOps::Path masked_sums_dense_cuda(const Volume&, std::span<const BitMask>,
                                         std::span<const std::span<std::uint64_t>>, const Job&);
DetectorOps::Path move_sum_dense_cuda(const Volume&, const BitMask&, const BitMask&, std::span<std::uint64_t>,
                                      const Job&);
DetectorOps::Path weighted_sums_dense_cuda(const Volume&, std::span<const std::span<const std::int64_t>>,
                                           std::span<const std::span<std::uint64_t>>, const Job&);
DetectorOps::Path weighted_sums_real_dense_cuda(const Volume&, std::span<const std::span<const std::int64_t>>,
                                                std::span<const std::span<double>>, const Job&);
DetectorOps::Path moment_sums_dense_cuda(const Volume&, const BitMask&, std::span<std::uint64_t>,
                                         std::span<std::uint64_t>, std::span<std::uint64_t>, const Job&);
DetectorOps::Path pattern_sum_dense_cuda(const Volume&, const BitMask&, std::span<std::uint64_t>, const Job&);
DetectorOps::Path pattern_sum_real_dense_cuda(const Volume&, const BitMask&, std::span<double>,
                                              std::span<std::uint64_t>, const Job&);
DetectorOps::Path pattern_max_dense_cuda(const Volume&, const BitMask&, std::span<std::byte>, const Job&);
DetectorOps::Path frame_dense_cuda(const Volume&, std::uint64_t, std::span<std::byte>);
DetectorOps::Path frame_statistics_dense_cuda(const Volume&, std::uint64_t, FrameStatistics&, const Job&);
DetectorOps::Path sample_states_dense_cuda(const Volume&, const BitMask&, std::span<std::uint8_t>, const Job&);

}  // namespace quantem::detector_detail
