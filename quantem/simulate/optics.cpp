#include "quantem/simulate/optics.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <numbers>
#include <span>
#include <utility>

namespace quantem {
namespace {

std::string name_of(int n, int m) {
  return "C" + std::to_string(n) + std::to_string(m);
}

// What a text said about one coefficient: Cartesian parts, or length and azimuth.
struct Spoken {
  double a = 0, b = 0, length = 0, azimuth = 0;
  bool cartesian = false, polar = false;
};

struct Key {
  int n = 0, m = 0;
  char part = 0;  // 'a', 'b', 0 for the length, 'p' for the azimuth
  double factor = 1;
};

Error bad_key(std::string_view key) {
  return Error{Code::invalid_argument,
               "aberrations: '" + std::string(key) +
                   "' is not a coefficient with its unit; write C10_nm=, C12_A=, C12a_A=, phi12_deg="};
}

Result<Key> parse_key(std::string_view key) {
  static constexpr std::pair<std::string_view, double> kLengths[] = {{"A", 1}, {"nm", 10}, {"um", 1e4}, {"mm", 1e7}};
  static constexpr std::pair<std::string_view, double> kAngles[] = {{"deg", std::numbers::pi / 180}, {"rad", 1}};
  const std::size_t bar = key.rfind('_');
  if (bar == std::string_view::npos) return bad_key(key);
  std::string_view name = key.substr(0, bar);
  const std::string_view unit = key.substr(bar + 1);
  Key out;
  const bool angle = name.starts_with("phi");
  if (!angle && !name.starts_with("C")) return bad_key(key);
  name.remove_prefix(angle ? 3 : 1);
  if (!angle && name.size() == 3 && (name[2] == 'a' || name[2] == 'b')) {
    out.part = name[2];
    name.remove_suffix(1);
  } else if (angle) {
    out.part = 'p';
  }
  if (name.size() != 2 || name[0] < '0' || name[0] > '9' || name[1] < '0' || name[1] > '9') return bad_key(key);
  out.n = name[0] - '0';
  out.m = name[1] - '0';
  for (const auto& [known, factor] : angle ? std::span<const std::pair<std::string_view, double>>(kAngles)
                                           : std::span<const std::pair<std::string_view, double>>(kLengths))
    if (known == unit) {
      out.factor = factor;
      return out;
    }
  return bad_key(key);
}

Result<Done> say(std::string_view item, std::map<std::pair<int, int>, Spoken>& spoken) {
  const std::size_t equals = item.find('=');
  if (equals == std::string_view::npos) return bad_key(item);
  QUANTEM_TRY_ASSIGN(key, parse_key(item.substr(0, equals)));
  const std::string_view text = item.substr(equals + 1);
  double value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc{} || end != text.data() + text.size() || !std::isfinite(value))
    return Error{Code::invalid_argument, "aberrations: '" + std::string(text) + "' is not a number"};
  value *= key.factor;
  Spoken& s = spoken[{key.n, key.m}];
  switch (key.part) {
    case 'a':
      s.a = value, s.cartesian = true;
      break;
    case 'b':
      s.b = value, s.cartesian = true;
      break;
    case 'p':
      s.azimuth = value, s.polar = true;
      break;
    default:
      s.length = value, s.polar = true;
      break;
  }
  return Done{};
}

}  // namespace

Result<Done> check_aberrations(const Aberrations& aberrations) {
  for (const Aberration& c : aberrations)
    if (c.n < 1 || c.n > 5 || c.m < 0 || c.m > c.n + 1 || (c.n + 1 - c.m) % 2 != 0 || !std::isfinite(c.a_A) ||
        !std::isfinite(c.b_A))
      return Error{Code::invalid_argument,
                   "aberrations: " + name_of(c.n, c.m) +
                       " is not a finite coefficient of order 1 to 5 (C10 C12 C21 C23 C30 ...)"};
  return Done{};
}

Result<Aberrations> parse_aberrations(std::string_view text) {
  std::map<std::pair<int, int>, Spoken> spoken;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(" ,\t\n"), text.size());
    if (end > 0) QUANTEM_TRY(say(text.substr(0, end), spoken));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  Aberrations out;
  for (const auto& [order, s] : spoken) {
    const auto [n, m] = order;
    if (s.cartesian && s.polar)
      return Error{Code::invalid_argument,
                   "aberrations: " + name_of(n, m) + " is given in two ways; use a and b, or length and phi"};
    out.push_back(s.cartesian ? Aberration{n, m, s.a, s.b}
                              : Aberration{n, m, s.length * std::cos(m * s.azimuth),
                                           m ? s.length * std::sin(m * s.azimuth) : 0.0});
  }
  QUANTEM_TRY(check_aberrations(out));
  return out;
}

std::string to_string(const Aberrations& aberrations) {
  std::string text;
  const auto add = [&](const std::string& key, double value) {
    std::array<char, 32> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    text += (text.empty() ? "" : " ") + key + "_A=" + std::string(digits.data(), end);
  };
  for (const Aberration& c : aberrations) {
    add(name_of(c.n, c.m) + (c.m ? "a" : ""), c.a_A);
    if (c.m) add(name_of(c.n, c.m) + "b", c.b_A);
  }
  return text;
}

double chi(double k_row, double k_col, double wavelength_A, const Aberrations& aberrations) {
  const double x = wavelength_A * k_row, y = wavelength_A * k_col, r2 = x * x + y * y;
  double sum = 0;
  for (const Aberration& c : aberrations) {
    double re = 1, im = 0;  // z^m
    for (int i = 0; i < c.m; ++i) {
      const double t = re * x - im * y;
      im = re * y + im * x;
      re = t;
    }
    double radial = 1;  // |z|^(n + 1 - m), an even power
    for (int i = 0; i < (c.n + 1 - c.m) / 2; ++i) radial *= r2;
    sum += radial * (c.a_A * re + c.b_A * im) / (c.n + 1);
  }
  return 2 * std::numbers::pi / wavelength_A * sum;
}

double Probe0::aperture(double k_row, double k_col) const {
  const double angle = wavelength_A * std::sqrt(k_row * k_row + k_col * k_col);
  if (edge_rad == 0) return angle <= semiangle_rad ? 1 : 0;
  return std::clamp((semiangle_rad - angle) / edge_rad + 0.5, 0.0, 1.0);
}

std::complex<double> Probe0::psi(double k_row, double k_col) const {
  const double a = aperture(k_row, k_col);
  if (a == 0) return 0;
  if (aberrations.empty()) return a;
  return std::polar(a, -chi(k_row, k_col, wavelength_A, aberrations));
}

}  // namespace quantem
