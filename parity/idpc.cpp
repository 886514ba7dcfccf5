#include "parity/idpc.h"

#include <cmath>
#include <complex>

#include "quantem/dpc/dpc.h"

namespace quantem::parity {
namespace {

using Complex = std::complex<double>;
constexpr double kAngle = 25, kPi = 3.14159265358979323846;
constexpr Boundary kBoundaries[] = {Boundary::periodic, Boundary::mirror};

std::vector<float> over_largest(const std::vector<double>& values) {
  double largest = 0;
  for (const double v : values) largest = std::max(largest, std::abs(v));
  std::vector<float> out;
  for (const double v : values) out.push_back(static_cast<float>(largest > 0 ? v / largest : v));
  return out;
}

struct Field {
  std::uint32_t rows, cols;
  std::vector<double> row, col;
};

// Aligned deflection; (0, 0) where there is no value.
Field deflection(const Truth& t) {
  const std::uint64_t n = t.shape.n_positions();
  Field f{t.shape.scan.rows, t.shape.scan.cols, std::vector<double>(n), std::vector<double>(n)};
  std::vector<bool> defined(n);
  double mean_row = 0, mean_col = 0, n_defined = 0;
  for (std::uint64_t i = 0; i < n; ++i) {
    double total = 0, row = 0, col = 0;
    for (std::uint64_t p = 0; p < t.shape.frame_pixels(); ++p) {
      if (!t.valid_pixels[p]) continue;
      total += t.at(i, p);
      row += static_cast<double>(p / t.shape.det.cols) * t.at(i, p);
      col += static_cast<double>(p % t.shape.det.cols) * t.at(i, p);
    }
    defined[i] = t.valid_positions[i] && total > 0;
    if (!defined[i]) continue;
    mean_row += f.row[i] = row / total, mean_col += f.col[i] = col / total, ++n_defined;
  }
  const double c = std::cos(kAngle * kPi / 180), s = std::sin(kAngle * kPi / 180);
  for (std::uint64_t i = 0; i < n; ++i) {
    if (!defined[i]) continue;
    const double a = f.col[i] - mean_col / n_defined, b = f.row[i] - mean_row / n_defined;  // exchanged
    f.row[i] = c * a - s * b, f.col[i] = s * a + c * b;
  }
  return f;
}

// phi even, the component along a fold odd.
Field mirrored(const Field& f) {
  Field out{2 * f.rows, 2 * f.cols, {}, {}};
  for (std::uint32_t r = 0; r < out.rows; ++r)
    for (std::uint32_t c = 0; c < out.cols; ++c) {
      const std::uint64_t row = r < f.rows ? r : out.rows - 1 - r, col = c < f.cols ? c : out.cols - 1 - c;
      out.row.push_back((r < f.rows ? 1 : -1) * f.row[row * f.cols + col]);
      out.col.push_back((c < f.cols ? 1 : -1) * f.col[row * f.cols + col]);
    }
  return out;
}

// Sums of f exp(sign 2 pi i k x / n) along one axis of `count` lines.
void transform_axis(std::vector<Complex>& f, std::uint64_t n, std::uint64_t stride, double sign) {
  std::vector<Complex> wave(n), line(n);
  for (std::uint64_t k = 0; k < n; ++k)
    wave[k] = std::polar(1.0, sign * 2 * kPi * static_cast<double>(k) / static_cast<double>(n));
  for (std::uint64_t first = 0; first < f.size(); ++first) {
    if (first / stride % n) continue;  // not the first of its line
    for (std::uint64_t k = 0; k < n; ++k) {
      line[k] = 0;
      for (std::uint64_t x = 0; x < n; ++x) line[k] += f[first + x * stride] * wave[k * x % n];
    }
    for (std::uint64_t k = 0; k < n; ++k) f[first + k * stride] = line[k];
  }
}

double frequency(std::uint32_t k, std::uint32_t n) {
  return (2 * k < n ? static_cast<double>(k) : static_cast<double>(k) - n) / n;
}

std::vector<double> phase_of(const Field& f) {
  std::vector<Complex> row(f.row.begin(), f.row.end()), col(f.col.begin(), f.col.end());
  for (auto* g : {&row, &col}) transform_axis(*g, f.rows, f.cols, -1), transform_axis(*g, f.cols, 1, -1);
  for (std::uint32_t r = 0; r < f.rows; ++r)
    for (std::uint32_t c = 0; c < f.cols; ++c) {
      const std::uint64_t i = std::uint64_t{r} * f.cols + c;
      const double qr = frequency(r, f.rows), qc = frequency(c, f.cols);
      const Complex along = (2 * r == f.rows ? 0 : qr) * row[i] + (2 * c == f.cols ? 0 : qc) * col[i];
      row[i] = i == 0 ? 0 : Complex(0, -0.25) * along / (qr * qr + qc * qc) / static_cast<double>(f.row.size());
    }
  transform_axis(row, f.rows, f.cols, 1), transform_axis(row, f.cols, 1, 1);
  std::vector<double> phase;
  for (const Complex& x : row) phase.push_back(x.real());
  return phase;
}

}  // namespace

std::vector<Output> oracle_idpc(const Truth& truth) {
  const Field field = deflection(truth);
  std::vector<Output> out;
  for (const Boundary boundary : kBoundaries) {
    const Field cell = boundary == Boundary::mirror ? mirrored(field) : field;
    const std::vector<double> all = phase_of(cell);
    std::vector<double> phase;
    for (std::uint64_t i = 0; i < field.row.size(); ++i)
      phase.push_back(all[i / field.cols * cell.cols + i % field.cols]);
    out.emplace_back(over_largest(phase));
  }
  return out;
}

Result<Outcome> run_idpc(const Volume& volume, const Truth&) {
  Outcome outcome;
  DpcOptions options;
  options.rotation_deg = kAngle, options.transpose = true;
  for (const Boundary boundary : kBoundaries) {
    options.boundary = boundary;
    QUANTEM_TRY_ASSIGN(result, run_dpc(volume, options));
    // Dense counts of a CUDA device are summed there and integrated on the host.
    outcome.path = (volume.dense_device() ? result.com_row : result.phase).provenance.path;
    outcome.outputs.emplace_back(over_largest({result.phase.values.begin(), result.phase.values.end()}));
  }
  return outcome;
}

}  // namespace quantem::parity
