// Sums over detector pixels at each scan position, dense: every selected pixel of every frame is read once, in pixel order.

#include <cmath>
#include <limits>

#include "quantem/detector/dense_cpu.h"
#include "quantem/detector/moved_sum.h"

namespace quantem::detector_detail {
namespace {

// A pixel's weight; the list holds those that are not 0, in pixel order.
struct Term {
  std::uint32_t pixel;
  std::int64_t weight;
};

std::vector<Term> terms_of(std::span<const std::int64_t> weights) {
  std::vector<Term> terms;
  for (std::uint64_t p = 0; p < weights.size(); ++p)
    if (weights[p] != 0) terms.push_back({static_cast<std::uint32_t>(p), weights[p]});
  return terms;
}

std::vector<std::uint32_t> pixels_of(const BitMask& mask) {
  std::vector<std::uint32_t> pixels;
  for (std::uint64_t p = 0; p < mask.count(); ++p)
    if (mask[p]) pixels.push_back(static_cast<std::uint32_t>(p));
  return pixels;
}

// Sign extended for signed counts: sums modulo 2^64 are then the two's complement of the signed sum.
template <class T>
std::uint64_t widen(T v) {
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(v));
}

template <class Value>
void clear(std::span<const std::span<Value>> images) {
  for (const auto& image : images) std::fill(image.begin(), image.end(), Value{0});
}

}  // namespace

DetectorOps::Path masked_sums_dense(const Volume& volume, std::span<const BitMask> masks,
                                    std::span<const std::span<std::uint64_t>> images, const Job& job) {
  std::vector<std::vector<std::uint32_t>> pixels;
  for (const BitMask& m : masks) pixels.push_back(pixels_of(m));
  clear(images);
  const auto run = [&]<class T>() -> Result<Done> {
    if constexpr (std::is_floating_point_v<T>)
      return Error{Code::internal, "masked_sums: integer path on float counts"};
    else
      return each_frame<T>(volume, job, "masked_sum", [&](std::uint64_t n, std::span<const T> counts) {
        for (std::size_t m = 0; m < pixels.size(); ++m) {
          std::uint64_t sum = 0;
          for (const std::uint32_t p : pixels[m]) sum += widen(counts[p]);
          images[m][n] = sum;
        }
      });
  };
  QUANTEM_TRY(visit_count_dtype(volume.dtype(), run));
  return std::string_view("cpu_dense_masked_sum");
}

DetectorOps::Path move_sum_dense(const Volume& volume, const BitMask& from, const BitMask& to,
                                 std::span<std::uint64_t> image, const Job& job) {
  return moved_sum(masked_sums_dense, volume, from, to, image, job, "cpu_dense_moved_sum");
}

DetectorOps::Path weighted_sums_dense(const Volume& volume, std::span<const std::span<const std::int64_t>> weights,
                                      std::span<const std::span<std::uint64_t>> images, const Job& job) {
  std::vector<std::vector<Term>> terms;
  for (const auto& w : weights) terms.push_back(terms_of(w));
  clear(images);
  const auto run = [&]<class T>() -> Result<Done> {
    if constexpr (std::is_floating_point_v<T>)
      return Error{Code::internal, "weighted_sums: integer path on float counts"};
    else
      return each_frame<T>(volume, job, "weighted_sum", [&](std::uint64_t n, std::span<const T> counts) {
        for (std::size_t m = 0; m < terms.size(); ++m) {
          std::uint64_t sum = 0;
          for (const Term& t : terms[m]) sum += static_cast<std::uint64_t>(t.weight) * widen(counts[t.pixel]);
          images[m][n] = sum;
        }
      });
  };
  QUANTEM_TRY(visit_count_dtype(volume.dtype(), run));
  return std::string_view("cpu_dense_weighted_sum");
}

DetectorOps::Path weighted_sums_real_dense(const Volume& volume, std::span<const std::span<const std::int64_t>> weights,
                                           std::span<const std::span<double>> images, const Job& job) {
  std::vector<std::vector<Term>> terms;
  for (const auto& w : weights) terms.push_back(terms_of(w));
  clear(images);
  QUANTEM_TRY(each_frame<float>(volume, job, "weighted_sum", [&](std::uint64_t n, std::span<const float> counts) {
    for (std::size_t m = 0; m < terms.size(); ++m) {
      double sum = 0;
      for (const Term& t : terms[m]) {
        const double v = counts[t.pixel];
        if (!std::isfinite(v)) {
          sum = std::numeric_limits<double>::quiet_NaN();
          break;
        }
        sum += static_cast<double>(t.weight) * v;
      }
      images[m][n] = sum;
    }
  }));
  return std::string_view("cpu_dense_real_sum");
}

DetectorOps::Path moment_sums_dense(const Volume& volume, const BitMask& selected, std::span<std::uint64_t> total,
                                    std::span<std::uint64_t> row, std::span<std::uint64_t> col, const Job& job) {
  const std::vector<std::uint32_t> pixels = pixels_of(selected);
  const std::uint32_t det_cols = volume.shape().det.cols;
  for (const auto& map : {total, row, col}) std::fill(map.begin(), map.end(), 0);
  const auto run = [&]<class T>() -> Result<Done> {
    if constexpr (std::is_floating_point_v<T>)
      return Error{Code::internal, "moment_sums: integer path on float counts"};
    else
      return each_frame<T>(volume, job, "moment_sums", [&](std::uint64_t n, std::span<const T> counts) {
        std::uint64_t sum = 0, sum_row = 0, sum_col = 0;
        for (const std::uint32_t p : pixels) {
          const std::uint64_t v = widen(counts[p]);
          sum += v;
          sum_row += v * (p / det_cols);
          sum_col += v * (p % det_cols);
        }
        total[n] = sum, row[n] = sum_row, col[n] = sum_col;
      });
  };
  QUANTEM_TRY(visit_count_dtype(volume.dtype(), run));
  return std::string_view("cpu_dense_moment_sums");
}

}  // namespace quantem::detector_detail
