#include "quantem/detector/scan_set.h"

#include <cmath>
#include <string>

#include "quantem/detector/message.h"

namespace quantem {
namespace {

Result<ScanSet> not_empty(ScanSet set, std::string_view what) {
  if (set.members.none())
    return Error{Code::invalid_argument, std::string(what) + ": no scan position is selected of " +
                                             to_string(set.scan) + "; give at least one"};
  return set;
}

}  // namespace

Result<ScanSet> scan_set(const Region& region, Extent scan) {
  QUANTEM_TRY(check_region(region, scan, "scan_set"));
  ScanSet set{scan, BitMask(scan.count())};
  for (std::uint32_t r = region.row_start; r < region.row_stop; ++r)
    for (std::uint32_t c = region.col_start; c < region.col_stop; ++c)
      set.members.set(std::uint64_t{r} * scan.cols + c);
  return set;
}

Result<ScanSet> scan_set(std::span<const Position> positions, Extent scan) {
  ScanSet set{scan, BitMask(scan.count())};
  for (const Position& p : positions) {
    if (p.row >= scan.rows || p.col >= scan.cols)
      return Error{Code::invalid_argument,
                   "scan_set: position " + to_string(p) + " is outside the scan " + to_string(scan)};
    const std::uint64_t n = std::uint64_t{p.row} * scan.cols + p.col;
    if (set.members[n])
      return Error{Code::invalid_argument,
                   "scan_set: position " + to_string(p) + " is given twice; a set has no duplicates"};
    set.members.set(n);
  }
  return not_empty(std::move(set), "scan_set");
}

Result<ScanSet> scan_set(const BitMask& members, Extent scan) {
  if (members.count() != scan.count())
    return Error{Code::invalid_argument, "scan_set: mask has " + std::to_string(members.count()) + " positions, scan " +
                                             to_string(scan) + " has " + std::to_string(scan.count())};
  return not_empty({scan, members}, "scan_set");
}

Result<ScanSet> scan_circle(Point center, double radius, Extent scan) {
  if (!(radius > 0))
    return Error{Code::invalid_argument,
                 "scan_circle: radius is " + detector_detail::number(radius) + ", must be above 0"};
  return scan_ring(center, 0, radius, scan);
}

Result<ScanSet> scan_ring(Point center, double inner, double outer, Extent scan) {
  using detector_detail::number;
  if (!std::isfinite(center.row) || !std::isfinite(center.col))
    return Error{Code::invalid_argument,
                 "scan_ring: center is " + detector_detail::point(center.row, center.col) + ", must be finite"};
  if (!(inner >= 0 && inner < outer))
    return Error{Code::invalid_argument, "scan_ring: inner is " + number(inner) + " and outer is " + number(outer) +
                                             ", must be 0 <= inner < outer"};
  ScanSet set{scan, BitMask(scan.count())};
  const double inner2 = inner * inner, outer2 = outer * outer;
  for (std::uint32_t r = 0; r < scan.rows; ++r)
    for (std::uint32_t c = 0; c < scan.cols; ++c) {
      const double dr = r - center.row, dc = c - center.col;
      const double d2 = dr * dr + dc * dc;
      if (d2 >= inner2 && d2 <= outer2) set.members.set(std::uint64_t{r} * scan.cols + c);
    }
  return not_empty(std::move(set), "scan_ring");
}

}  // namespace quantem
