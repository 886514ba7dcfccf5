#pragma once
// Words for extents and places. Every pair is (row, col); axes are (scan_row, scan_col, det_row, det_col), C order.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

namespace quantem {

struct Extent {
  std::uint32_t rows = 0, cols = 0;
  [[nodiscard]] constexpr std::uint64_t count() const { return std::uint64_t{rows} * cols; }
  constexpr bool operator==(const Extent&) const = default;
};

struct Position {
  std::uint32_t row = 0, col = 0;
  constexpr bool operator==(const Position&) const = default;
};

// A place between pixels: coordinate i is the centre of pixel i, which covers [i - 1/2, i + 1/2).
struct Point {
  double row = 0, col = 0;
  constexpr bool operator==(const Point&) const = default;
};

// Steps, samplings and other pairs of lengths.
struct Pair {
  double row = 0, col = 0;
  constexpr bool operator==(const Pair&) const = default;
};

struct Shape4 {
  Extent scan, det;
  [[nodiscard]] constexpr std::uint64_t n_positions() const { return scan.count(); }
  [[nodiscard]] constexpr std::uint64_t frame_pixels() const { return det.count(); }
  [[nodiscard]] constexpr std::uint64_t n_values() const { return n_positions() * frame_pixels(); }
  constexpr bool operator==(const Shape4&) const = default;
};

// A frame has at most this many pixels; larger ones are refused before anything is allocated.
inline constexpr std::uint64_t kMaxFramePixels = std::uint64_t{1} << 24;

// The centre of n pixels is (n - 1) / 2.
constexpr Point geometric_center(Extent e) {
  return {(e.rows - 1) / 2.0, (e.cols - 1) / 2.0};
}

// a * b, or nothing when it passes 2^64. For values read from a file.
constexpr std::optional<std::uint64_t> checked_multiply(std::uint64_t a, std::uint64_t b) {
  if (b != 0 && a > std::numeric_limits<std::uint64_t>::max() / b) return std::nullopt;
  return a * b;
}
constexpr std::optional<std::uint64_t> checked_add(std::uint64_t a, std::uint64_t b) {
  if (a > std::numeric_limits<std::uint64_t>::max() - b) return std::nullopt;
  return a + b;
}

std::string to_string(Extent e);         // "(512, 512)"
std::string to_string(Position p);       // "(4, 0)"
std::string to_string(const Shape4& s);  // "(512, 512, 192, 192)"

}  // namespace quantem
