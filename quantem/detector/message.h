#pragma once
// Words of this area's error messages.

#include <cstdio>
#include <string>

#include "quantem/core/shape.h"

namespace quantem::detector_detail {

inline std::string number(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", v);
  return text;
}
inline std::string point(double row, double col) {
  return "(" + number(row) + ", " + number(col) + ")";
}

}  // namespace quantem::detector_detail
