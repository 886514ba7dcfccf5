#pragma once
// Of this area only: the spectrum of a field on one periodic cell, and the phase whose gradient it is.

#include <complex>
#include <functional>
#include <vector>

#include "quantem/core/shape.h"

namespace quantem {

struct FieldSpectrum {
  Extent cell;
  std::vector<std::complex<double>> row, col;  // cell.count(), unnormalised forward transform
};
FieldSpectrum field_spectrum(Extent cell, const std::vector<double>& row, const std::vector<double>& col);

// Re ifft2 of -i kappa (q_r g_r + q_c g_c) / (|q|^2 + epsilon) * transfer(|q|), 0 at q = 0, q in 1 / unit of `step`; on
// an even axis the Nyquist frequency is 0 in the numerator only.
struct Solve {
  Pair step{1, 1};
  double kappa = 1, epsilon = 0;
  std::function<double(double)> transfer;  // empty: 1
};
std::vector<double> solve_phase(const FieldSpectrum& g, const Solve& how);

}  // namespace quantem
