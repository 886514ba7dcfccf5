#pragma once
// One query of an encoded volume on a CUDA device: its context locked, its stream, and what is kept with the volume between queries
// (costs for the planner, plans in device memory, the largest whole-detector sum).

#include <functional>
#include <map>
#include <vector>

#include "quantem/detector/cuda_query.h"
#include "quantem/detector/detector_ops.h"
#include "quantem/detector/sums_cuda.h"

namespace quantem::detector_detail {

enum class PlanKind : std::uint8_t { sum, row_moment, col_moment };

// Made once a volume. Everything but the planner is only touched under the context's query lock.
class SlicedSession {
 public:
  explicit SlicedSession(const Volume& volume);

  Planner planner;

  struct Request {
    PlanKind kind;
    const BitMask* selected;  // the key, with kind; null: not kept for another query
    std::function<std::vector<SumTerm>()> terms;
  };
  struct Placed {
    SumPlanView view;
    bool weighted;
  };
  // The plans in device memory: those that are not there yet are made, and copied on the query's stream.
  Result<std::vector<Placed>> place(CudaContext& context, const SlicedDevice& device,
                                    std::span<const Request> requests) const;

  // How often plans went up: their pinned memory is the next query's as soon as the lock is let go.
  [[nodiscard]] std::uint64_t n_uploads() const { return n_uploads_; }

  // The valid positions of the volume, bit i of word i / 32; copied there at the first call.
  Result<const std::uint32_t*> valid_positions(CudaContext& context, const BitMask& valid) const;

  // The image that the last move_sum left on the device.
  struct Last {
    DeviceMemory image;  // u32
    BitMask selected;
    bool valid = false;
  };
  mutable Last last;
  mutable std::uint64_t largest_total = 0;
  mutable bool has_largest_total = false;

 private:
  using Key = std::pair<PlanKind, std::vector<std::uint64_t>>;
  mutable std::map<Key, Placed> placed_;
  mutable DeviceMemory area_, valid_positions_;
  mutable std::uint64_t used_ = 0, n_uploads_ = 0;
};

class SlicedQuery : public CudaQuery {
 public:
  static Result<SlicedQuery> open(const Volume& volume, const Job& job, const char* what);

  [[nodiscard]] const SlicedDevice& device() const { return *volume().sliced_device(); }
  [[nodiscard]] const SlicedSession& session() const { return *session_; }
  [[nodiscard]] double largest_count() const;

  // Plans of masks and of moments over `selected` (valid pixels only).
  Result<std::vector<SlicedSession::Placed>> plans_of_masks(std::span<const BitMask> masks);
  Result<std::vector<SlicedSession::Placed>> plans_of_moments(const BitMask& selected);  // total, row, col
  Result<std::vector<SlicedSession::Placed>> place(std::span<const SlicedSession::Request> requests);

  // The largest sum over the whole detector at any position; computed once a volume.
  Result<std::uint64_t> largest_total();

 private:
  friend CudaQuery;
  SlicedQuery(const Volume& volume, CudaContext* context, std::shared_ptr<const SlicedSession> session)
      : CudaQuery(volume, context), session_(std::move(session)) {}
  std::shared_ptr<const SlicedSession> session_;
};

// Bits of sums with weights up to `weight` in magnitude; 64 where they do not fit.
std::uint32_t bits_of_sums(std::uint64_t largest_total, std::uint64_t weight, bool is_signed);

// Copies n elements to a caller's array, on several threads where that pays; u32 are widened.
void copy_out(const std::uint64_t* from, std::span<std::uint64_t> to);
void copy_out(const std::uint32_t* from, std::span<std::uint64_t> to);
// Images of f32 that come down as a kernel writes them to pinned memory, half as wide where the sums fit 16 bits. Plans lie on the device.
struct ImagesDown {
  std::span<const SlicedDevice* const> volumes;
  std::span<const SumPlanView> plans;
  std::uint32_t bits;
  std::span<std::vector<float>> images;  // volume by volume; sized here
  const char* what;
};
// While the kernel runs, `meanwhile` is done and the threads that copy are woken.
Result<Done> sums_to_host(CudaContext& context, const ImagesDown& down, const std::function<void()>& meanwhile);

// --- sums over scan positions ----------------------------------------------------------------------------------------------
inline constexpr std::uint32_t kRegionBlocks = 8;  // blocks of a CTA where positions are masked

// A set of scan positions in the work area, behind its first `at` bytes (a multiple of 64). `all`: no masks.
struct SetOnDevice {
  const std::uint32_t* groups = nullptr;  // of kRegionBlocks blocks
  const std::uint32_t* masks = nullptr;   // 16 words for each block of each group; null: every position
  std::uint32_t n_groups = 0;
};
Result<SetOnDevice> upload_set(SlicedQuery& query, const BitMask& positions, bool all, std::uint64_t at);
Result<Done> launch_pattern_sums(SlicedQuery& query, const SetOnDevice& set, std::uint64_t* sums);

// One frame in the volume's dtype, detector order, to device memory.
Result<Done> launch_frame(SlicedQuery& query, std::uint64_t position, void* frame);

// --- the table's functions -------------------------------------------------------------------------------------------------
DetectorOps::Path masked_sums_cuda(const Volume&, std::span<const BitMask>, std::span<const std::span<std::uint64_t>>,
                                   const Job&);
DetectorOps::Path move_sum_cuda(const Volume&, const BitMask&, const BitMask&, std::span<std::uint64_t>, const Job&);
DetectorOps::Path masked_sums_rounded_cuda(const Volume&, std::span<const BitMask>, std::span<std::vector<float>>,
                                           const std::function<void()>&, const Job&);
DetectorOps::Path weighted_sums_cuda(const Volume&, std::span<const std::span<const std::int64_t>>,
                                     std::span<const std::span<std::uint64_t>>, const Job&);
DetectorOps::Path moment_sums_cuda(const Volume&, const BitMask&, std::span<std::uint64_t>, std::span<std::uint64_t>,
                                   std::span<std::uint64_t>, const Job&);
DetectorOps::Path pattern_sum_cuda(const Volume&, const BitMask&, std::span<std::uint64_t>, const Job&);
DetectorOps::Path pattern_max_cuda(const Volume&, const BitMask&, std::span<std::byte>, const Job&);
DetectorOps::Path frame_cuda(const Volume&, std::uint64_t, std::span<std::byte>);
DetectorOps::Path frame_statistics_cuda(const Volume&, std::uint64_t, FrameStatistics&, const Job&);

}  // namespace quantem::detector_detail
