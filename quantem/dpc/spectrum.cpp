#include "quantem/dpc/spectrum.h"

#include <cmath>

#include "quantem/core/fft.h"

namespace quantem {

using Complex = std::complex<double>;

FieldSpectrum field_spectrum(Extent cell, const std::vector<double>& row, const std::vector<double>& col) {
  // Two real fields in one transform: Z = R + i C, and R, C are its parts of either symmetry under q -> -q.
  const std::uint64_t n = cell.count(), rows = cell.rows, cols = cell.cols;
  std::vector<Complex> z(n);
  for (std::uint64_t i = 0; i < n; ++i) z[i] = {row[i], col[i]};
  Fft2(cell).forward(z);
  FieldSpectrum g{cell, std::vector<Complex>(n), std::vector<Complex>(n)};
  for (std::uint64_t r = 0; r < rows; ++r)
    for (std::uint64_t c = 0; c < cols; ++c) {
      const std::uint64_t i = r * cols + c, mirrored = (r ? rows - r : 0) * cols + (c ? cols - c : 0);
      const Complex a = z[i], b = std::conj(z[mirrored]);
      const Complex difference = a - b;
      g.row[i] = (a + b) * 0.5;
      g.col[i] = Complex(difference.imag(), -difference.real()) * 0.5;
    }
  return g;
}

std::vector<double> solve_phase(const FieldSpectrum& g, const Solve& how) {
  const std::uint64_t n = g.cell.count();
  std::vector<Complex> phase(n);
  for (std::uint32_t r = 0; r < g.cell.rows; ++r) {
    const double qr = fft_frequency(r, g.cell.rows, how.step.row);
    for (std::uint32_t c = 0; c < g.cell.cols; ++c) {
      if (r == 0 && c == 0) continue;
      const std::uint64_t i = std::uint64_t{r} * g.cell.cols + c;
      const double qc = fft_frequency(c, g.cell.cols, how.step.col), q2 = qr * qr + qc * qc;
      const double up_r = is_nyquist(r, g.cell.rows) ? 0 : qr, up_c = is_nyquist(c, g.cell.cols) ? 0 : qc;
      const Complex along = up_r * g.row[i] + up_c * g.col[i];
      const double weight = how.kappa / (q2 + how.epsilon) * (how.transfer ? how.transfer(std::sqrt(q2)) : 1.0);
      phase[i] = Complex(along.imag(), -along.real()) * weight;
    }
  }
  Fft2(g.cell).inverse(phase);
  std::vector<double> values(n);
  for (std::uint64_t i = 0; i < n; ++i) values[i] = phase[i].real();
  return values;
}

}  // namespace quantem
