#pragma once
// Colours and pictures of 8-bit colours.

#include <cstdint>
#include <vector>

#include "quantem/core/shape.h"

namespace quantem {

struct Color {
  std::uint8_t r = 0, g = 0, b = 0, a = 255;
  constexpr bool operator==(const Color&) const = default;
};

// uint8 (rows, cols, 4), C order, alpha not multiplied in. Alpha 0 marks a pixel without a value.
struct Rgba {
  Extent extent;
  std::vector<std::uint8_t> bytes;  // 4 * extent.count()

  Rgba() = default;
  explicit Rgba(Extent extent_, Color fill = {0, 0, 0, 0}) : extent(extent_), bytes(4 * extent_.count(), fill.r) {
    if (fill == Color{fill.r, fill.r, fill.r, fill.r}) return;  // white and nothing: written once, not twice
    for (std::uint64_t i = 0; i < extent.count(); ++i) set(i, fill);
  }
  [[nodiscard]] Color at(std::uint64_t row, std::uint64_t col) const {
    const std::uint8_t* p = &bytes[4 * (row * extent.cols + col)];
    return {p[0], p[1], p[2], p[3]};
  }
  void set(std::uint64_t i, Color c) {
    std::uint8_t* p = &bytes[4 * i];
    p[0] = c.r, p[1] = c.g, p[2] = c.b, p[3] = c.a;
  }
  void set(std::uint64_t row, std::uint64_t col, Color c) { set(row * extent.cols + col, c); }
};

}  // namespace quantem
