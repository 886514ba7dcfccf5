#include "parity/table.h"

#include <cmath>
#include <limits>

#include "tests/support/splitmix64.h"

namespace quantem::parity {
namespace {

// A count among the eight largest below the dtype's largest (u32's is a marker).
template <class T>
T make_top_count(std::uint64_t bits) {
  return static_cast<T>(std::numeric_limits<T>::max() - static_cast<T>(1 + bits % 8));
}

// One count: usually 0 to 3, at times any value of the dtype, brighter in the middle of the detector. Never the u32 marker.
template <class T>
T make_count(std::uint64_t bits, bool bright) {
  const std::uint64_t kind = bits >> 56;
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(static_cast<double>(bits >> 40 & 0x3ff) / 8 - (kind < 20 ? 200 : 0));
  } else {
    if (kind < 2) return static_cast<T>((bits >> 8) % (std::uint64_t{std::numeric_limits<T>::max()}));
    if constexpr (std::is_signed_v<T>)
      if (kind < 80) return static_cast<T>(-static_cast<int>(bits % 50));
    if (bright) return static_cast<T>(bits % 23);
    return static_cast<T>(kind < 150 ? 0 : bits % 4);
  }
}

}  // namespace

std::string_view column_name(Column column) {
  constexpr std::string_view kNames[] = {"cpu dense", "cpu encoded", "cuda dense", "cuda encoded"};
  return kNames[static_cast<std::size_t>(column)];
}
std::string_view expect_name(Expect expect) {
  constexpr std::string_view kNames[] = {"runs", "invalid", "wrong dtype", "unsupported"};
  return kNames[static_cast<std::size_t>(expect)];
}

Truth make_truth(const Shape4& shape, Dtype dtype, std::uint64_t seed, bool at_the_top) {
  Truth t{shape,
          dtype,
          Buffer(shape.n_values() * item_bytes(dtype)),
          std::vector<double>(shape.n_values()),
          BitMask(shape.frame_pixels(), true),
          BitMask(shape.n_positions(), true),
          seed};
  // Some bad pixels and missing positions where there are enough of either.
  if (shape.frame_pixels() > 8)
    for (const std::uint64_t p : {std::uint64_t{3}, shape.frame_pixels() / 2, shape.frame_pixels() - 1})
      t.valid_pixels.set(p, false);
  if (shape.n_positions() > 4)
    for (const std::uint64_t n : {std::uint64_t{1}, shape.n_positions() / 3}) t.valid_positions.set(n, false);
  const std::uint64_t frame = shape.frame_pixels();
  visit_count_dtype(dtype, [&]<class T>() {
    const auto counts = t.counts.as<T>();
    for (std::uint64_t i = 0; i < shape.n_values(); ++i) {
      const std::uint64_t p = i % frame;
      const double r = static_cast<double>(p / shape.det.cols) - 0.45 * shape.det.rows;
      const double c = static_cast<double>(p % shape.det.cols) - 0.5 * shape.det.cols;
      const std::uint64_t bits = support::splitmix64(seed * 0x100000001b3u + i);
      counts[i] = at_the_top && std::is_integral_v<T>
                      ? make_top_count<T>(bits)
                      : make_count<T>(bits, r * r + c * c < 0.04 * static_cast<double>(frame));
      if (i / frame == 2 && shape.n_positions() > 4) counts[i] = 0;  // a frame without counts
      if (t.valid_pixels[p] && t.valid_positions[i / frame]) t.values[i] = static_cast<double>(counts[i]);
    }
  });
  return t;
}

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> kShapes = {
      {"one of everything", {{1, 1}, {1, 1}}},
      {"a line scan, a small odd detector", {{1, 7}, {7, 9}}},
      {"511 positions: one block, not full", {{7, 73}, {13, 11}}},
      {"512 positions: one full block", {{16, 32}, {1, 64}}},
      {"513 positions: a block of one", {{27, 19}, {64, 1}}},
      {"detector sides that are no multiples of 8 or 32", {{3, 5}, {193, 191}}},
      {"a square detector of whole tiles", {{5, 13}, {96, 96}}},
      {"wider than tall, three blocks", {{23, 53}, {33, 40}}},
      {"a line of positions, 256 x 256 pixels", {{1, 3}, {256, 256}}},
      {"more than 2^19 pixels, neither side a multiple of a tile", {{1, 1}, {514, 1030}}},
      {"counts near the largest: sums over a frame pass 2^32", {{1, 1}, {256, 257}}, true},
      {"counts near the largest: sums over the positions pass 2^32", {{263, 257}, {2, 1}}, true},
      {"a small odd detector with 4x4 tiles", {{1, 7}, {7, 9}}, false, true},
      {"sides that are no multiples of a tile with 4x4 tiles", {{3, 5}, {193, 191}}, false, true},
      {"whole 4x4 tiles", {{5, 13}, {96, 96}}, false, true},
  };
  return kShapes;
}

const std::vector<Dtype>& dtypes() {
  static const std::vector<Dtype> kDtypes = {Dtype::u8, Dtype::u16, Dtype::u32, Dtype::i16, Dtype::i32, Dtype::f32};
  return kDtypes;
}

}  // namespace quantem::parity
