#include "quantem/simulate/simulate.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <numbers>
#include <utility>

#include "quantem/core/fft.h"
#include "quantem/runtime/thread_pool.h"
#include "quantem/simulate/random.h"

namespace quantem {
namespace {

using Complex = std::complex<double>;

constexpr std::uint64_t kPixelsAtOnce = 16;  // of a task: one plan, and 64 bytes of a row of intensities

struct Frequencies {
  std::vector<double> row, col;  // 1/A, transform order
};

// Everything about the geometry that pixels share.
struct Bench {
  Extent scan, det;
  Probe0 probe;
  Frequencies q;
  Pair dk;  // 1/A a pixel
  Point center;
  double cos, sin;
  bool transpose;

  [[nodiscard]] Pair k_scan(std::uint32_t pixel) const {
    double a = (pixel / det.cols - center.row) * dk.row, b = (pixel % det.cols - center.col) * dk.col;
    if (transpose) std::swap(a, b);
    return {cos * a - sin * b, sin * a + cos * b};
  }
};

Frequencies frequencies(Extent scan, Pair step) {
  Frequencies q{std::vector<double>(scan.rows), std::vector<double>(scan.cols)};
  for (std::uint32_t i = 0; i < scan.rows; ++i) q.row[i] = fft_frequency(i, scan.rows, step.row);
  for (std::uint32_t i = 0; i < scan.cols; ++i) q.col[i] = fft_frequency(i, scan.cols, step.col);
  return q;
}

Bench make_bench(const SimulateOptions& o) {
  Bench b;
  b.scan = o.scan;
  b.det = o.det;
  b.probe.wavelength_A = electron_wavelength_A(o.voltage_kV);
  b.probe.semiangle_rad = o.semiangle_mrad * 1e-3;
  b.probe.edge_rad = o.soft_edge ? std::sqrt(o.det_step_mrad.row * o.det_step_mrad.col) * 1e-3 : 0;
  b.probe.aberrations = o.aberrations;
  b.q = frequencies(o.scan, o.scan_step_A);
  b.dk = {o.det_step_mrad.row * 1e-3 / b.probe.wavelength_A, o.det_step_mrad.col * 1e-3 / b.probe.wavelength_A};
  b.center = o.center_px.value_or(Point{static_cast<double>(o.det.rows / 2), static_cast<double>(o.det.cols / 2)});
  const double turn = std::remainder(o.rotation_deg, 360.0) * std::numbers::pi / 180;
  b.cos = std::cos(turn);
  b.sin = std::sin(turn);
  b.transpose = o.transpose;
  return b;
}

Result<Done> check(const SimulateOptions& o) {
  const auto refuse = [](const std::string& text) { return Error{Code::invalid_argument, "simulate: " + text}; };
  if (o.scan.count() == 0 || o.det.count() == 0 || o.det.count() > kMaxFramePixels || o.scan.count() > kMaxFramePixels)
    return refuse("scan is " + to_string(o.scan) + ", detector is " + to_string(o.det) +
                  "; each needs 1 to 2^24 elements");
  const std::pair<const char*, double> positive[] = {
      {"scan_step_A", std::min(o.scan_step_A.row, o.scan_step_A.col)},
      {"det_step_mrad", std::min(o.det_step_mrad.row, o.det_step_mrad.col)},
      {"voltage_kV", o.voltage_kV},
      {"semiangle_mrad", o.semiangle_mrad}};
  for (const auto& [name, value] : positive)
    if (!(value > 0) || !std::isfinite(value))
      return refuse(std::string(name) + " is " + std::to_string(value) + ", it must be above 0");
  if (!(o.dose >= 0) || o.dose > 1e9)
    return refuse("dose is " + std::to_string(o.dose) + ", it must be 0 to 1e9 electrons a frame");
  if (o.dose > 0 && !is_unsigned_count(o.dtype))
    return refuse("counts are uint8, uint16 or uint32, not " + std::string(dtype_name(o.dtype)));
  if (!std::isfinite(o.rotation_deg)) return refuse("rotation_deg is not a number");
  if (!o.phase_rad.empty() && o.phase_rad.size() != o.scan.count())
    return refuse("phase_rad has " + std::to_string(o.phase_rad.size()) + " values, the scan is " + to_string(o.scan));
  return check_aberrations(o.aberrations);
}

double power_on_detector(const Bench& b) {
  double sum = 0;
  for (std::uint32_t p = 0; p < b.det.count(); ++p) {
    const Pair k = b.k_scan(p);
    const double a = b.probe.aperture(k.row, k.col);
    sum += a * a;
  }
  return sum;
}

// T(q) psi(k - q) on the transform's grid; `rows` tells which rows have anything. Only |k - q| within the aperture is visited.
void wave_at(const Bench& b, const std::vector<Complex>& specimen, Pair k, std::vector<Complex>& wave,
             std::vector<std::uint8_t>& rows) {
  const double reach2 = b.probe.cutoff() * b.probe.cutoff() * (1 + 1e-12);
  const std::uint64_t cols = b.scan.cols;
  std::fill(wave.begin(), wave.end(), Complex{});
  for (std::uint64_t r = 0; r < b.scan.rows; ++r) {
    rows[r] = 0;
    const double dr = k.row - b.q.row[r], left = reach2 - dr * dr;
    if (left < 0) continue;
    for (std::uint64_t c = 0; c < cols; ++c) {
      const double dc = k.col - b.q.col[c];
      if (dc * dc > left) continue;
      const Complex p = b.probe.psi(dr, dc), t = specimen[r * cols + c];
      wave[r * cols + c] = {t.real() * p.real() - t.imag() * p.imag(), t.real() * p.imag() + t.imag() * p.real()};
      rows[r] = 1;
    }
  }
}

void for_each_pixel(const Bench& b, const std::vector<double>& phase, int threads, ProgressMeter& meter,
                    const TakePixel& take) {
  const std::uint64_t n = b.scan.count(), n_pixels = b.det.count();
  std::vector<Complex> specimen(n);
  for (std::uint64_t i = 0; i < n; ++i) specimen[i] = std::polar(1.0, phase[i]);
  Fft2(b.scan).forward(specimen);
  const double scale = 1 / power_on_detector(b);  // the inverse transform divides by n, as T does
  parallel_for((n_pixels + kPixelsAtOnce - 1) / kPixelsAtOnce,
               [&](std::uint64_t task) {
                 if (meter.cancelled()) return;
                 Fft2 plan(b.scan);
                 std::vector<Complex> wave(n);
                 std::vector<std::uint8_t> rows(b.scan.rows);
                 std::vector<double> intensity(n);
                 const std::uint64_t end = std::min(n_pixels, (task + 1) * kPixelsAtOnce);
                 for (std::uint64_t p = task * kPixelsAtOnce; p < end; ++p) {
                   const auto pixel = static_cast<std::uint32_t>(p);
                   wave_at(b, specimen, b.k_scan(pixel), wave, rows);
                   plan.inverse(wave, rows);
                   for (std::uint64_t i = 0; i < n; ++i) intensity[i] = std::norm(wave[i]) * scale;
                   take(pixel, intensity);
                 }
                 meter.add(end - task * kPixelsAtOnce);
               },
               threads);
}

std::uint32_t draw_counts(std::span<const double> intensity, const SimulateOptions& o, std::uint32_t pixel,
                          std::vector<std::uint32_t>& counts) {
  std::uint32_t largest = 0;
  UniformPair u{};
  for (std::uint64_t i = 0; i < intensity.size(); ++i) {
    if (i % 2 == 0) u = uniform_pair(o.seed, pixel, i / 2, 0);
    counts[i] = poisson(intensity[i] * o.dose, i % 2 ? u.second : u.first, o.seed, pixel, i);
    largest = std::max(largest, counts[i]);
  }
  return largest;
}

std::uint32_t largest_of(Dtype d) {
  return d == Dtype::u8 ? 0xFFu : d == Dtype::u16 ? 0xFFFFu : 0xFFFFFFFEu;  // 0xFFFFFFFF marks a sample without value
}

Result<Done> fill_counts(const Bench& b, Simulation& s, ProgressMeter& meter) {
  s.counts = PackedCounts(s.shape.n_positions(), static_cast<std::uint32_t>(s.shape.frame_pixels()));
  std::atomic<std::uint32_t> largest{0};
  for_each_pixel(b, s.phase_rad, s.options.threads, meter, [&](std::uint32_t pixel, std::span<const double> intensity) {
    std::vector<std::uint32_t> counts(intensity.size());
    const std::uint32_t here = draw_counts(intensity, s.options, pixel, counts);
    for (std::uint32_t seen = largest; here > seen && !largest.compare_exchange_weak(seen, here);) {
    }
    s.counts.set_pixel(pixel, counts);
  });
  if (largest > largest_of(s.dtype))
    return Error{Code::invalid_argument,
                 "simulate: a dose of " + std::to_string(s.options.dose) + " gives " + std::to_string(largest.load()) +
                     " counts in a pixel, " + std::string(dtype_name(s.dtype)) + " holds " +
                     std::to_string(largest_of(s.dtype)) + "; lower the dose or take a wider dtype"};
  return Done{};
}

Result<Done> fill_intensities(const Bench& b, Simulation& s, ProgressMeter& meter) {
  QUANTEM_TRY_ASSIGN(buffer, allocate_buffer(s.shape.n_values() * 4, "simulate"));
  const std::span<float> values = buffer.as<float>();
  const std::uint64_t frame = s.shape.frame_pixels();
  for_each_pixel(b, s.phase_rad, s.options.threads, meter, [&](std::uint32_t pixel, std::span<const double> intensity) {
    for (std::uint64_t i = 0; i < intensity.size(); ++i) values[i * frame + pixel] = static_cast<float>(intensity[i]);
  });
  s.intensities = std::move(buffer);
  return Done{};
}

Calibration calibration_of(const SimulateOptions& o, Point center) {
  Calibration c;
  const auto set = [](auto& known, auto value, const char* unit) {
    known = {value, unit, Origin::caller, "simulated"};
  };
  set(c.voltage_kV, o.voltage_kV, "kV");
  set(c.semiangle_mrad, o.semiangle_mrad, "mrad");
  set(c.rotation_deg, o.rotation_deg, "deg");
  set(c.scan_sampling_A, o.scan_step_A, "A");
  set(c.det_sampling_mrad, o.det_step_mrad, "mrad");
  set(c.center_px, center, "px");
  if (o.det_step_mrad.row == o.det_step_mrad.col) set(c.radius_px, o.semiangle_mrad / o.det_step_mrad.row, "px");
  return c;
}

std::vector<double> blur(const Bench& b, const std::vector<double>& phase, int threads) {
  std::vector<Pair> ks;
  std::vector<Complex> conjugate;
  double power = 0;
  for (std::uint32_t p = 0; p < b.det.count(); ++p) {
    const Pair k = b.k_scan(p);
    const Complex psi = b.probe.psi(k.row, k.col);
    if (psi == Complex{}) continue;
    ks.push_back(k);
    conjugate.push_back(std::conj(psi));
    power += std::norm(psi);
  }
  const std::uint64_t n = b.scan.count(), cols = b.scan.cols;
  std::vector<Complex> f(phase.begin(), phase.end());
  Fft2 plan(b.scan);
  plan.forward(f);
  const double reach = 2 * b.probe.cutoff();
  parallel_for(
      n,
      [&](std::uint64_t i) {
        const double qr = b.q.row[i / cols], qc = b.q.col[i % cols];
        Complex sum = 0;
        if (qr * qr + qc * qc <= reach * reach * (1 + 1e-12))
          for (std::size_t j = 0; j < ks.size(); ++j) {
            const Complex a = conjugate[j], p = b.probe.psi(ks[j].row - qr, ks[j].col - qc);
            sum += Complex(a.real() * p.real() - a.imag() * p.imag(), a.real() * p.imag() + a.imag() * p.real());
          }
        f[i] *= sum / power;
      },
      threads);
  plan.inverse(f);
  std::vector<double> out(n);
  for (std::uint64_t i = 0; i < n; ++i) out[i] = f[i].real();
  return out;
}

}  // namespace

Result<std::vector<double>> blur_by_probe(const std::vector<double>& phase_rad, const SimulateOptions& options) {
  QUANTEM_TRY(check(options));
  if (phase_rad.size() != options.scan.count())
    return Error{Code::invalid_argument, "blur_by_probe: the phase has " + std::to_string(phase_rad.size()) +
                                             " values, the scan is " + to_string(options.scan)};
  return blur(make_bench(options), phase_rad, options.threads);
}

Result<Done> simulate_pixels(const SimulateOptions& options, const std::vector<double>& phase_rad,
                             const TakePixel& take, const Job& job) {
  QUANTEM_TRY(check(options));
  if (phase_rad.size() != options.scan.count())
    return Error{Code::invalid_argument, "simulate_pixels: the phase has " + std::to_string(phase_rad.size()) +
                                             " values, the scan is " + to_string(options.scan)};
  ProgressMeter meter(job, "simulate", options.det.count(), "pixels");
  for_each_pixel(make_bench(options), phase_rad, options.threads, meter, take);
  if (meter.cancelled()) return meter.cancelled_error("simulate");
  meter.finish();
  return Done{};
}

Result<Simulation> simulate(const SimulateOptions& options, const Job& job) {
  QUANTEM_TRY(check(options));
  const Bench bench = make_bench(options);
  if (!(power_on_detector(bench) > 0))
    return Error{Code::invalid_argument,
                 "simulate: no detector pixel lies in the aperture: move center_px or lower det_step_mrad"};
  Simulation s;
  s.options = options;
  s.shape = {options.scan, options.det};
  s.dtype = options.dose > 0 ? options.dtype : Dtype::f32;
  s.phase_rad = !options.phase_rad.empty()
                    ? options.phase_rad
                    : phase_of(options.specimen.value_or(crystal(options.scan, options.scan_step_A)), options.scan,
                               options.scan_step_A);
  s.calibration = calibration_of(options, bench.center);
  ProgressMeter meter(job, "simulate", options.det.count(), "pixels");
  if (options.dose > 0)
    QUANTEM_TRY(fill_counts(bench, s, meter));
  else
    QUANTEM_TRY(fill_intensities(bench, s, meter));
  if (meter.cancelled()) return meter.cancelled_error("simulate");
  s.blurred_rad = blur(bench, s.phase_rad, options.threads);
  meter.finish();
  return s;
}

Result<Done> Simulation::frame(std::uint64_t position, std::span<std::byte> out) const {
  const std::uint64_t n_pixels = shape.frame_pixels(), bytes = n_pixels * item_bytes(dtype);
  if (position >= shape.n_positions() || out.size() != bytes)
    return Error{Code::invalid_argument,
                 "simulation: frame " + std::to_string(position) + " of " + std::to_string(shape.n_positions()) +
                     " into " + std::to_string(out.size()) + " bytes; a frame has " + std::to_string(bytes)};
  if (dtype == Dtype::f32) {
    std::memcpy(out.data(), intensities.data() + position * bytes, bytes);
    return Done{};
  }
  visit_count_dtype(dtype, [&]<class T>() {
    for (std::uint32_t p = 0; p < n_pixels; ++p) {
      const T value = static_cast<T>(counts.at(position, p));
      std::memcpy(out.data() + p * sizeof(T), &value, sizeof(T));
    }
  });
  return Done{};
}

Result<HostArray> Simulation::to_array() const {
  HostArray array;
  array.dtype = dtype;
  array.shape = {shape.scan.rows, shape.scan.cols, shape.det.rows, shape.det.cols};
  const std::uint64_t bytes = shape.frame_pixels() * item_bytes(dtype);
  QUANTEM_TRY_ASSIGN(buffer, allocate_buffer(bytes * shape.n_positions(), "simulation"));
  for (std::uint64_t i = 0; i < shape.n_positions(); ++i)
    QUANTEM_TRY(frame(i, std::span<std::byte>(buffer.data() + i * bytes, bytes)));
  array.buffer = std::move(buffer);
  return array;
}

}  // namespace quantem
