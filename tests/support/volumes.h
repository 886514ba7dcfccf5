#pragma once
// Generated volumes for tests of encoded storage: counts that need both planes and lists, bad pixels, missing positions.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "quantem/detector/geometry.h"
#include "quantem/resident/volume.h"
#include "tests/support/random_counts.h"

namespace quantem::support {

struct VolumeCase {
  Shape4 shape;
  std::uint32_t seed;
  double mean;
  bool bad_pixels, missing;
  bool tiles_4 = false;
};

// The counts of a case: where there are more than two positions, the frame in the middle is without counts.
template <class T>
std::vector<T> counts_of(const VolumeCase& c) {
  std::vector<T> out = random_counts<T>(c.shape.n_values(), c.seed, c.mean);
  const std::uint64_t frame = c.shape.frame_pixels(), empty = c.shape.n_positions() / 2;
  if (c.shape.n_positions() > 2) std::fill_n(out.begin() + static_cast<std::ptrdiff_t>(empty * frame), frame, T{0});
  return out;
}

// Pixel 0 is bad where a case has bad pixels; position 0 always has a frame.
inline FromArrayOptions options_of(const VolumeCase& c) {
  FromArrayOptions o;
  std::mt19937 random(c.seed + 100);
  if (c.bad_pixels) {
    o.valid_pixels = BitMask(c.shape.frame_pixels(), true);
    for (std::uint64_t p = 0; p < c.shape.frame_pixels(); ++p)
      if (random() % 23 == 0 || p == 0) o.valid_pixels.set(p, false);
  }
  if (c.missing) {
    o.valid_positions = BitMask(c.shape.n_positions(), true);
    for (std::uint64_t n = 1; n < c.shape.n_positions(); ++n)
      if (random() % 9 == 0) o.valid_positions.set(n, false);
  }
  return o;
}

// The same counts twice: dense on the CPU, which says what is right, and encoded on `device`.
struct Twins {
  Volume dense, encoded;
};
template <class T>
Result<Twins> make_twins(const VolumeCase& c, const Device& device) {
  const std::vector<T> values = counts_of<T>(c);
  const Shape4& s = c.shape;
  const ArrayView view{dtype_of<T>(), {s.scan.rows, s.scan.cols, s.det.rows, s.det.cols}, values.data()};
  FromArrayOptions o = options_of(c);
  o.representation = Representation::dense;
  QUANTEM_TRY_ASSIGN(cpu, open_device(Backend::cpu));
  QUANTEM_TRY_ASSIGN(dense, from_array(cpu, view, o));
  o.representation = Representation::encoded;
  o.tiles_4 = c.tiles_4;
  QUANTEM_TRY_ASSIGN(encoded, from_array(device, view, o));
  return Twins{dense, encoded};
}

// Masks of every kind of plan: a disc, annuli with and without an end, a half-plane, all, none, every second pixel or so.
inline std::vector<Mask> masks_of(Extent det) {
  const Point c{0.45 * (det.rows - 1), 0.55 * (det.cols - 1)};
  const double r = 0.3 * std::max(det.rows, det.cols) + 0.4;
  std::vector<Mask> masks{*disk(c, r, det),
                          *annulus(c, r, 1.7 * r, det),
                          *annulus(c, r, std::numeric_limits<double>::infinity(), det),
                          *half_plane(c, 20, det),
                          all_pixels(det),
                          *disk({-9999, 0}, 1, det)};
  Mask noise{det, BitMask(det.count()), {}};
  for (std::uint64_t p = 0; p < det.count(); ++p) noise.bits.set(p, p * 2654435761u >> 9 & 1);
  masks.push_back(noise);
  return masks;
}

inline std::vector<std::uint8_t> bytes_of(const HostArray& a) {
  return {a.as<std::uint8_t>().begin(), a.as<std::uint8_t>().end()};
}

}  // namespace quantem::support
