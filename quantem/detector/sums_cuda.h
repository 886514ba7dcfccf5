#pragma once
// Runs sum plans over encoded volumes on a CUDA device: many plans over one volume, or one plan over many volumes, in one launch.

#include <cstdint>
#include <span>

#include "quantem/detector/sum_plan.h"
#include "quantem/resident/sliced_device.h"

namespace quantem::detector_detail {

// A plan in device memory.
struct SumPlanView {
  const std::uint32_t* streams;
  const std::uint64_t* codes;
  const SumRun* runs;
  std::uint32_t n_rounds, n_runs, list_warps;
};

inline constexpr std::uint32_t kVolumesTogether = 32, kPlansTogether = 32;

// Image v * n_plans + p is plan p over volume v; images are `stride` elements apart. Of the outputs, those that are not null are
// written, at every position of the volume.
struct SumLaunch {
  std::span<const SlicedDevice* const> volumes;  // of one layout, at most kVolumesTogether
  std::span<const SumPlanView> plans;            // at most kPlansTogether
  bool weighted = false;                         // some plan has weights beyond +1 and -1
  // Every sum is below 2^bits (is_signed: below 2^(bits - 1) in magnitude). Above 32 only `wide` is possible.
  std::uint32_t bits = 64;
  bool is_signed = false;
  const std::uint32_t* before = nullptr;  // added to the sums: integers of an earlier launch
  std::uint32_t* integers = nullptr;
  std::uint64_t* wide = nullptr;  // sign-extended where is_signed
  float* rounded = nullptr;       // to nearest, ties to even
  // The sums where bits <= 16, for images that cross the link: half the bytes. Whole blocks are written: stride is a multiple of 512.
  std::uint16_t* narrow = nullptr;
  std::uint64_t stride = 0;
};
Result<Done> launch_sums(CudaContext& context, const SumLaunch& launch);

}  // namespace quantem::detector_detail
