#pragma once
// descan: the deflection of the scan itself, taken out of centres of mass. In double, before the one rounding.
//   mean      minus the mean over valid positions (default)
//   plane     minus the least-squares a + b row + c col over valid positions, each component alone
//   parabola  minus the least-squares a + b row + c col + d row^2 + e row col + f col^2
//   fixed     minus a detector position;  map  minus a map of the scan's shape (from a vacuum scan);  none
// Provenance records what was subtracted ("descan", "descan_row", "descan_col"). A fitted surface also removes true
// long-range field, and says so. Terms that an axis of length 1 (or 2, for squares) cannot carry are 0. Errors:
// undetermined when no position is valid, or too few to fix the surface; invalid_argument for a map of another shape.

#include <string_view>
#include <vector>

#include "quantem/dpc/field.h"

namespace quantem {

struct Descan {
  enum class Kind : std::uint8_t { mean, plane, parabola, fixed, map, none };
  Kind kind = Kind::mean;
  Point fixed;                   // Kind::fixed, in the field's unit
  std::vector<double> row, col;  // Kind::map
};
std::string_view descan_name(Descan::Kind kind);
Result<Descan> parse_descan(std::string_view name);  // mean, plane, parabola, none

Result<ComField> descan(const ComField& field, const Descan& how = {});
Result<ComMaps> descan(const ComMaps& maps, const Descan& how = {});

}  // namespace quantem
