#pragma once
// A set of scan positions: no duplicates, at least one member.

#include <span>

#include "quantem/core/bit_mask.h"
#include "quantem/core/region.h"
#include "quantem/core/result.h"

namespace quantem {

struct ScanSet {
  Extent scan;
  BitMask members;  // scan.count()
};

Result<ScanSet> scan_set(const Region& region, Extent scan);
Result<ScanSet> scan_set(std::span<const Position> positions, Extent scan);  // a repeated entry is refused
Result<ScanSet> scan_set(const BitMask& members, Extent scan);               // empty is invalid_argument
Result<ScanSet> scan_circle(Point center, double radius, Extent scan);       // d2 <= r * r, as detector discs
Result<ScanSet> scan_ring(Point center, double inner, double outer, Extent scan);

}  // namespace quantem
