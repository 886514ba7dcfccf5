#include "quantem/core/region.h"

#include "quantem/core/shape.h"

namespace quantem {
namespace {

Result<Done> check_axis(std::uint32_t start, std::uint32_t stop, std::uint32_t n, std::string_view what,
                        std::string_view axis) {
  const std::string name = std::string(what) + " " + std::string(axis);
  if (stop > n)
    return Error{Code::invalid_argument,
                 name + "_stop is " + std::to_string(stop) + ", the axis has " + std::to_string(n)};
  if (start >= stop)
    return Error{Code::invalid_argument, name + "_start is " + std::to_string(start) + ", must be below " +
                                             std::string(axis) + "_stop " + std::to_string(stop) + " (the axis has " +
                                             std::to_string(n) + "): an empty region selects nothing"};
  return Done{};
}

}  // namespace

Result<Done> check_region(const Region& region, Extent extent, std::string_view what) {
  QUANTEM_TRY(check_axis(region.row_start, region.row_stop, extent.rows, what, "row"));
  return check_axis(region.col_start, region.col_stop, extent.cols, what, "col");
}

std::string to_string(Extent e) {
  return "(" + std::to_string(e.rows) + ", " + std::to_string(e.cols) + ")";
}
std::string to_string(Position p) {
  return "(" + std::to_string(p.row) + ", " + std::to_string(p.col) + ")";
}
std::string to_string(const Shape4& s) {
  return "(" + std::to_string(s.scan.rows) + ", " + std::to_string(s.scan.cols) + ", " + std::to_string(s.det.rows) +
         ", " + std::to_string(s.det.cols) + ")";
}
std::string to_string(const Region& r) {
  return "(" + std::to_string(r.row_start) + ", " + std::to_string(r.row_stop) + ", " + std::to_string(r.col_start) +
         ", " + std::to_string(r.col_stop) + ")";
}

}  // namespace quantem
