// First moments from pixels, for one SIMD target (foreach_target includes this several times): the planes of a line of pixels are counted, and
// the line's sum enters the total and, times its coordinate, its moment.

#if defined(QUANTEM_DETECTOR_SLICE_MOMENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUANTEM_DETECTOR_SLICE_MOMENTS_INL_H_
#undef QUANTEM_DETECTOR_SLICE_MOMENTS_INL_H_
#else
#define QUANTEM_DETECTOR_SLICE_MOMENTS_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cstring>

#include "hwy/highway.h"
#include "quantem/detector/slice_adders-inl.h"
#include "quantem/detector/slice_kernels.h"
#include "quantem/detector/slice_scratch.h"

HWY_BEFORE_NAMESPACE();
namespace quantem::detector_detail::HWY_NAMESPACE {

void add_queue(Counter& c, std::uint32_t level);

HWY_INLINE void add_plane(Counter& c, std::uint32_t level, const std::uint64_t* plane) {
  c.queue[level][c.n[level]] = plane;
  if (++c.n[level] == kQueued) add_queue(c, level);
}

// A plane that will not stay where it is.
HWY_INLINE void add_copy(Counter& c, std::uint32_t level, const std::uint64_t* plane) {
  if (level >= kLevels) return;
  std::uint64_t* slot = c.slot[level][c.n[level]];
  if (slot != plane) std::memcpy(slot, plane, kPlaneBytes);
  add_plane(c, level, slot);
}

// Two waiting planes or one: a single adder, the carry goes up one level.
void add_pair(Counter& c, std::uint32_t level) {
  const D d;
  const std::uint64_t* x = c.queue[level][0];
  const std::uint64_t* y = c.n[level] > 1 ? c.queue[level][1] : kNoBits;
  c.n[level] = 0;
  alignas(64) std::uint64_t up[kWords];
  for (std::uint32_t o = 0; o < kWords; o += static_cast<std::uint32_t>(hn::Lanes(d))) {
    V s = hn::Load(d, c.sum[level] + o);
    const V carry = add3(s, hn::LoadU(d, x + o), hn::LoadU(d, y + o));
    hn::Store(s, d, c.sum[level] + o);
    hn::Store(carry, d, up + o);
  }
  c.top = std::max(c.top, level + 1);
  if (any_bit(up)) add_copy(c, level + 1, up);
}

// Adds all waiting planes of a level, eight at a time: seven adders, one carry three levels up.
void add_queue(Counter& c, std::uint32_t level) {
  if (level >= kLevels) {
    c.n[level] = 0;
    return;
  }
  const std::uint32_t groups = (c.n[level] + 7) / 8;
  for (std::uint32_t i = c.n[level]; i < groups * 8; ++i) c.queue[level][i] = kNoBits;
  c.n[level] = 0;
  if (c.n[level + 3] + groups > kQueued) add_queue(c, level + 3);
  const D d;
  const std::uint32_t first = c.n[level + 3];
  std::uint64_t(*up)[kWords] = c.slot[level + 3] + first;
  for (std::uint32_t o = 0; o < kWords; o += static_cast<std::uint32_t>(hn::Lanes(d))) {
    V s1 = hn::Load(d, c.sum[level] + o), s2 = hn::Load(d, c.sum[level + 1] + o),
      s4 = hn::Load(d, c.sum[level + 2] + o);
    for (std::uint32_t g = 0; g < groups; ++g) {
      const std::uint64_t* const* x = c.queue[level] + 8 * g;
      hn::Store(add8(s1, s2, s4, x, o), d, up[g] + o);
    }
    hn::Store(s1, d, c.sum[level] + o);
    hn::Store(s2, d, c.sum[level + 1] + o);
    hn::Store(s4, d, c.sum[level + 2] + o);
  }
  c.top = std::max(c.top, level + 3);
  // Carries without a bit are dropped; the others move up so that slot and place in the queue agree.
  for (std::uint32_t g = 0; g < groups; ++g)
    if (any_bit(up[g])) add_copy(c, level + 3, up[g]);
}

void start(Counter& c) {
  std::memset(c.sum, 0, c.top * sizeof c.sum[0]);
  c.top = 0;
}

// Nothing waits any more; returns the number of planes.
std::uint32_t finish(Counter& c) {
  for (std::uint32_t level = 0; level < kLevels; ++level) {
    while (c.n[level]) c.n[level] <= 2 ? add_pair(c, level) : add_queue(c, level);
  }
  for (std::uint32_t level = kLevels; level < kAllLevels; ++level) c.n[level] = 0;
  std::uint32_t n_planes = std::min(c.top, kLevels);
  while (n_planes && !any_bit(c.sum[n_planes - 1])) --n_planes;
  return n_planes;
}

HWY_INLINE void add_planes(Counter& c, const SlicedBlock& block, const MomentPixels::Run& run) {
  for (std::uint32_t s = run.first; s < run.stop; ++s) {
    const std::uint32_t width = block.width(s);
    const auto* plane = reinterpret_cast<const std::uint64_t*>(block.stream_planes(s));
    for (std::uint32_t k = 0; k < width; ++k) add_plane(c, k, plane + k * kWords);
  }
}

// The sum of a line of pixels, as planes, enters the total and, times its coordinate, its moment.
void add_line(const SlicedBlock& block, const MomentPixels::Line& line, Counter& sum, Counter* total, Counter& moment) {
  start(sum);
  for (const MomentPixels::Run& run : line.runs) add_planes(sum, block, run);
  const std::uint32_t n_planes = finish(sum);
  for (std::uint32_t k = 0; k < n_planes; ++k) {
    if (total) add_copy(*total, k, sum.sum[k]);
    for (std::uint32_t bits = line.coordinate; bits; bits &= bits - 1)
      add_copy(moment, k + static_cast<std::uint32_t>(std::countr_zero(bits)), sum.sum[k]);
  }
}

// Listed bits of pixels give to all three sums at once: sums[4 i] of position i is (total, row, col, 0).
void add_moment_lists(const SlicedBlock& block, const MomentPixels& pixels, std::uint64_t* sums) {
  const hn::CappedTag<std::uint64_t, 4> d;
  for (const MomentPixels::Line& line : pixels.rows)
    for (const MomentPixels::Run& run : line.runs) {
      const std::uint16_t* e = block.list_begin(run.first);
      for (std::uint32_t s = run.first; s < run.stop; ++s) {
        alignas(32) const std::uint64_t weights[4] = {1, line.coordinate, run.start + (s - run.first), 0};
        for (const std::uint16_t* stop = block.list_stop(s); e < stop; ++e) {
          std::uint64_t* at = sums + 4 * listed_position(*e);
          for (std::uint32_t o = 0; o < 4; o += static_cast<std::uint32_t>(hn::Lanes(d))) {
            const auto give = hn::ShiftLeftSame(hn::Load(d, weights + o), static_cast<int>(listed_plane(*e)));
            hn::Store(hn::Add(hn::Load(d, at + o), give), d, at + o);
          }
        }
      }
    }
}

void add_moments(const SlicedBlock& block, const MomentPixels& pixels, bool minus, std::uint64_t* total,
                 std::uint64_t* row, std::uint64_t* col) {
  Scratch& s = scratch();
  for (Counter* c : {&s.total, &s.row, &s.col}) start(*c);
  for (const MomentPixels::Line& line : pixels.rows) add_line(block, line, s.line, &s.total, s.row);
  for (const MomentPixels::Line& line : pixels.cols) add_line(block, line, s.line, nullptr, s.col);
  add_values(s.total.sum, finish(s.total), minus, total);
  add_values(s.row.sum, finish(s.row), minus, row);
  add_values(s.col.sum, finish(s.col), minus, col);
  std::memset(s.moment_lists, 0, sizeof s.moment_lists);
  add_moment_lists(block, pixels, s.moment_lists);
  for (std::uint32_t i = 0; i < kBlockPositions; ++i) {
    const std::uint64_t* at = s.moment_lists + 4 * i;
    total[i] += minus ? 0 - at[0] : at[0];
    row[i] += minus ? 0 - at[1] : at[1];
    col[i] += minus ? 0 - at[2] : at[2];
  }
}

}  // namespace quantem::detector_detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
