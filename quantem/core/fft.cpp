#include "quantem/core/fft.h"

#include <algorithm>
#include <bit>
#include <kissfft/kissfft.hh>
#include <numbers>
#include <optional>

namespace quantem {
namespace {

using Complex = std::complex<double>;

// A butterfly of radix p costs p^2: above this a chirp transform of a power of two is cheaper.
constexpr std::uint32_t kMaxRadix = 23;
// Columns that are gathered at a time: 8 of 16 bytes are two cache lines of every row.
constexpr std::uint64_t kColumnsAtOnce = 8;

std::uint32_t largest_prime_factor(std::uint32_t n) {
  std::uint32_t largest = 1;
  for (std::uint32_t p = 2; std::uint64_t{p} * p <= n; ++p)
    for (; n % p == 0; n /= p) largest = p;
  return std::max(largest, n);
}

// Plain product: std::complex's own also decides what infinity times zero is.
Complex times(Complex a, Complex b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

// F[k] = w[k] sum_n (f[n] w[n]) conj(w[k - n]),  w[n] = exp(-pi i n^2 / N): a convolution, done in a power of two
// of at least 2 N - 1.
class Chirp {
 public:
  explicit Chirp(std::uint32_t n)
      : n_(n),
        padded_(std::bit_ceil(2 * std::uint64_t{n} - 1)),
        forward_(padded_, false),
        backward_(padded_, true),
        chirp_(n),
        kernel_(padded_),
        a_(padded_),
        b_(padded_) {
    for (std::uint64_t i = 0; i < n; ++i) {
      const std::uint64_t turn = i * i % (2 * std::uint64_t{n});  // exact: n^2 / 2N modulo one turn
      chirp_[i] = std::polar(1.0, -std::numbers::pi * static_cast<double>(turn) / n);
    }
    for (std::uint64_t i = 0; i < n; ++i) a_[i] = std::conj(chirp_[i]);
    for (std::uint64_t i = 1; i < n; ++i) a_[padded_ - i] = std::conj(chirp_[i]);
    forward_.transform(a_.data(), kernel_.data());
  }
  // `sign` of the exponent is minus (forward) or plus: the second is the first between two conjugations.
  void transform(const Complex* in, Complex* out, bool inverse) {
    std::fill(a_.begin(), a_.end(), Complex{});
    for (std::uint64_t i = 0; i < n_; ++i) a_[i] = times(inverse ? std::conj(in[i]) : in[i], chirp_[i]);
    forward_.transform(a_.data(), b_.data());
    for (std::uint64_t i = 0; i < padded_; ++i) b_[i] = times(b_[i], kernel_[i]);
    backward_.transform(b_.data(), a_.data());
    const double scale = 1.0 / static_cast<double>(padded_);
    for (std::uint64_t i = 0; i < n_; ++i) {
      const Complex value = times(a_[i], chirp_[i]) * scale;
      out[i] = inverse ? std::conj(value) : value;
    }
  }

 private:
  std::uint64_t n_, padded_;
  kissfft<double> forward_, backward_;
  std::vector<Complex> chirp_, kernel_, a_, b_;
};

}  // namespace

class Fft2::Line {
 public:
  explicit Line(std::uint32_t n) : n_(n) {
    if (largest_prime_factor(n) > kMaxRadix) {
      chirp_.emplace(n);
    } else {
      forward_.emplace(n, false);
      backward_.emplace(n, true);
    }
  }
  void transform(const Complex* in, Complex* out, bool inverse) {  // unnormalised in both directions
    if (n_ == 1)
      *out = *in;
    else if (chirp_)
      chirp_->transform(in, out, inverse);
    else
      (inverse ? *backward_ : *forward_).transform(in, out);
  }

 private:
  std::uint32_t n_;
  std::optional<kissfft<double>> forward_, backward_;
  std::optional<Chirp> chirp_;
};

Fft2::Fft2(Extent extent) : extent_(extent) {
  row_ = std::make_unique<Line>(extent.cols);
  col_ = std::make_unique<Line>(extent.rows);
  scratch_.resize(std::max<std::uint64_t>(extent.cols, 2 * kColumnsAtOnce * extent.rows));
}
Fft2::~Fft2() = default;
Fft2::Fft2(Fft2&&) noexcept = default;
Fft2& Fft2::operator=(Fft2&&) noexcept = default;

void Fft2::columns(std::span<Complex> values, bool inverse, double scale) {
  const std::uint64_t rows = extent_.rows, cols = extent_.cols;
  Complex* const in = scratch_.data();
  Complex* const out = in + kColumnsAtOnce * rows;
  for (std::uint64_t first = 0; first < cols; first += kColumnsAtOnce) {
    const std::uint64_t n = std::min(kColumnsAtOnce, cols - first);
    for (std::uint64_t r = 0; r < rows; ++r)
      for (std::uint64_t c = 0; c < n; ++c) in[c * rows + r] = values[r * cols + first + c];
    for (std::uint64_t c = 0; c < n; ++c) col_->transform(in + c * rows, out + c * rows, inverse);
    for (std::uint64_t r = 0; r < rows; ++r)
      for (std::uint64_t c = 0; c < n; ++c) values[r * cols + first + c] = out[c * rows + r] * scale;
  }
}

void Fft2::forward(std::span<Complex> values) {
  const std::uint64_t cols = extent_.cols;
  for (std::uint64_t r = 0; r < extent_.rows; ++r) {
    std::copy_n(values.data() + r * cols, cols, scratch_.data());
    row_->transform(scratch_.data(), values.data() + r * cols, false);
  }
  columns(values, false, 1.0);
}

void Fft2::inverse(std::span<Complex> values, std::span<const std::uint8_t> rows) {
  const std::uint64_t cols = extent_.cols;
  for (std::uint64_t r = 0; r < extent_.rows; ++r) {
    if (!rows.empty() && rows[r] == 0) continue;
    std::copy_n(values.data() + r * cols, cols, scratch_.data());
    row_->transform(scratch_.data(), values.data() + r * cols, true);
  }
  columns(values, true, 1.0 / static_cast<double>(extent_.count()));
}

}  // namespace quantem
