#include "quantem/display/window.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "quantem/display/check.h"
#include "quantem/display/order_statistic.h"

namespace quantem {
namespace {

double forward(Transform t, double gamma, double x) {
  switch (t) {
    case Transform::linear:
      return x;
    case Transform::log:
      return std::copysign(std::log1p(std::fabs(x)), x);
    case Transform::power:
      return std::copysign(std::pow(std::fabs(x), gamma), x);
  }
  return x;
}

double inverse(Transform t, double gamma, double y) {
  switch (t) {
    case Transform::linear:
      return y;
    case Transform::log:
      return std::copysign(std::expm1(std::fabs(y)), y);
    case Transform::power:
      return std::copysign(std::pow(std::fabs(y), 1.0 / gamma), y);
  }
  return y;
}

// -0 counts as 0, so that a limit of 0 has one sign whichever of the two a partial sort would meet.
std::vector<float> usable_values(const Grid<float>& image) {
  std::vector<float> kept;
  kept.reserve(image.values.size());
  for (std::uint64_t i = 0; i < image.values.size(); ++i)
    if (image.is_valid(i) && std::isfinite(image.values[i])) kept.push_back(image.values[i] + 0.0f);
  return kept;
}

// The value at rank p/100 (n - 1), linear between its neighbours. Reorders `values`.
double order_statistic(std::vector<float>& values, double p) {
  const Rank rank = rank_of(p, values.size());
  const auto place = values.begin() + static_cast<std::ptrdiff_t>(rank.below);
  std::nth_element(values.begin(), place, values.end());
  return value_at_rank(rank, *place, rank.part > 0 ? *std::min_element(place + 1, values.end()) : *place);
}

}  // namespace

Result<Done> check_percentiles(double low, double high) {
  if (0 <= low && low <= high && high <= 100) return Done{};
  return Error{Code::invalid_argument, "window: percentiles must satisfy 0 <= low <= high <= 100, found low " +
                                           std::to_string(low) + ", high " + std::to_string(high)};
}

std::string_view transform_name(Transform t) {
  constexpr std::string_view kNames[] = {"linear", "log", "power"};
  return kNames[static_cast<std::size_t>(t)];
}

Result<Transform> parse_transform(std::string_view name) {
  for (const Transform t : {Transform::linear, Transform::log, Transform::power})
    if (transform_name(t) == name) return t;
  return Error{Code::invalid_argument, "transform '" + std::string(name) + "' is not known; use linear, log or power"};
}

int Window::level(float x) const {
  if (std::isnan(x)) return 256;
  if (std::isinf(x)) return x > 0 ? 255 : 0;
  if (flat()) return 128;
  // std::upper_bound without a branch that a pixel decides: of noise it would be foretold wrongly every other time.
  static_assert(std::tuple_size_v<decltype(edges)> == 255);
  std::size_t below = 0;
  for (int bit = 7; bit >= 0; --bit)
    below += static_cast<std::size_t>(edges[below + (std::size_t{1} << bit) - 1] <= x) << bit;
  return static_cast<int>(below);
}

double Window::fraction(double x) const {
  if (std::isnan(x)) return 0;
  if (std::isinf(x)) return x > 0 ? 1 : 0;
  if (flat()) return 0.5;
  const double low = forward(transform, gamma, lo), high = forward(transform, gamma, hi);
  if (!(low < high)) return x < lo ? 0 : x > hi ? 1 : 0.5;  // so near that T cannot tell them apart
  return std::clamp((forward(transform, gamma, x) - low) / (high - low), 0.0, 1.0);
}

double Window::value_at(double t) const {
  const double low = forward(transform, gamma, lo), high = forward(transform, gamma, hi);
  return inverse(transform, gamma, low + t * (high - low));
}

Result<Window> manual_window(double lo, double hi, Transform transform, double gamma) {
  Window w;
  w.lo = static_cast<float>(lo), w.hi = static_cast<float>(hi), w.transform = transform, w.gamma = gamma;
  if (!std::isfinite(w.lo) || !std::isfinite(w.hi))
    return Error{Code::invalid_argument, "window: limits must be finite in float32, found lo " + std::to_string(lo) +
                                             ", hi " + std::to_string(hi)};
  if (!(gamma > 0 && gamma <= 4))
    return Error{Code::invalid_argument, "window: gamma must be above 0 and at most 4, found " + std::to_string(gamma)};
  const double low = forward(transform, gamma, w.lo), high = forward(transform, gamma, w.hi);
  for (int k = 1; k < 256; ++k)
    w.edges[static_cast<std::size_t>(k - 1)] =
        static_cast<float>(inverse(transform, gamma, low + k / 256.0 * (high - low)));
  // A count of edges does not depend on their order; sorted, it is a binary search even where T^-1 rounds unevenly.
  std::sort(w.edges.begin(), w.edges.end());
  return w;
}

Result<Window> window(const Grid<float>& image, Percentiles percentiles, Transform transform, double gamma) {
  QUANTEM_TRY(check_grid(image, "window"));
  QUANTEM_TRY(check_percentiles(percentiles.low, percentiles.high));
  std::vector<float> values = usable_values(image);
  if (values.empty()) return manual_window(0, 0, transform, gamma);
  const double lo = order_statistic(values, percentiles.low);
  const double hi = order_statistic(values, percentiles.high);
  return manual_window(lo, hi, transform, gamma);
}

Result<Window> symmetric_window(const Grid<float>& image, double percentile) {
  QUANTEM_TRY(check_grid(image, "symmetric_window"));
  QUANTEM_TRY(check_percentiles(percentile, percentile));
  std::vector<float> values = usable_values(image);
  for (float& x : values) x = std::fabs(x);
  const double reach = values.empty() ? 0 : order_statistic(values, percentile);
  return manual_window(-reach, reach);
}

Result<Image<float>> normalize(const Grid<float>& image, const Window& window) {
  QUANTEM_TRY(check_grid(image, "normalize"));
  Image<float> out;
  out.extent = image.extent, out.valid = image.valid, out.provenance = image.provenance;
  out.values.resize(image.values.size());
  for (std::uint64_t i = 0; i < image.values.size(); ++i)
    out.values[i] = image.is_valid(i) ? static_cast<float>(window.fraction(image.values[i])) : 0.0f;
  return out;
}

}  // namespace quantem
