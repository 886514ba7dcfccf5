#pragma once
// Percentiles as every backend computes them: the value at rank p/100 (n - 1), linear between its neighbours, in double.

#include <algorithm>
#include <cstdint>

#include "quantem/core/result.h"

namespace quantem {

// Between the values of ranks `below` and below + 1, `part` of the way; part is 0 where there is no rank above.
struct Rank {
  std::uint64_t below;
  double part;
};

inline Rank rank_of(double p, std::uint64_t n_values) {
  const std::uint64_t last = n_values - 1;
  const double rank = p / 100 * static_cast<double>(last);
  const auto below = std::min(static_cast<std::uint64_t>(rank), last);
  return {below, below == last ? 0.0 : rank - static_cast<double>(below)};
}

inline double value_at_rank(const Rank& rank, double low, double high) {
  return rank.part > 0 ? low + rank.part * (high - low) : low;
}

// invalid_argument unless 0 <= low <= high <= 100.
Result<Done> check_percentiles(double low, double high);

}  // namespace quantem
