#include "quantem/simulate/random.h"

#include <cmath>

namespace quantem {
namespace {

constexpr double kInverseBelow = 10;

std::uint32_t by_inversion(double mean, double u) {
  if (u < 1 - mean) return 0;  // exp(-mean) is not below 1 - mean: most pixels end here without a logarithm
  double p = std::exp(-mean), sum = p;
  std::uint32_t k = 0;
  while (u > sum && k < 1000) {  // below 10, the tail beyond 1000 is less than any double
    ++k;
    p *= mean / k;
    sum += p;
  }
  return k;
}

// ln k! for k >= 0 by Stirling's series from 10 on, exact products below.
double log_factorial(double k) {
  if (k < 10) {
    double product = 1;
    for (int i = 2; i <= static_cast<int>(k); ++i) product *= i;
    return std::log(product);
  }
  const double x = k + 1, x2 = x * x;
  return (x - 0.5) * std::log(x) - x + 0.9189385332046727 + (1 / 12.0 - (1 / 360.0 - 1 / (1260.0 * x2)) / x2) / x;
}

std::uint32_t by_rejection(double mean, std::uint64_t seed, std::uint32_t pixel, std::uint64_t position) {
  const double root = std::sqrt(mean), log_mean = std::log(mean);
  const double b = 0.931 + 2.53 * root, a = -0.059 + 0.02483 * b;
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), v_r = 0.9277 - 3.6224 / (b - 2);
  for (std::uint32_t stream = 1;; ++stream) {  // accepts nine of ten
    const UniformPair draw = uniform_pair(seed, pixel, position, stream);
    const double u = draw.first - 0.5, v = draw.second, us = 0.5 - std::abs(u);
    const double k = std::floor((2 * a / us + b) * u + mean + 0.43);
    if (us >= 0.07 && v <= v_r) return static_cast<std::uint32_t>(k);
    if (k < 0 || (us < 0.013 && v > us)) continue;
    if (std::log(v) + std::log(inverse_alpha) - std::log(a / (us * us) + b) <= -mean + k * log_mean - log_factorial(k))
      return static_cast<std::uint32_t>(k);
  }
}

}  // namespace

std::array<std::uint32_t, 4> philox_4x32(std::array<std::uint32_t, 4> c, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53u} * c[0], b = std::uint64_t{0xCD9E8D57u} * c[2];
    c = {static_cast<std::uint32_t>(b >> 32) ^ c[1] ^ key[0], static_cast<std::uint32_t>(b),
         static_cast<std::uint32_t>(a >> 32) ^ c[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return c;
}

UniformPair uniform_pair(std::uint64_t seed, std::uint32_t pixel, std::uint64_t index, std::uint32_t stream) {
  const auto x =
      philox_4x32({pixel, static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), stream},
                  {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  const auto unit = [](std::uint32_t high, std::uint32_t low) {
    const std::uint64_t bits = (std::uint64_t{high} << 32 | low) >> 11;
    return (static_cast<double>(bits) + 0.5) * 0x1p-53;
  };
  return {unit(x[0], x[1]), unit(x[2], x[3])};
}

std::uint32_t poisson(double mean, double u, std::uint64_t seed, std::uint32_t pixel, std::uint64_t position) {
  if (!(mean > 0)) return 0;
  if (mean < kInverseBelow) return by_inversion(mean, u);
  return by_rejection(mean, seed, pixel, position);
}

}  // namespace quantem
