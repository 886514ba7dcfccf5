#pragma once
// How values become 256 levels. The edges between levels are computed once, on the host, in double; after that, colours
// and histograms only compare, so every backend gives the same bytes.
//
//   e_k = f32(T^-1(T(lo) + k/256 (T(hi) - T(lo))))   k = 1..255
//   level(x) = number of e_k <= x;  +inf is 255, -inf is 0;  finite x with hi <= lo is 128;  NaN has no level
//   T: linear x;  log sign(x) log1p(|x|);  power sign(x) |x|^gamma, 0 < gamma <= 4
//
// Values that are NaN, that `valid` clears, or that are infinite take no part in choosing lo and hi.

#include <array>
#include <cstdint>
#include <limits>
#include <string_view>

#include "quantem/core/array.h"
#include "quantem/core/result.h"

namespace quantem {

enum class Transform : std::uint8_t { linear, log, power };
std::string_view transform_name(Transform t);  // "linear", "log", "power"
Result<Transform> parse_transform(std::string_view name);

struct Percentiles {
  double low = 0.5, high = 99.5;
};

struct Window {
  float lo = 0, hi = 0;
  Transform transform = Transform::linear;
  double gamma = 0.5;              // of `power`; otherwise not used
  std::array<float, 255> edges{};  // ascending; edges[k - 1] is e_k
  [[nodiscard]] bool flat() const { return !(lo < hi); }
  // 0..255; 256 for NaN.
  [[nodiscard]] int level(float x) const;
  // t = (T(x) - T(lo)) / (T(hi) - T(lo)) clipped to [0, 1], in double; 0.5 when flat; 0 for NaN; 1 and 0 for +inf and
  // -inf.
  [[nodiscard]] double fraction(double x) const;
  // T^-1 of that: the value at fraction t of a colour bar.
  [[nodiscard]] double value_at(double t) const;
};

// lo and hi as given, rounded to f32. Errors: invalid_argument for a limit that is not finite, or gamma outside (0, 4].
Result<Window> manual_window(double lo, double hi, Transform transform = Transform::linear, double gamma = 0.5);

// Exact order statistics of the valid finite values, linear between ranks (rank = p/100 (n - 1)), in double, then f32.
// No such value: (0, 0). Errors: also invalid_argument unless 0 <= low <= high <= 100.
Result<Window> window(const Grid<float>& image, Percentiles percentiles = {}, Transform transform = Transform::linear,
                      double gamma = 0.5);
inline constexpr Percentiles kMinMax{0, 100};  // window(image, kMinMax): the least and the greatest value

// (-a, a) with a the percentile of |x|: for signed maps, where 0 must be the middle of a diverging colour map.
Result<Window> symmetric_window(const Grid<float>& image, double percentile = 99.5);

// fraction() of every value, f32 (bound 2e-7); 0 where there is no value.
Result<Image<float>> normalize(const Grid<float>& image, const Window& window);

// The values of any product as f32, nearest, for showing only: NaN and a cleared `valid` bit where there is no value.
// Extent, unit and provenance are kept.
template <class T>
Image<float> displayable(const Grid<T>& grid) {
  Image<float> shown;
  shown.extent = grid.extent, shown.unit = grid.unit, shown.valid = grid.valid, shown.provenance = grid.provenance;
  shown.values.resize(grid.values.size());
  for (std::uint64_t i = 0; i < grid.values.size(); ++i)
    shown.values[i] = grid.is_valid(i) ? static_cast<float>(grid.values[i]) : std::numeric_limits<float>::quiet_NaN();
  return shown;
}

}  // namespace quantem
