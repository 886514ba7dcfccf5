#include "quantem/simulate/specimen.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>

#include "quantem/core/fft.h"

namespace quantem {
namespace {

using Complex = std::complex<double>;

// exp(-2 pi i q r) exp(-2 pi^2 width^2 q^2) along one axis; 0 where the band ends and on the Nyquist bin.
std::vector<Complex> along_axis(double fraction, std::uint32_t n, double step, const Specimen& s) {
  std::vector<Complex> f(n);
  const double length = n * step, spread = 2 * std::numbers::pi * std::numbers::pi * s.width_A * s.width_A;
  for (std::uint32_t i = 0; i < n; ++i) {
    const double q = fft_frequency(i, n, step);
    if (is_nyquist(i, n) || (s.band < 1 && std::abs(q) >= s.band * 0.5 / step)) continue;
    f[i] = std::polar(std::exp(-spread * q * q), -2 * std::numbers::pi * q * fraction * length);
  }
  return f;
}

}  // namespace

Specimen crystal(Extent scan, Pair step_A, double cell_A, double peak_rad) {
  Specimen s;
  s.width_A = 0.25;
  s.peak_rad = peak_rad;
  const auto cells = [&](std::uint32_t n, double step) {
    return static_cast<std::uint32_t>(std::max(1.0, std::round(n * step / cell_A)));
  };
  const std::uint32_t rows = cells(scan.rows, step_A.row), cols = cells(scan.cols, step_A.col);
  for (std::uint32_t r = 0; r < rows; ++r)
    for (std::uint32_t c = 0; c < cols; ++c) {
      const auto add = [&](double y, double x, double weight) {
        s.atoms.push_back({(r + y) / rows, (c + x) / cols, weight});
      };
      const bool defects = rows > 2 && cols > 2;
      const bool substituted = defects && r == 0 && c == 1;                       // near the top, left of the middle
      const bool vacant = defects && c == 0 && (r == rows - 1 || r == rows - 2);  // bottom left
      if (!vacant) add(0.25, 0.25, substituted ? 1.35 : 1.0);
      add(0.75, 0.75, 0.7);
      add(0.25, 0.75, 0.3);
    }
  return s;
}

std::vector<double> phase_of(const Specimen& specimen, Extent scan, Pair step_A) {
  std::vector<Complex> f(scan.count());
  for (const Atom& atom : specimen.atoms) {
    const auto row = along_axis(atom.row, scan.rows, step_A.row, specimen);
    const auto col = along_axis(atom.col, scan.cols, step_A.col, specimen);
    for (std::uint64_t r = 0; r < scan.rows; ++r) {
      const Complex factor = atom.weight * row[r];
      if (factor == Complex{}) continue;
      for (std::uint64_t c = 0; c < scan.cols; ++c) f[r * scan.cols + c] += factor * col[c];
    }
  }
  f[0] = 0;
  Fft2(scan).inverse(f);
  double highest = 0;
  for (const Complex& x : f) highest = std::max(highest, x.real());
  std::vector<double> phase(scan.count());
  if (highest > 0)
    for (std::uint64_t i = 0; i < phase.size(); ++i) phase[i] = f[i].real() * (specimen.peak_rad / highest);
  return phase;
}

}  // namespace quantem
