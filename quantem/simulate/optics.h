#pragma once
// The electron probe: psi(k) = A(k) exp(-i chi(k)), k in 1/A (cycles), (row, col). phase.md 1.5.
//   chi(k) = (2 pi / lambda) sum over (n, m) of |z|^(n+1-m) (C_nm,a Re z^m + C_nm,b Im z^m) / (n + 1),   z = lambda (k_r + i k_c)
// so the azimuth runs from +row towards +col. C10 = -defocus: C10 > 0 is overfocus. Coefficients in angstrom.
//   A(k) = clip((alpha - lambda |k|) / w + 1/2, 0, 1), w the edge's width in rad; w = 0: 1 where lambda |k| <= alpha.

#include <complex>
#include <string>
#include <string_view>
#include <vector>

#include "quantem/core/result.h"

namespace quantem {

// C_nm,a = C cos(m phi), C_nm,b = C sin(m phi); b has no meaning when m is 0.
struct Aberration {
  int n = 1, m = 0;
  double a_A = 0, b_A = 0;
  bool operator==(const Aberration&) const = default;
};
using Aberrations = std::vector<Aberration>;

// n 1 to 5, 0 <= m <= n + 1, n + 1 - m even, finite: C10 C12 C21 C23 C30 C32 C34 C41 C43 C45 C50 C52 C54 C56.
Result<Done> check_aberrations(const Aberrations& aberrations);
// "C10_nm=-6 C12_A=20 phi12_deg=30 C21a_nm=300", separated by blanks or commas. A length's key ends in _A, _nm, _um or _mm, an
// angle's in _deg or _rad; a bare key is refused, so that nobody mistakes a unit.
Result<Aberrations> parse_aberrations(std::string_view text);
std::string to_string(const Aberrations& aberrations);  // "C10_A=-60 C12a_A=18 C12b_A=-11"

double chi(double k_row, double k_col, double wavelength_A, const Aberrations& aberrations);

struct Probe0 {  // at the origin of the scan
  double wavelength_A = 0, semiangle_rad = 0, edge_rad = 0;
  Aberrations aberrations;
  [[nodiscard]] double aperture(double k_row, double k_col) const;
  [[nodiscard]] std::complex<double> psi(double k_row, double k_col) const;
  // psi is 0 from this |k| on (with a hard edge: above it).
  [[nodiscard]] double cutoff() const { return (semiangle_rad + 0.5 * edge_rad) / wavelength_A; }
};

}  // namespace quantem
