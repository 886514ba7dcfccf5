// The numbers that people read off a figure: scale bars, ticks, units.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string>

#include "quantem/display/figure.h"

namespace quantem {
namespace {

// The largest 1, 2 or 5 times a power of ten that is at most `limit`.
double nice_below(double limit) {
  const double decade = std::pow(10.0, std::floor(std::log10(limit)));
  for (const double next : {10.0, 5.0, 2.0}) {
    if (next * decade <= limit * (1 + 1e-12)) return next * decade;
  }
  return decade;
}

// The smallest 1, 2 or 5 times a power of ten that is at least `limit`.
double nice_above(double limit) {
  const double decade = std::pow(10.0, std::floor(std::log10(limit)));
  for (const double next : {1.0, 2.0, 5.0}) {
    if (next * decade >= limit * (1 - 1e-12)) return next * decade;
  }
  return 10 * decade;
}

std::string format(const char* how, double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), how, value);
  return text.data();
}

std::string superscript(int exponent) {
  constexpr std::string_view kDigits[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string out = exponent < 0 ? "⁻" : "";
  for (const char digit : std::to_string(std::abs(exponent))) out += kDigits[digit - '0'];
  return out;
}

// A minus sign instead of a hyphen: it is as wide as a plus.
std::string with_minus(std::string text) {
  if (!text.empty() && text[0] == '-') text.replace(0, 1, "−");
  return text;
}

// "10⁵", "−10⁻³", or digits where those are short.
std::string decade_label(double value) {
  const double size = std::fabs(value);
  if (size == 0 || (size >= 1e-2 && size < 1e5)) return with_minus(format("%.10g", value));
  const int exponent = static_cast<int>(std::floor(std::log10(size) + 1e-9));
  const double lead = std::round(size / std::pow(10.0, exponent));
  return (value < 0 ? "−" : "") + (lead == 1 ? "" : format("%.0f·", lead)) + "10" + superscript(exponent);
}

// Candidates, the most wanted first.
std::vector<double> decades(const Window& window, bool with_2_and_5) {
  std::vector<double> out;
  const double reach = std::max(std::fabs(double{window.lo}), std::fabs(double{window.hi}));
  if (window.lo <= 0 && window.hi >= 0) out.push_back(0);
  for (int e = static_cast<int>(std::floor(std::log10(reach))); e >= -3; --e)
    for (const double m : {1.0, 2.0, 5.0})
      for (const double sign : {-1.0, 1.0}) {
        const double v = sign * m * std::pow(10.0, e);
        if ((m == 1 || with_2_and_5) && v >= window.lo && v <= window.hi) out.push_back(v);
      }
  return out;
}

std::vector<double> multiples(double lo, double hi, double step) {
  std::vector<double> out;
  for (double k = std::ceil(lo / step - 1e-9); k * step <= hi + 1e-9 * step && out.size() < 1000; ++k)
    out.push_back(k == 0 ? 0 : k * step);
  return out;
}

// Keeps a tick when it is `spacing` away from all kept before it: first come, first kept.
std::vector<double> thinned(const Window& window, const std::vector<double>& ticks, double spacing) {
  std::vector<double> kept;
  for (const double tick : ticks) {
    const bool free = std::all_of(kept.begin(), kept.end(), [&](double other) {
      return std::fabs(window.fraction(tick) - window.fraction(other)) >= spacing;
    });
    if (free) kept.push_back(tick);
  }
  std::sort(kept.begin(), kept.end());
  return kept;
}

struct UnitName {
  std::string_view plain, pretty;
};
constexpr UnitName kUnits[] = {{"A", "Å"},       {"angstrom", "Å"}, {"Angstrom", "Å"},  {"1/A", "Å⁻¹"},
                               {"A^-1", "Å⁻¹"},  {"1/nm", "nm⁻¹"},  {"um", "µm"},       {"deg", "°"},
                               {"V*A", "V·Å"},   {"V A", "V·Å"},    {"rad/A", "rad/Å"}, {"px^2", "px²"},
                               {"1/A/A", "Å⁻²"}, {"px/A", "px/Å"},  {"us", "µs"}};

}  // namespace

std::string pretty_unit(std::string_view unit) {
  for (const UnitName& name : kUnits)
    if (name.plain == unit) return std::string(name.pretty);
  return std::string(unit);
}

std::string short_number(double value) {
  if (!std::isfinite(value)) return std::isnan(value) ? "nan" : value > 0 ? "inf" : "−inf";
  const double size = std::fabs(value);
  if (size == 0 || (size >= 1e-3 && size < 1e5)) return with_minus(format(size >= 1000 ? "%.0f" : "%.3g", value));
  const int exponent = static_cast<int>(std::floor(std::log10(size)));
  return with_minus(format("%.3g", value / std::pow(10.0, exponent))) + "×10" + superscript(exponent);
}

ScaleBar nice_scale_bar(double step, std::string_view unit, std::uint32_t n_cols, double fraction) {
  ScaleBar bar;
  if (!(step > 0) || !std::isfinite(step) || n_cols == 0) return bar;
  bar.length = nice_below(step * n_cols * fraction);
  if (unit == "px" && bar.length < 1) bar.length = 1;  // no part of a pixel was measured
  bar.pixels = bar.length / step;
  const bool angstrom = pretty_unit(unit) == "Å";
  double shown = bar.length;
  std::string name = pretty_unit(unit);
  if (angstrom && shown > 9.999e3)
    shown /= 1e4, name = "µm";
  else if (angstrom && shown > 9.999)
    shown /= 10, name = "nm";
  bar.label = short_number(shown) + (name == "°" ? "" : " ") + name;
  return bar;
}

std::vector<double> nice_ticks(const Window& window, std::uint32_t n_px, std::uint32_t spacing_px) {
  if (window.flat() || n_px == 0 || spacing_px == 0) return {};
  const double spacing = double{1} * spacing_px / n_px, lo = window.lo, hi = window.hi;
  if (window.transform == Transform::log && std::max(std::fabs(lo), std::fabs(hi)) > 10) {
    std::vector<double> ticks = thinned(window, decades(window, false), spacing);
    return ticks.size() >= 3 ? ticks : thinned(window, decades(window, true), spacing);
  }
  if (window.transform == Transform::linear)
    return multiples(lo, hi, nice_above(std::max((hi - lo) * spacing, (hi - lo) * 1e-6)));
  // Where T bends, even steps crowd at one end: take the round values from the widest step down until there are enough.
  std::vector<double> ticks;
  double step = nice_below(hi - lo);
  for (int finer = 0; finer < 4; ++finer, step = nice_below(step * 0.51)) {
    const std::vector<double> round = multiples(lo, hi, step);
    ticks.insert(ticks.end(), round.begin(), round.end());
    ticks = thinned(window, ticks, spacing);
    if (ticks.size() >= 4) break;
  }
  return ticks;
}

TickLabels tick_labels(const Window& window, const std::vector<double>& ticks) {
  TickLabels labels;
  double largest = 0, apart = 0;
  for (std::size_t i = 0; i < ticks.size(); ++i) {
    largest = std::max(largest, std::fabs(ticks[i]));
    if (i) apart = apart == 0 ? ticks[i] - ticks[i - 1] : std::min(apart, ticks[i] - ticks[i - 1]);
  }
  if (window.transform == Transform::log && largest > 10) {
    for (const double tick : ticks) labels.texts.push_back(decade_label(tick));
    return labels;
  }
  int exponent = 0;
  if (largest >= 1e5 || (largest > 0 && largest < 1e-2))
    exponent = 3 * static_cast<int>(std::floor(std::log10(largest) / 3 + 1e-9));
  if (exponent) labels.factor = "×10" + superscript(exponent);
  const double unit = std::pow(10.0, exponent);
  const double finest = apart > 0 ? apart / unit : largest > 0 ? largest / unit : 1;
  const int decimals = std::clamp(static_cast<int>(std::ceil(-std::log10(finest) - 1e-9)), 0, 9);
  for (const double tick : ticks) {
    std::array<char, 64> text{};
    std::snprintf(text.data(), text.size(), "%.*f", decimals, tick / unit);
    labels.texts.push_back(with_minus(text.data()));
  }
  return labels;
}

}  // namespace quantem
