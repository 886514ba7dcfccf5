// The table of dense volumes on a CUDA device, and what its functions share.

#include <cstring>

#include "quantem/detector/dense_query_cuda.h"
#include "quantem/runtime/current_device.cuh"

namespace quantem {
namespace detector_detail {
namespace {

constexpr std::uint64_t round_up(std::uint64_t n) {
  return (n + 255) / 256 * 256;
}

}  // namespace

Result<DenseQuery> DenseQuery::open(const Volume& volume, const Job& job, const char* what) {
  return open_with<DenseQuery, DenseSession>(volume, job, what, [] { return DenseSession(); });
}

Result<DenseQuery::Placed> DenseQuery::place(std::uint64_t result_bytes,
                                             std::span<const std::span<const std::byte>> parts) {
  std::uint64_t n_up = 0;
  for (const auto& part : parts) n_up += round_up(part.size());
  QUANTEM_TRY_ASSIGN(area, context().work_area(round_up(result_bytes) + n_up));
  Placed placed{area, {}};
  if (n_up == 0) return Result<Placed>(std::move(placed));
  QUANTEM_TRY_ASSIGN(staging, context().pinned_upload(n_up));
  char* to = static_cast<char*>(area) + round_up(result_bytes);
  std::uint64_t at = 0;
  for (const auto& part : parts) {
    if (!part.empty()) std::memcpy(static_cast<char*>(staging) + at, part.data(), part.size());
    placed.parts.push_back(to + at);
    at += round_up(part.size());
  }
  QUANTEM_TRY(context().check(cudaMemcpyAsync(to, staging, n_up, cudaMemcpyHostToDevice, stream()), "query"));
  return Result<Placed>(std::move(placed));
}

}  // namespace detector_detail

const DetectorOps* detector_ops_cuda_dense() {
  using namespace detector_detail;
  static constexpr DetectorOps kOps{masked_sums_dense_cuda,
                                    move_sum_dense_cuda,
                                    weighted_sums_dense_cuda,
                                    weighted_sums_real_dense_cuda,
                                    moment_sums_dense_cuda,
                                    pattern_sum_dense_cuda,
                                    pattern_sum_real_dense_cuda,
                                    pattern_max_dense_cuda,
                                    frame_dense_cuda,
                                    frame_statistics_dense_cuda,
                                    nullptr,
                                    sample_states_dense_cuda};
  return &kOps;
}

}  // namespace quantem
