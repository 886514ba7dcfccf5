#include "quantem/detector/geometry.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "quantem/detector/message.h"

namespace quantem {
namespace {

using detector_detail::number;
using detector_detail::point;

Result<Done> check_detector(Extent det, std::string_view what) {
  if (det.rows == 0 || det.cols == 0)
    return Error{Code::invalid_argument,
                 std::string(what) + ": detector is " + to_string(det) + ", both axes must be at least 1"};
  if (det.count() > kMaxFramePixels)
    return Error{Code::invalid_argument, std::string(what) + ": detector is " + to_string(det) +
                                             ", a frame has at most " + std::to_string(kMaxFramePixels) + " pixels"};
  return Done{};
}

Result<Done> check_center(Point center, std::string_view what) {
  if (!std::isfinite(center.row) || !std::isfinite(center.col))
    return Error{Code::invalid_argument,
                 std::string(what) + ": center is " + point(center.row, center.col) + ", must be finite"};
  return Done{};
}

template <class Selects>
Mask rasterise(Extent det, Selects selects) {
  Mask mask{det, BitMask(det.count()), {}};
  for (std::uint32_t i = 0; i < det.rows; ++i)
    for (std::uint32_t j = 0; j < det.cols; ++j)
      if (selects(static_cast<double>(i), static_cast<double>(j))) mask.bits.set(std::uint64_t{i} * det.cols + j);
  return mask;
}

Mask rasterise_band(Point center, double inner, double outer, Extent det) {
  const double inner2 = inner * inner, outer2 = outer * outer;
  return rasterise(det, [&](double i, double j) {
    const double dr = i - center.row, dc = j - center.col;
    const double d2 = dr * dr + dc * dc;
    return d2 >= inner2 && d2 <= outer2;
  });
}

ParameterValue length(double v) {
  if (std::isinf(v)) return std::string("inf");  // JSON has no infinity
  return v;
}

// sin and cos in degrees, exact on the axes: there a pixel on the line must not be lost to rounding.
struct Direction {
  double row, col;
};
Direction direction(double angle_deg) {
  const double turn = std::fmod(angle_deg, 360.0);
  const double a = turn < 0 ? turn + 360.0 : turn;
  if (a == 0.0 || a == 360.0) return {0, 1};
  if (a == 90.0) return {1, 0};
  if (a == 180.0) return {0, -1};
  if (a == 270.0) return {-1, 0};
  const double radians = a * (std::numbers::pi / 180.0);
  return {std::sin(radians), std::cos(radians)};
}

// One product decides both on which side of the edge a -> b the point lies and whether it lies on it.
double side_of_edge(Point a, Point b, double row, double col) {
  return (b.col - a.col) * (row - a.row) - (b.row - a.row) * (col - a.col);
}

bool inside_polygon(std::span<const Point> corners, double row, double col) {
  bool inside = false;
  for (std::size_t k = 0; k < corners.size(); ++k) {
    const Point a = corners[k], b = corners[(k + 1) % corners.size()];
    const double side = side_of_edge(a, b, row, col);
    if (side == 0 && row >= std::min(a.row, b.row) && row <= std::max(a.row, b.row) && col >= std::min(a.col, b.col) &&
        col <= std::max(a.col, b.col))
      return true;
    if ((a.row > row) != (b.row > row) && (b.row > a.row ? side > 0 : side < 0)) inside = !inside;
  }
  return inside;
}

std::string shape_text(std::span<const std::uint64_t> shape) {
  std::string text = "(";
  for (std::size_t k = 0; k < shape.size(); ++k) text += (k ? ", " : "") + std::to_string(shape[k]);
  return text + (shape.size() == 1 ? ",)" : ")");
}

double element(Dtype dtype, const std::byte* at) {
  const auto load = [at]<class T>() {
    T v;
    std::memcpy(&v, at, sizeof v);
    return static_cast<double>(v);
  };
  switch (dtype) {
    case Dtype::u64:
      return load.template operator()<std::uint64_t>();
    case Dtype::i64:
      return load.template operator()<std::int64_t>();
    case Dtype::f64:
      return load.template operator()<double>();
    default:
      return visit_count_dtype(dtype, load);
  }
}

}  // namespace

Result<Mask> disk(Point center, double radius_px, Extent det) {
  QUANTEM_TRY(check_detector(det, "disk"));
  QUANTEM_TRY(check_center(center, "disk"));
  if (!(radius_px > 0))
    return Error{Code::invalid_argument, "disk: radius_px is " + number(radius_px) + ", must be above 0"};
  Mask mask = rasterise_band(center, 0, radius_px, det);
  mask.parameters = {{"shape", std::string("disk")},
                     {"center_px", std::vector<double>{center.row, center.col}},
                     {"radius_px", length(radius_px)}};
  return mask;
}

Result<Mask> annulus(Point center, double inner_px, double outer_px, Extent det) {
  QUANTEM_TRY(check_detector(det, "annulus"));
  QUANTEM_TRY(check_center(center, "annulus"));
  if (!(inner_px >= 0 && inner_px < outer_px))
    return Error{Code::invalid_argument, "annulus: inner_px is " + number(inner_px) + " and outer_px is " +
                                             number(outer_px) + ", must be 0 <= inner < outer"};
  Mask mask = rasterise_band(center, inner_px, outer_px, det);
  mask.parameters = {{"shape", std::string("annulus")},
                     {"center_px", std::vector<double>{center.row, center.col}},
                     {"inner_px", inner_px},
                     {"outer_px", length(outer_px)}};
  return mask;
}

Result<Mask> half_plane(Point center, double angle_deg, Extent det) {
  QUANTEM_TRY(check_detector(det, "half_plane"));
  QUANTEM_TRY(check_center(center, "half_plane"));
  if (!std::isfinite(angle_deg))
    return Error{Code::invalid_argument, "half_plane: angle_deg is " + number(angle_deg) + ", must be finite"};
  const Direction d = direction(angle_deg);
  Mask mask =
      rasterise(det, [&](double i, double j) { return (i - center.row) * d.row + (j - center.col) * d.col >= 0; });
  mask.parameters = {{"shape", std::string("half_plane")},
                     {"center_px", std::vector<double>{center.row, center.col}},
                     {"angle_deg", angle_deg}};
  return mask;
}

Result<Mask> rectangle(const Region& region, Extent det) {
  QUANTEM_TRY(check_detector(det, "rectangle"));
  QUANTEM_TRY(check_region(region, det, "rectangle"));
  Mask mask{det, BitMask(det.count()), {}};
  for (std::uint32_t i = region.row_start; i < region.row_stop; ++i)
    for (std::uint32_t j = region.col_start; j < region.col_stop; ++j) mask.bits.set(std::uint64_t{i} * det.cols + j);
  mask.parameters = {{"shape", std::string("rectangle")}, {"region", to_string(region)}};
  return mask;
}

Result<Mask> polygon(std::span<const Point> corners, Extent det) {
  QUANTEM_TRY(check_detector(det, "polygon"));
  if (corners.size() < 3)
    return Error{Code::invalid_argument,
                 "polygon: " + std::to_string(corners.size()) + " corners, an area needs at least 3"};
  std::vector<double> flat;
  for (const Point& c : corners) {
    QUANTEM_TRY(check_center(c, "polygon corner " + std::to_string(flat.size() / 2)));
    flat.push_back(c.row);
    flat.push_back(c.col);
  }
  Mask mask = rasterise(det, [&](double i, double j) { return inside_polygon(corners, i, j); });
  mask.parameters = {{"shape", std::string("polygon")}, {"corners_px", std::move(flat)}};
  return mask;
}

Result<Mask> mask_from(std::span<const std::uint8_t> zeros_and_ones, Extent det) {
  QUANTEM_TRY(check_detector(det, "mask_from"));
  if (zeros_and_ones.size() != det.count())
    return Error{Code::invalid_argument, "mask_from: mask has " + std::to_string(zeros_and_ones.size()) +
                                             " pixels, detector " + to_string(det) + " has " +
                                             std::to_string(det.count())};
  Mask mask{det, BitMask(det.count()), {{"shape", std::string("mask")}}};
  for (std::uint64_t p = 0; p < det.count(); ++p) {
    if (zeros_and_ones[p] > 1)
      return Error{Code::invalid_argument, "mask_from: value " + std::to_string(zeros_and_ones[p]) + " at (" +
                                               std::to_string(p / det.cols) + ", " + std::to_string(p % det.cols) +
                                               "), a binary mask holds 0 and 1; other numbers are weights_from"};
    if (zeros_and_ones[p]) mask.bits.set(p);
  }
  return mask;
}

Mask all_pixels(Extent det) {
  return {det, BitMask(det.count(), true), {{"shape", std::string("all")}}};
}

Result<Weights> weights_from(std::span<const double> weights, Extent det) {
  QUANTEM_TRY(check_detector(det, "weights_from"));
  if (weights.size() != det.count())
    return Error{Code::invalid_argument, "weights_from: " + std::to_string(weights.size()) + " weights, detector " +
                                             to_string(det) + " has " + std::to_string(det.count()) + " pixels"};
  double largest = 0;
  for (std::uint64_t p = 0; p < det.count(); ++p) {
    if (!std::isfinite(weights[p]))
      return Error{Code::invalid_argument, "weights_from: weight " + number(weights[p]) + " at (" +
                                               std::to_string(p / det.cols) + ", " + std::to_string(p % det.cols) +
                                               "), must be finite"};
    largest = std::max(largest, std::abs(weights[p]));
  }
  Weights out{det, 1, std::vector<std::int32_t>(det.count()), true};
  if (largest == 0) return out;
  int exponent = 0;  // largest = m * 2^exponent, 1/2 <= m < 1
  const double m = std::frexp(largest, &exponent);
  const int e = m == 0.5 ? exponent - 1 : exponent;
  if (e < -1050)
    return Error{Code::invalid_argument, "weights_from: the largest weight is " + number(largest) +
                                             ": scale the weights up, it is below 2^-1050"};
  out.step = std::ldexp(1.0, e - 15);
  for (std::uint64_t p = 0; p < det.count(); ++p) {
    const double q = std::nearbyint(std::ldexp(weights[p], 15 - e));
    out.q[p] = static_cast<std::int32_t>(q);
    out.exact = out.exact && q * out.step == weights[p];
  }
  return out;
}

Result<std::variant<Mask, Weights>> selection_from(const StridedArray& array, Extent det) {
  QUANTEM_TRY(check_detector(det, "mask"));
  if (array.shape.size() != 2 || array.shape[0] != det.rows || array.shape[1] != det.cols)
    return Error{Code::invalid_argument, "mask is " + shape_text(array.shape) + ", detector is " + to_string(det)};
  if (array.strides_bytes.size() != 2)
    return Error{Code::invalid_argument,
                 "mask has " + std::to_string(array.strides_bytes.size()) + " strides for 2 axes"};
  if (!array.data) return Error{Code::invalid_argument, "mask " + shape_text(array.shape) + " has no data"};
  std::vector<double> values(det.count());
  for (std::uint32_t i = 0; i < det.rows; ++i)
    for (std::uint32_t j = 0; j < det.cols; ++j)
      values[std::uint64_t{i} * det.cols + j] =
          element(array.dtype, static_cast<const std::byte*>(array.data) + std::int64_t{i} * array.strides_bytes[0] +
                                   std::int64_t{j} * array.strides_bytes[1]);
  const bool is_float = array.dtype == Dtype::f32 || array.dtype == Dtype::f64;
  if (is_float || !std::all_of(values.begin(), values.end(), [](double v) { return v == 0 || v == 1; })) {
    QUANTEM_TRY_ASSIGN(weights, weights_from(values, det));
    return std::variant<Mask, Weights>(std::move(weights));
  }
  Mask mask{det, BitMask(det.count()), {{"shape", std::string("mask")}}};
  for (std::uint64_t p = 0; p < det.count(); ++p)
    if (values[p] != 0) mask.bits.set(p);
  return std::variant<Mask, Weights>(std::move(mask));
}

}  // namespace quantem
