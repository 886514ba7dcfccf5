#pragma once
// Discrete Fourier transforms of any size, in double:
//   forward  F[u, v] = sum over (r, c) of f[r, c] exp(-2 pi i (u r / rows + v c / cols))          unnormalised
//   inverse  f[r, c] = 1 / (rows cols) * sum over (u, v) of F[u, v] exp(+2 pi i (u r / rows + v c / cols))
// Mixed radix where the largest prime factor is small, a chirp transform (Bluestein) where it is not, so a prime side
// costs O(n log n) too. Error: about 1e-16 log2(n) of the rms of the result. Same extent, same values: the same bits.
// A plan holds its scratch: one plan a thread.

#include <complex>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "quantem/core/host_device.h"
#include "quantem/core/shape.h"

namespace quantem {

// Frequency of bin i of n in cycles per unit of `step`: i/(n step), and (i - n)/(n step) from bin ceil(n/2) on, so the
// Nyquist bin of an even n is the negative one.
QUANTEM_HOST_DEVICE constexpr double fft_frequency(std::uint32_t i, std::uint32_t n, double step = 1.0) {
  const auto k = static_cast<double>(i) - (i >= n / 2 + n % 2 ? static_cast<double>(n) : 0.0);
  return k / (static_cast<double>(n) * step);
}
// The bin of frequency 1/(2 step) of an even n, which has no partner of the other sign.
QUANTEM_HOST_DEVICE constexpr bool is_nyquist(std::uint32_t i, std::uint32_t n) {
  return n % 2 == 0 && i == n / 2;
}

class Fft2 {
 public:
  explicit Fft2(Extent extent);  // both sides at least 1
  ~Fft2();
  Fft2(Fft2&&) noexcept;
  Fft2& operator=(Fft2&&) noexcept;
  [[nodiscard]] Extent extent() const { return extent_; }

  // In place on extent.count() values, C order.
  void forward(std::span<std::complex<double>> values);
  // `rows` (optional): a row with 0 there is known to hold only zeros and is passed over. Results do not depend on it.
  void inverse(std::span<std::complex<double>> values, std::span<const std::uint8_t> rows = {});

 private:
  class Line;  // 1-D transforms of one length, both directions
  void columns(std::span<std::complex<double>> values, bool inverse, double scale);
  Extent extent_;
  std::unique_ptr<Line> row_, col_;
  std::vector<std::complex<double>> scratch_;
};

}  // namespace quantem
