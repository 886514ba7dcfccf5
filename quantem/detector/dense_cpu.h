#pragma once
// The dense reference: plain loops over frame-major counts. They are the definition of right for every other path.

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "quantem/detector/detector_ops.h"
#include "quantem/detector/sweep.h"

namespace quantem::detector_detail {

inline constexpr std::uint64_t kPositionsPerPart = 64, kPixelsPerPart = 1024;

constexpr std::uint64_t parts_of(std::uint64_t n, std::uint64_t per_part) {
  return (n + per_part - 1) / per_part;
}

// Calls body(n, counts of position n) for every valid position.
template <class T, class Body>
Result<Done> each_frame(const Volume& volume, const Job& job, const char* what, const Body& body) {
  const std::uint64_t n_positions = volume.shape().n_positions(), frame = volume.shape().frame_pixels();
  const auto counts = volume.dense()->counts.as<T>();
  return sweep(volume, job, what, parts_of(n_positions, kPositionsPerPart), [&](std::uint64_t part) {
    const std::uint64_t stop = std::min(n_positions, (part + 1) * kPositionsPerPart);
    for (std::uint64_t n = part * kPositionsPerPart; n < stop; ++n)
      if (volume.valid_positions()[n]) body(n, counts.subspan(n * frame, frame));
  });
}

// Calls body(first pixel, one past the last) for ranges of pixels.
template <class Body>
Result<Done> each_pixel_range(const Volume& volume, const Job& job, const char* what, const Body& body) {
  const std::uint64_t frame = volume.shape().frame_pixels();
  return sweep(volume, job, what, parts_of(frame, kPixelsPerPart),
               [&](std::uint64_t part) { body(part * kPixelsPerPart, std::min(frame, (part + 1) * kPixelsPerPart)); });
}

DetectorOps::Path masked_sums_dense(const Volume&, std::span<const BitMask>, std::span<const std::span<std::uint64_t>>,
                                    const Job&);
DetectorOps::Path move_sum_dense(const Volume&, const BitMask&, const BitMask&, std::span<std::uint64_t>, const Job&);
DetectorOps::Path weighted_sums_dense(const Volume&, std::span<const std::span<const std::int64_t>>,
                                      std::span<const std::span<std::uint64_t>>, const Job&);
DetectorOps::Path weighted_sums_real_dense(const Volume&, std::span<const std::span<const std::int64_t>>,
                                           std::span<const std::span<double>>, const Job&);
DetectorOps::Path moment_sums_dense(const Volume&, const BitMask&, std::span<std::uint64_t>, std::span<std::uint64_t>,
                                    std::span<std::uint64_t>, const Job&);
DetectorOps::Path pattern_sum_dense(const Volume&, const BitMask&, std::span<std::uint64_t>, const Job&);
DetectorOps::Path pattern_sum_real_dense(const Volume&, const BitMask&, std::span<double>, std::span<std::uint64_t>,
                                         const Job&);
DetectorOps::Path pattern_max_dense(const Volume&, const BitMask&, std::span<std::byte>, const Job&);
DetectorOps::Path frame_dense(const Volume&, std::uint64_t, std::span<std::byte>);
DetectorOps::Path frame_statistics_dense(const Volume&, std::uint64_t, FrameStatistics&, const Job&);

}  // namespace quantem::detector_detail
