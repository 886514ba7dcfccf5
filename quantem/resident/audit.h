#pragma once
// The value audit of a load: range, place of the maximum and counts of notable values, over valid values only. Parts
// are taken by many threads over disjoint samples and merged; the result does not depend on how the samples were
// divided.

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "quantem/core/bit_mask.h"
#include "quantem/core/dtype.h"
#include "quantem/core/provenance.h"
#include "quantem/resident/volume.h"

namespace quantem {

class AuditPart {
 public:
  // A sample with a value. `order` ranks places (acquisition order); `position` and `pixel` are reported for the
  // maximum.
  template <class T>
  void add(T value, std::uint64_t order, std::uint64_t position, std::uint32_t pixel) {
    if constexpr (std::is_floating_point_v<T>)
      if (!std::isfinite(value)) {
        ++n_nonfinite;
        return;
      }
    const auto v = static_cast<double>(value);
    ++n_values;
    n_nonzero += value != T{0};
    n_above_255 += v > 255;
    n_above_65535 += v > 65535;
    n_saturated += v >= saturation;
    if (v < min) min = v;
    if (v > max || (v == max && (order < max_order || (order == max_order && pixel < max_pixel))))
      max = v, max_order = order, max_position = position, max_pixel = pixel;
  }
  void merge(const AuditPart& o);

  double saturation = std::numeric_limits<double>::infinity();  // values from here on are saturated
  double min = std::numeric_limits<double>::infinity(), max = -std::numeric_limits<double>::infinity();
  std::uint64_t max_order = 0, max_position = 0;
  std::uint32_t max_pixel = 0;
  std::uint64_t n_values = 0, n_nonzero = 0, n_above_255 = 0, n_above_65535 = 0, n_saturated = 0, n_flagged = 0,
                n_nonfinite = 0;
};

// From which value on a count is saturated: the dtype's maximum for u8 and u16, the file's value where it has a smaller
// one.
double saturation_of(Dtype dtype, std::optional<std::uint64_t> file_value);

// Range 0, 0 when there is no value. Digest: SHA-256 over the JSON text
//   {"source_identity":[[name,bytes,mtime_ns],...],"dtype":"uint16","bad_pixels":[flat,...],"count_max":X,"n_above_255":N}
Audit finish_audit(const AuditPart& part, const std::vector<SourceFile>& identity, Dtype dtype,
                   const BitMask& valid_pixels);
// JSON, schema quantem.gpu.value-range-audit/v1.
std::string to_json(const Audit& audit);

}  // namespace quantem
