#include "quantem/dpc/descan.h"

#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "quantem/dpc/steps.h"

namespace quantem {
namespace {

constexpr std::size_t kTerms = 6;  // 1, row, col, row^2, row col, col^2
using Terms = std::array<double, kTerms>;

// Scan coordinates brought to [-1, 1], so that the normal equations are well conditioned on any scan.
struct Axis {
  double center, scale;
  explicit Axis(std::uint32_t n) : center((n - 1) / 2.0), scale(n > 1 ? (n - 1) / 2.0 : 1.0) {}
  [[nodiscard]] double at(std::uint64_t i) const { return (static_cast<double>(i) - center) / scale; }
};

Terms terms_at(double x, double y) {
  return {1, x, y, x * x, x * y, y * y};
}

std::array<bool, kTerms> usable_terms(Extent scan, Descan::Kind kind) {
  const bool row = scan.rows > 1, col = scan.cols > 1, square = kind == Descan::Kind::parabola;
  return {true, row, col, square && scan.rows > 2, square && row && col, square && scan.cols > 2};
}

// Solves the symmetric positive system over the usable terms by elimination without pivoting (Cholesky's order); false
// when the positions do not determine it.
bool solve(std::array<Terms, kTerms> a, std::array<Terms, 2>& b, const std::array<bool, kTerms>& usable) {
  const std::array<Terms, kTerms> original = a;
  for (std::size_t k = 0; k < kTerms; ++k) {
    if (!usable[k]) continue;
    if (!(a[k][k] > 1e-10 * original[k][k])) return false;
    for (std::size_t i = k + 1; i < kTerms; ++i) {
      if (!usable[i]) continue;
      const double factor = a[i][k] / a[k][k];
      for (std::size_t j = k; j < kTerms; ++j) a[i][j] -= factor * a[k][j];
      for (Terms& side : b) side[i] -= factor * side[k];
    }
  }
  for (Terms& side : b)
    for (std::size_t k = kTerms; k-- > 0;) {
      if (!usable[k]) {
        side[k] = 0;
        continue;
      }
      for (std::size_t j = k + 1; j < kTerms; ++j)
        if (usable[j]) side[k] -= a[k][j] * side[j];
      side[k] /= a[k][k];
    }
  return true;
}

// The same polynomial in plain scan coordinates, for the record.
std::vector<double> in_scan_coordinates(const Terms& p, const Axis& row, const Axis& col, bool plane) {
  const double u = row.scale, v = col.scale, r = row.center, c = col.center;
  const double d = p[3] / (u * u), e = p[4] / (u * v), f = p[5] / (v * v);
  const double b = p[1] / u - 2 * d * r - e * c, g = p[2] / v - 2 * f * c - e * r;
  const double a = p[0] - p[1] * r / u - p[2] * c / v + d * r * r + e * r * c + f * c * c;
  if (plane) return {a, b, g};
  return {a, b, g, d, e, f};
}

Result<Done> subtract_surface(ComField& field, Descan::Kind kind) {
  const Axis row_axis(field.scan.rows), col_axis(field.scan.cols);
  const auto usable = usable_terms(field.scan, kind);
  std::array<Terms, kTerms> normal{};
  std::array<Terms, 2> sides{};
  const std::uint64_t cols = field.scan.cols, n = field.scan.count();
  for (std::uint64_t i = 0; i < n; ++i) {
    if (!field.valid[i]) continue;
    const Terms t = terms_at(row_axis.at(i / cols), col_axis.at(i % cols));
    for (std::size_t k = 0; k < kTerms; ++k) {
      for (std::size_t j = 0; j < kTerms; ++j) normal[k][j] += t[k] * t[j];
      sides[0][k] += t[k] * field.row[i];
      sides[1][k] += t[k] * field.col[i];
    }
  }
  if (!solve(normal, sides, usable))
    return Error{Code::undetermined, "descan: " + std::to_string(field.valid.n_set()) +
                                         " positions with a value do not determine a " +
                                         std::string(descan_name(kind)) + "; use descan=\"mean\""};
  for (std::uint64_t i = 0; i < n; ++i) {
    if (!field.valid[i]) continue;
    const Terms t = terms_at(row_axis.at(i / cols), col_axis.at(i % cols));
    for (std::size_t k = 0; k < kTerms; ++k) {
      field.row[i] -= sides[0][k] * t[k];
      field.col[i] -= sides[1][k] * t[k];
    }
  }
  const bool plane = kind == Descan::Kind::plane;
  field.provenance.parameters.emplace_back("descan_row", in_scan_coordinates(sides[0], row_axis, col_axis, plane));
  field.provenance.parameters.emplace_back("descan_col", in_scan_coordinates(sides[1], row_axis, col_axis, plane));
  field.provenance.warn("descan: a fitted " + std::string(descan_name(kind)) + " also removes true long-range field");
  return Done{};
}

void subtract_point(ComField& field, Point p) {
  for (std::uint64_t i = 0; i < field.scan.count(); ++i) {
    if (!field.valid[i]) continue;
    field.row[i] -= p.row;
    field.col[i] -= p.col;
  }
  dpc_detail::record_descan_point(p, field.provenance);
}

Result<Done> subtract_map(ComField& field, const Descan& how) {
  const std::uint64_t n = field.scan.count();
  if (how.row.size() != n || how.col.size() != n)
    return Error{Code::invalid_argument, "descan: the map has " + std::to_string(how.row.size()) + " and " +
                                             std::to_string(how.col.size()) + " values, the scan is " +
                                             to_string(field.scan)};
  for (std::uint64_t i = 0; i < n; ++i) {
    if (!field.valid[i]) continue;
    if (!std::isfinite(how.row[i]) || !std::isfinite(how.col[i])) {  // no reference: no value either
      field.valid.set(i, false);
      field.row[i] = field.col[i] = 0;
      continue;
    }
    field.row[i] -= how.row[i];
    field.col[i] -= how.col[i];
  }
  return Done{};
}

Point mean_of(const ComField& field) {
  Point sum;
  for (std::uint64_t i = 0; i < field.scan.count(); ++i) {
    sum.row += field.row[i];  // 0 where there is no value
    sum.col += field.col[i];
  }
  const auto n = static_cast<double>(field.valid.n_set());
  return {sum.row / n, sum.col / n};
}

}  // namespace

Error dpc_detail::no_position_to_descan() {
  return Error{Code::undetermined, "descan: no position of the scan has a centre of mass"};
}

void dpc_detail::record_descan_point(Point subtracted, Provenance& p) {
  p.parameters.emplace_back("descan_row", std::vector<double>{subtracted.row});
  p.parameters.emplace_back("descan_col", std::vector<double>{subtracted.col});
}

std::string_view descan_name(Descan::Kind kind) {
  switch (kind) {
    case Descan::Kind::mean:
      return "mean";
    case Descan::Kind::plane:
      return "plane";
    case Descan::Kind::parabola:
      return "parabola";
    case Descan::Kind::fixed:
      return "fixed";
    case Descan::Kind::map:
      return "map";
    case Descan::Kind::none:
      return "none";
  }
  return "";
}

Result<Descan> parse_descan(std::string_view name) {
  Descan how;
  for (const auto kind : {Descan::Kind::mean, Descan::Kind::plane, Descan::Kind::parabola, Descan::Kind::none})
    if (name == descan_name(kind)) {
      how.kind = kind;
      return how;
    }
  return Error{Code::invalid_argument,
               "descan: '" + std::string(name) + "' is none of mean, plane, parabola, none, (row, col), a map"};
}

Result<ComField> descan(const ComField& field, const Descan& how) {
  QUANTEM_TRY(check_field(field, "descan"));
  ComField out = field;
  out.provenance.parameters.emplace_back("descan", std::string(descan_name(how.kind)));
  if (how.kind == Descan::Kind::none) return out;
  if (field.valid.none()) return dpc_detail::no_position_to_descan();
  switch (how.kind) {
    case Descan::Kind::mean:
      subtract_point(out, mean_of(field));
      break;
    case Descan::Kind::fixed:
      subtract_point(out, how.fixed);
      break;
    case Descan::Kind::map:
      QUANTEM_TRY(subtract_map(out, how));
      break;
    default:
      QUANTEM_TRY(subtract_surface(out, how.kind));
      break;
  }
  return out;
}

Result<ComMaps> descan(const ComMaps& maps, const Descan& how) {
  QUANTEM_TRY_ASSIGN(field, to_field(maps));
  QUANTEM_TRY_ASSIGN(out, descan(field, how));
  return to_maps(out);
}

}  // namespace quantem
