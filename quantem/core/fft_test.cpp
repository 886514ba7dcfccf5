// The transform against the defining sum, at every kind of size: 1, powers, mixed, primes on both sides of the chirp
// limit.

#include "quantem/core/fft.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace quantem {
namespace {

using Complex = std::complex<double>;

std::vector<Complex> some_values(Extent e) {
  std::vector<Complex> v(e.count());
  std::uint32_t state = 12345;
  const auto next = [&] {
    state = state * 1664525u + 1013904223u;
    return static_cast<double>(state >> 8) / (1 << 24) - 0.5;
  };
  for (Complex& x : v) x = {next(), next()};
  return v;
}

Complex defined(const std::vector<Complex>& f, Extent e, std::uint32_t u, std::uint32_t v) {
  Complex sum = 0;
  for (std::uint32_t r = 0; r < e.rows; ++r)
    for (std::uint32_t c = 0; c < e.cols; ++c) {
      const double turns = static_cast<double>(std::uint64_t{u} * r % e.rows) / e.rows +
                           static_cast<double>(std::uint64_t{v} * c % e.cols) / e.cols;
      sum += f[std::uint64_t{r} * e.cols + c] * std::polar(1.0, -2 * std::numbers::pi * turns);
    }
  return sum;
}

TEST(Fft2, EqualsTheDefinitionAndComesBack) {
  const Extent extents[] = {{1, 1},   {1, 7},   {7, 1},   {2, 2},   {8, 8},  {12, 20},
                            {23, 29}, {31, 15}, {45, 63}, {37, 41}, {3, 101}};
  for (const Extent e : extents) {
    const std::vector<Complex> f = some_values(e);
    std::vector<Complex> g = f;
    Fft2 plan(e);
    plan.forward(g);
    const double bound = 2e-14 * std::sqrt(static_cast<double>(e.count()));
    for (std::uint32_t u = 0; u < e.rows; u += 1 + e.rows / 5)
      for (std::uint32_t v = 0; v < e.cols; v += 1 + e.cols / 5)
        EXPECT_LT(std::abs(g[std::uint64_t{u} * e.cols + v] - defined(f, e, u, v)), bound) << to_string(e);
    plan.inverse(g);
    for (std::uint64_t i = 0; i < f.size(); ++i) ASSERT_LT(std::abs(g[i] - f[i]), 1e-14) << to_string(e) << " " << i;
  }
}

TEST(Fft2, PassedOverRowsChangeNoBit) {
  const Extent e{9, 14};
  std::vector<Complex> f = some_values(e);
  std::vector<std::uint8_t> rows(e.rows, 1);
  for (const std::uint32_t r : {0u, 4u, 8u}) {
    rows[r] = 0;
    for (std::uint32_t c = 0; c < e.cols; ++c) f[r * e.cols + c] = 0;
  }
  std::vector<Complex> g = f;
  Fft2 plan(e);
  plan.inverse(f);
  plan.inverse(g, rows);
  EXPECT_EQ(f, g);
}

TEST(Fft2, FrequenciesHaveANegativeNyquistBin) {
  EXPECT_EQ(fft_frequency(0, 4, 0.5), 0.0);
  EXPECT_EQ(fft_frequency(1, 4, 0.5), 0.5);
  EXPECT_EQ(fft_frequency(2, 4, 0.5), -1.0);
  EXPECT_EQ(fft_frequency(3, 4, 0.5), -0.5);
  EXPECT_EQ(fft_frequency(2, 5), 0.4);
  EXPECT_EQ(fft_frequency(3, 5), -0.4);
  EXPECT_TRUE(is_nyquist(2, 4));
  EXPECT_FALSE(is_nyquist(2, 5));
  EXPECT_EQ(fft_frequency(0, 1), 0.0);
}

}  // namespace
}  // namespace quantem
