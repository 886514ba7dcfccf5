// Sums and maxima over scan positions for each detector pixel, dense, and single frames with their statistics.

#include <cmath>
#include <cstring>
#include <limits>

#include "quantem/detector/dense_cpu.h"

namespace quantem {
namespace detector_detail {
namespace {

std::vector<std::uint64_t> members_of(const BitMask& positions) {
  std::vector<std::uint64_t> members;
  for (std::uint64_t n = 0; n < positions.count(); ++n)
    if (positions[n]) members.push_back(n);
  return members;
}

}  // namespace

DetectorOps::Path pattern_sum_dense(const Volume& volume, const BitMask& positions, std::span<std::uint64_t> sum,
                                    const Job& job) {
  const std::vector<std::uint64_t> members = members_of(positions);
  const std::uint64_t frame = volume.shape().frame_pixels();
  const auto run = [&]<class T>() -> Result<Done> {
    if constexpr (std::is_floating_point_v<T>)
      return Error{Code::internal, "pattern_sum: integer path on float counts"};
    else
      return each_pixel_range(volume, job, "sum_pattern", [&](std::uint64_t first, std::uint64_t stop) {
        std::fill(sum.begin() + first, sum.begin() + stop, 0);
        for (const std::uint64_t n : members) {
          const T* counts = volume.dense()->counts.as<T>().data() + n * frame;
          for (std::uint64_t p = first; p < stop; ++p)
            sum[p] += static_cast<std::uint64_t>(static_cast<std::int64_t>(counts[p]));
        }
      });
  };
  QUANTEM_TRY(visit_count_dtype(volume.dtype(), run));
  return std::string_view("cpu_dense_sum_pattern");
}

DetectorOps::Path pattern_sum_real_dense(const Volume& volume, const BitMask& positions, std::span<double> sum,
                                         std::span<std::uint64_t> n_finite, const Job& job) {
  const std::vector<std::uint64_t> members = members_of(positions);
  const std::uint64_t frame = volume.shape().frame_pixels();
  QUANTEM_TRY(each_pixel_range(volume, job, "sum_pattern", [&](std::uint64_t first, std::uint64_t stop) {
    std::fill(sum.begin() + first, sum.begin() + stop, 0.0);
    std::fill(n_finite.begin() + first, n_finite.begin() + stop, 0);
    for (const std::uint64_t n : members) {
      const float* counts = volume.dense()->counts.as<float>().data() + n * frame;
      for (std::uint64_t p = first; p < stop; ++p)
        if (std::isfinite(counts[p])) sum[p] += static_cast<double>(counts[p]), ++n_finite[p];
    }
  }));
  return std::string_view("cpu_dense_sum_pattern");
}

DetectorOps::Path pattern_max_dense(const Volume& volume, const BitMask& positions, std::span<std::byte> out,
                                    const Job& job) {
  const std::vector<std::uint64_t> members = members_of(positions);
  const std::uint64_t frame = volume.shape().frame_pixels();
  const auto run = [&]<class T>() -> Result<Done> {
    return each_pixel_range(volume, job, "max_pattern", [&](std::uint64_t first, std::uint64_t stop) {
      T largest[kPixelsPerPart];
      constexpr T kNone =
          std::is_floating_point_v<T> ? std::numeric_limits<T>::quiet_NaN() : std::numeric_limits<T>::lowest();
      std::fill(largest, largest + (stop - first), kNone);
      for (const std::uint64_t n : members) {
        const T* counts = volume.dense()->counts.as<T>().data() + n * frame + first;
        for (std::uint64_t i = 0; i < stop - first; ++i) {
          if constexpr (std::is_floating_point_v<T>) {
            if (std::isfinite(counts[i]) && !(largest[i] >= counts[i])) largest[i] = counts[i];
          } else {
            largest[i] = std::max(largest[i], counts[i]);
          }
        }
      }
      std::memcpy(out.data() + first * sizeof(T), largest, (stop - first) * sizeof(T));
    });
  };
  QUANTEM_TRY(visit_count_dtype(volume.dtype(), run));
  return std::string_view("cpu_dense_max_pattern");
}

DetectorOps::Path frame_dense(const Volume& volume, std::uint64_t position, std::span<std::byte> out) {
  std::memcpy(out.data(), volume.dense()->counts.data() + position * out.size(), out.size());
  return std::string_view("cpu_dense_frame");
}

DetectorOps::Path frame_statistics_dense(const Volume& volume, std::uint64_t saturation, FrameStatistics& out,
                                         const Job& job) {
  const BitMask& valid = volume.valid_pixels();
  const auto run = [&]<class T>() -> Result<Done> {
    if constexpr (!std::is_unsigned_v<T>)
      return Error{Code::internal, "frame_statistics: unsigned path on other counts"};
    else
      return each_frame<T>(volume, job, "frame_statistics", [&](std::uint64_t n, std::span<const T> counts) {
        std::uint64_t total = 0;
        std::uint32_t n_nonzero = 0, n_saturated = 0, argmax = 0;
        std::uint64_t largest = 0;
        bool any = false;
        for (std::uint64_t p = 0; p < counts.size(); ++p) {
          if (!valid[p]) continue;
          const std::uint64_t v = counts[p];
          total += v;
          n_nonzero += v != 0;
          n_saturated += v >= saturation;
          if (!any || v > largest) largest = v, argmax = static_cast<std::uint32_t>(p), any = true;
        }
        out.total[n] = total;
        out.max[n] = static_cast<double>(largest);
        out.argmax[n] = argmax;
        out.n_nonzero[n] = n_nonzero;
        out.n_saturated[n] = n_saturated;
      });
  };
  QUANTEM_TRY(visit_count_dtype(volume.dtype(), run));
  return std::string_view("cpu_dense_frame_statistics");
}

}  // namespace detector_detail

const DetectorOps* detector_ops_cpu_dense() {
  using namespace detector_detail;
  static constexpr DetectorOps kOps{masked_sums_dense,        move_sum_dense,    weighted_sums_dense,
                                    weighted_sums_real_dense, moment_sums_dense, pattern_sum_dense,
                                    pattern_sum_real_dense,   pattern_max_dense, frame_dense,
                                    frame_statistics_dense};
  return &kOps;
}

}  // namespace quantem
