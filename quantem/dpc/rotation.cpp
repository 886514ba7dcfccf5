#include "quantem/dpc/rotation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "quantem/core/calibration.h"
#include "quantem/core/fft.h"
#include "quantem/dpc/descan.h"
#include "quantem/dpc/spectrum.h"
#include "quantem/dpc/steps.h"

namespace quantem {
namespace {

using dpc_detail::kAmbiguousSkewness;

// What the grids compare besides: mean curl^2 at one angle.
struct Moments : dpc_detail::RotationMoments {
  [[nodiscard]] double curl_at(CosSin t) const { return t.cos * t.cos * a + t.sin * t.sin * d + 2 * t.sin * t.cos * x; }
};

// What the methods work on: the field less its mean, components in proportion, and the scan step.
struct Work {
  ComField field;
  Pair step{1, 1};
  std::optional<double> q_alpha;  // the disc's radius in 1 / unit of step
};

ComField exchanged(const ComField& field) {
  ComField other = field;
  std::swap(other.row, other.col);
  return other;
}

Result<Work> prepare_work(const ComField& field, const RotationOptions& options) {
  QUANTEM_TRY(check_field(field, "find_rotation"));
  if (field.valid.none()) return dpc_detail::no_position_to_rotate();
  QUANTEM_TRY_ASSIGN(centred, descan(field, Descan{}));
  Work work{std::move(centred), options.scan_sampling_A.value_or(Pair{1, 1}), std::nullopt};
  if (options.det_sampling_mrad && field.unit == "px") {
    const Pair k = *options.det_sampling_mrad;
    work.field = scale_components(work.field, k, "mrad");
  }
  work.q_alpha = dpc_detail::disc_radius(options);
  return work;
}

Moments curl_moments(const ComField& field, Pair step) {
  const FieldDerivatives f = field_derivatives(field, step);
  Moments m;
  std::uint64_t n = 0;
  for (std::uint64_t i = 0; i < f.curl.size(); ++i) {
    if (std::isnan(f.curl[i])) continue;
    m.a += f.curl[i] * f.curl[i];
    m.d += f.divergence[i] * f.divergence[i];
    m.x += f.curl[i] * f.divergence[i];
    ++n;
  }
  const double scale = n ? 1.0 / static_cast<double>(n) : 0.0;
  m.a *= scale, m.d *= scale, m.x *= scale;
  return m;
}

// Power along and across q, a common factor |q| taken out, so that high frequencies do not weigh more than they carry.
std::pair<Moments, Moments> fourier_moments(const Work& work) {
  const Extent e = work.field.scan;
  const FieldSpectrum g = field_spectrum(e, work.field.row, work.field.col);
  Moments plain, swapped;
  const auto add = [](Moments& m, std::complex<double> along, std::complex<double> across, double w) {
    dpc_detail::add_power(m, along.real(), along.imag(), across.real(), across.imag(), w);
  };
  for (std::uint32_t r = 0; r < e.rows; ++r) {
    const double qr = fft_frequency(r, e.rows, work.step.row);
    for (std::uint32_t c = 0; c < e.cols; ++c) {
      if ((r == 0 && c == 0) || is_nyquist(r, e.rows) || is_nyquist(c, e.cols)) continue;
      const double qc = fft_frequency(c, e.cols, work.step.col), q = std::hypot(qr, qc);
      const double transfer = disc_transfer(q / (2 * *work.q_alpha));
      if (transfer == 0) continue;
      const double w = transfer * transfer, ur = qr / q, uc = qc / q;
      const std::uint64_t i = std::uint64_t{r} * e.cols + c;
      const std::complex<double> a = g.row[i], b = g.col[i];
      add(plain, ur * a + uc * b, ur * b - uc * a, w);
      add(swapped, ur * b + uc * a, ur * a - uc * b, w);
    }
  }
  return {plain, swapped};
}

Rotation smaller_of(const Moments& plain, const Moments& swapped) {
  const dpc_detail::FoundAngle found = dpc_detail::smaller_of(plain, swapped);
  Rotation r;
  r.rotation_deg = found.degrees;
  r.transpose = found.transpose;
  r.curl_fraction = found.curl_fraction;
  return r;
}

Rotation grid_search(const Moments& plain, const Moments& swapped, std::uint32_t steps) {
  Rotation best;
  double lowest = std::numeric_limits<double>::infinity();
  for (const bool transpose : {false, true}) {
    const Moments& m = transpose ? swapped : plain;
    for (std::uint32_t k = 0; k < steps; ++k) {
      const double degrees = 180.0 * k / (steps - 1);
      const double curl = m.curl_at(cos_sin_deg(degrees));
      if (!(curl < lowest)) continue;
      lowest = curl;
      best.rotation_deg = degrees;
      best.transpose = transpose;
      best.curl_fraction = std::max(0.0, curl) / (m.a + m.d);
    }
  }
  return best;
}

Rotation absolute_grid_search(const Work& work, const Moments& plain, const Moments& swapped) {
  Rotation best;
  double lowest = std::numeric_limits<double>::infinity();
  for (const bool transpose : {false, true}) {
    const FieldDerivatives f = field_derivatives(transpose ? exchanged(work.field) : work.field, work.step);
    for (int degrees = -89; degrees <= 90; ++degrees) {
      const CosSin t = cos_sin_deg(degrees);
      double sum = 0;
      for (std::uint64_t i = 0; i < f.curl.size(); ++i)
        if (!std::isnan(f.curl[i])) sum += std::abs(t.cos * f.curl[i] + t.sin * f.divergence[i]);
      if (!(sum < lowest)) continue;
      lowest = sum;
      best.rotation_deg = degrees;
      best.transpose = transpose;
      const Moments& m = transpose ? swapped : plain;
      best.curl_fraction = std::max(0.0, m.curl_at(t)) / (m.a + m.d);
    }
  }
  return best;
}

double skewness_of(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  double mean = 0, second = 0, third = 0;
  for (const double v : values) mean += v;
  mean /= n;
  for (const double v : values) {
    const double x = v - mean;
    second += x * x;
    third += x * x * x;
  }
  second /= n;
  return second > 0 ? third / n / std::pow(second, 1.5) : 0.0;
}

Result<Done> decide_polarity(const Work& work, const RotationOptions& options, Rotation& rotation) {
  rotation.polarity = options.polarity;
  if (options.polarity == Polarity::skewness) {
    QUANTEM_TRY_ASSIGN(aligned, align(work.field, rotation.rotation_deg, rotation.transpose));
    Solve how;
    how.step = work.step;
    if (work.q_alpha) how.transfer = [q2 = 2 * *work.q_alpha](double q) { return disc_transfer(q / q2); };
    const double skewness = skewness_of(solve_phase(field_spectrum(aligned.scan, aligned.row, aligned.col), how));
    if (skewness < 0) rotation.rotation_deg = dpc_detail::opposite(rotation.rotation_deg);
    rotation.skewness = std::abs(skewness);
    rotation.ambiguous = rotation.skewness < kAmbiguousSkewness;
  } else if (options.polarity == Polarity::defocus) {
    QUANTEM_TRY_ASSIGN(turned, dpc_detail::turned_by_defocus(options));
    if (turned) rotation.rotation_deg = dpc_detail::opposite(rotation.rotation_deg);
  }
  return Done{};
}

}  // namespace

CosSin cos_sin_deg(double degrees) {
  return dpc_detail::cos_sin_of(degrees);
}

double disc_transfer(double x) {
  return dpc_detail::disc_transfer_of(x);
}

namespace dpc_detail {

std::optional<double> disc_radius(const RotationOptions& options) {
  if (!options.scan_sampling_A || !options.voltage_kV || !options.semiangle_mrad) return std::nullopt;
  return *options.semiangle_mrad * 1e-3 / electron_wavelength_A(*options.voltage_kV);
}

Result<RotationMethod> choose_method(Extent e, const RotationOptions& options) {
  const bool knows_disc = disc_radius(options).has_value();
  RotationMethod method = options.method;
  if (method == RotationMethod::automatic)
    method = knows_disc && e.rows >= 8 && e.cols >= 8 ? RotationMethod::fourier : RotationMethod::curl;
  const std::uint32_t least = method == RotationMethod::fourier ? 8 : 3;
  if (e.rows < least || e.cols < least)
    return Error{Code::undetermined, "find_rotation: " + std::string(method_name(method)) +
                                         " needs a scan of at least " + to_string(Extent{least, least}) + ", it is " +
                                         to_string(e) + "; pass rotation_deg="};
  if (method == RotationMethod::fourier && !knows_disc) {
    const char* missing = !options.voltage_kV       ? "voltage_kV"
                          : !options.semiangle_mrad ? "semiangle_mrad"
                                                    : "scan_sampling_A";
    return Error{Code::invalid_argument, "find_rotation: method fourier needs " + std::string(missing) +
                                             ", which is not known; pass it or use method=\"curl\""};
  }
  if (method == RotationMethod::grid && options.steps < 2)
    return Error{Code::invalid_argument,
                 "find_rotation: steps is " + std::to_string(options.steps) + ", the grid needs at least 2"};
  return method;
}

Error no_position_to_rotate() {
  return Error{Code::undetermined, "find_rotation: no position has a centre of mass; pass rotation_deg="};
}

Error neither_curl_nor_divergence(Extent scan) {
  return Error{Code::undetermined, "find_rotation: the deflection has neither curl nor divergence in the scan " +
                                       to_string(scan) + ", every angle fits it; pass rotation_deg="};
}

double opposite(double degrees) {
  return degrees <= 0 ? degrees + 180 : degrees - 180;
}

Result<bool> turned_by_defocus(const RotationOptions& options) {
  if (!options.known_C10_A || !options.fitted_C10_A || *options.known_C10_A == 0 || *options.fitted_C10_A == 0)
    return Error{
        Code::invalid_argument,
        "find_rotation: polarity=\"defocus\" compares the known sign of C10 with the one fitted at this angle; "
        "give both, not 0, or use polarity=\"skewness\""};
  return (*options.known_C10_A > 0) != (*options.fitted_C10_A > 0);
}

Result<Done> check_angle(double rotation_deg) {
  if (std::isfinite(rotation_deg)) return Done{};
  return Error{Code::invalid_argument, "align: rotation_deg is " + std::to_string(rotation_deg) + ", not a number"};
}

void record_alignment(double rotation_deg, bool transpose, Provenance& p) {
  p.parameters.emplace_back("rotation_deg", rotation_deg);
  p.parameters.emplace_back("transpose", transpose);
}

}  // namespace dpc_detail

Result<Rotation> find_rotation(const ComField& field, const RotationOptions& options) {
  QUANTEM_TRY_ASSIGN(work, prepare_work(field, options));
  QUANTEM_TRY_ASSIGN(method, dpc_detail::choose_method(field.scan, options));
  Moments plain, swapped;
  if (method == RotationMethod::fourier) {
    std::tie(plain, swapped) = fourier_moments(work);
  } else {
    plain = curl_moments(work.field, work.step);
    swapped = curl_moments(exchanged(work.field), work.step);
  }
  if (!(plain.a + plain.d > 0)) return dpc_detail::neither_curl_nor_divergence(field.scan);
  Rotation rotation;
  if (method == RotationMethod::grid)
    rotation = grid_search(plain, swapped, options.steps);
  else if (method == RotationMethod::grid_abs)
    rotation = absolute_grid_search(work, plain, swapped);
  else
    rotation = smaller_of(plain, swapped);
  rotation.method = method;
  QUANTEM_TRY(decide_polarity(work, options, rotation));
  return rotation;
}

Result<Rotation> find_rotation(const ComMaps& maps, const RotationOptions& options) {
  QUANTEM_TRY_ASSIGN(field, to_field(maps));
  return find_rotation(field, options);
}

Result<ComField> align(const ComField& field, double rotation_deg, bool transpose) {
  QUANTEM_TRY(check_field(field, "align"));
  QUANTEM_TRY(dpc_detail::check_angle(rotation_deg));
  ComField out = transpose ? exchanged(field) : field;
  const CosSin t = cos_sin_deg(rotation_deg);
  for (std::uint64_t i = 0; i < out.row.size(); ++i) {
    const double r = out.row[i], c = out.col[i];
    out.row[i] = t.cos * r - t.sin * c;
    out.col[i] = t.sin * r + t.cos * c;
  }
  dpc_detail::record_alignment(rotation_deg, transpose, out.provenance);
  return out;
}

Result<ComMaps> align(const ComMaps& maps, double rotation_deg, bool transpose) {
  QUANTEM_TRY_ASSIGN(field, to_field(maps));
  QUANTEM_TRY_ASSIGN(out, align(field, rotation_deg, transpose));
  return to_maps(out);
}

namespace {

constexpr std::pair<std::string_view, RotationMethod> kMethods[] = {{"auto", RotationMethod::automatic},
                                                                    {"curl", RotationMethod::curl},
                                                                    {"fourier", RotationMethod::fourier},
                                                                    {"grid", RotationMethod::grid},
                                                                    {"grid_abs", RotationMethod::grid_abs}};
constexpr std::pair<std::string_view, Polarity> kPolarities[] = {
    {"undetermined", Polarity::undetermined}, {"skewness", Polarity::skewness}, {"defocus", Polarity::defocus}};

}  // namespace

std::string_view method_name(RotationMethod m) {
  for (const auto& [name, value] : kMethods)
    if (value == m) return name;
  return "";
}

std::string_view polarity_name(Polarity p) {
  for (const auto& [name, value] : kPolarities)
    if (value == p) return name;
  return "";
}

Result<RotationMethod> parse_rotation_method(std::string_view name) {
  for (const auto& [known, value] : kMethods)
    if (known == name) return value;
  return Error{Code::invalid_argument,
               "method: '" + std::string(name) + "' is none of auto, curl, fourier, grid, grid_abs"};
}

Result<Polarity> parse_polarity(std::string_view name) {
  for (const auto& [known, value] : kPolarities)
    if (known == name) return value;
  return Error{Code::invalid_argument,
               "polarity: '" + std::string(name) + "' is none of undetermined, skewness, defocus"};
}

}  // namespace quantem
