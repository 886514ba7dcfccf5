#pragma once
// Generated counts for tests: planes and lists both occur in encoded storage.

#include <cmath>
#include <cstdint>
#include <random>
#include <type_traits>
#include <vector>

namespace quantem::support {

// Mostly small counts (exponential, of the given mean), one in `one_in` of any size. Never the u32 marker of a missing sample.
template <class T>
std::vector<T> random_counts(std::uint64_t n, std::uint32_t seed, double mean, std::uint32_t one_in = 197) {
  std::mt19937 random(seed);
  std::vector<T> out(n);
  for (T& v : out) {
    const auto r = static_cast<std::uint32_t>(random());
    const double u = static_cast<double>(random() >> 8) / 16777216.0;
    v = static_cast<T>(r % one_in == 0 ? random() : static_cast<std::uint32_t>(-mean * std::log(1 - u)));
    if constexpr (std::is_same_v<T, std::uint32_t>)
      if (v == 0xFFFFFFFFu) v = 1;
  }
  return out;
}

}  // namespace quantem::support
