#include "quantem/detector/slice_kernels.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quantem/detector/slice_kernels_cpu.cpp"
#include <hwy/foreach_target.h>  // compiles this file once for each SIMD target
#include <hwy/highway.h>

#ifndef QUANTEM_SLICE_COUNTER
#define QUANTEM_SLICE_COUNTER
namespace quantem::detector_detail {

inline constexpr std::uint32_t kWords = kBlockPositions / 64;  // u64 words of a plane
inline constexpr std::uint32_t kLevels = 64, kAllLevels = kLevels + 4, kQueued = 32;

// A bit-sliced number for each of 512 positions: sum[k] is plane k. Planes to be added wait in the queue of their level (as
// pointers to where they lie; carries lie in the slots) until 32 are there. Levels past 63 fall away: modulo 2^64.
struct Counter {
  alignas(64) std::uint64_t sum[kAllLevels][kWords];
  alignas(64) std::uint64_t slot[kAllLevels][kQueued][kWords];
  const std::uint64_t* queue[kAllLevels][kQueued];
  std::uint32_t n[kAllLevels];
  std::uint32_t top;  // planes below it may be set
};

// The planes of up to kChunk terms of one block and sign, by level, gathered before they are added: the gathering runs a step
// ahead, so that the next planes come from memory while the present ones are added.
inline constexpr std::uint32_t kChunk = 2048, kCarries = 1024;
struct Gathered {
  const std::uint64_t* planes[kAllLevels][kChunk + kCarries];
  std::uint32_t n[kAllLevels];
  std::uint32_t top;  // levels below it may have planes
};
// The lists of a form over one block, the empty ones left out.
struct ListRange {
  const std::uint16_t *begin, *stop;
  std::uint64_t weight;
};
struct Scratch {
  Counter line, total, row, col;
  Gathered gathered[2];
  std::vector<ListRange> lists[2];
  alignas(64) std::uint64_t moment_lists[4 * kBlockPositions];
  alignas(64) std::uint64_t sum[2][kAllLevels][kWords];  // plus, minus
  alignas(64) std::uint64_t carry[kAllLevels][kCarries][kWords];
};
// Memory of one thread, kept for its life. Only what is used of it is ever touched.
inline Scratch& scratch() {
  thread_local const std::unique_ptr<Scratch> memory = [] {
    auto made = std::make_unique_for_overwrite<Scratch>();
    for (Counter* c : {&made->line, &made->total, &made->row, &made->col}) {
      std::memset(c->n, 0, sizeof c->n);
      c->top = kAllLevels;  // start() clears all sums
    }
    return made;
  }();
  return *memory;
}
alignas(64) inline constexpr std::uint64_t kNoBits[kWords] = {};

}  // namespace quantem::detector_detail
#endif

HWY_BEFORE_NAMESPACE();
namespace quantem::detector_detail::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::CappedTag<std::uint64_t, kWords>;
using V = hn::Vec<D>;

// sum and carry of three planes; `a` becomes the sum, one operation after it is known.
HWY_INLINE V add3(V& a, V b, V c) {
  const V either = hn::Xor(b, c);
  const V carry = hn::Or(hn::And(b, c), hn::And(a, either));
  a = hn::Xor(a, either);
  return carry;
}

// Eight planes into the three lowest planes of a sum; the carry weighs eight.
HWY_INLINE V add8(V& s1, V& s2, V& s4, const std::uint64_t* const* x, std::uint32_t o) {
  const D d;
  const V two0 = add3(s1, hn::LoadU(d, x[0] + o), hn::LoadU(d, x[1] + o));
  const V two1 = add3(s1, hn::LoadU(d, x[2] + o), hn::LoadU(d, x[3] + o));
  const V four0 = add3(s2, two0, two1);
  const V two2 = add3(s1, hn::LoadU(d, x[4] + o), hn::LoadU(d, x[5] + o));
  const V two3 = add3(s1, hn::LoadU(d, x[6] + o), hn::LoadU(d, x[7] + o));
  const V four1 = add3(s2, two2, two3);
  return add3(s4, four0, four1);
}

void add_queue(Counter& c, std::uint32_t level);

HWY_INLINE void add_plane(Counter& c, std::uint32_t level, const std::uint64_t* plane) {
  c.queue[level][c.n[level]] = plane;
  if (++c.n[level] == kQueued) add_queue(c, level);
}

HWY_INLINE bool any_bit(const std::uint64_t* plane) {
  std::uint64_t any = 0;
  for (std::uint32_t i = 0; i < kWords; ++i) any |= plane[i];
  return any != 0;
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

// Sixteen 32x32 bit transposes side by side: lane k of row i is word k of plane i before, the value of position 32 k + i after.
template <int kShift>
HWY_INLINE void transpose_stage(std::uint32_t (*rows)[16], std::uint32_t mask) {
  const hn::CappedTag<std::uint32_t, 16> d;
  const auto m = hn::Set(d, mask);
  for (std::uint32_t k = 0; k < 32; k = (k + kShift + 1) & ~std::uint32_t{kShift})
    for (std::uint32_t o = 0; o < 16; o += static_cast<std::uint32_t>(hn::Lanes(d))) {
      const auto lo = hn::Load(d, rows[k] + o), hi = hn::Load(d, rows[k + kShift] + o);
      const auto swap = hn::And(hn::Xor(hn::ShiftRight<kShift>(lo), hi), m);
      hn::Store(hn::Xor(lo, hn::ShiftLeft<kShift>(swap)), d, rows[k] + o);
      hn::Store(hn::Xor(hi, swap), d, rows[k + kShift] + o);
    }
}

// values[i] += or -= the bit-sliced number at position i.
void add_values(const std::uint64_t (*sum)[kWords], std::uint32_t n_planes, bool minus, std::uint64_t* values) {
  for (std::uint32_t base = 0; base < n_planes; base += 32) {
    const std::uint32_t n = std::min(n_planes - base, 32u);
    alignas(64) std::uint32_t rows[32][16];
    std::memcpy(rows, sum[base], n * sizeof rows[0]);
    std::memset(rows + n, 0, (32 - n) * sizeof rows[0]);
    transpose_stage<16>(rows, 0x0000ffffu);
    transpose_stage<8>(rows, 0x00ff00ffu);
    transpose_stage<4>(rows, 0x0f0f0f0fu);
    transpose_stage<2>(rows, 0x33333333u);
    transpose_stage<1>(rows, 0x55555555u);
    for (std::uint32_t k = 0; k < 16; ++k)
      for (std::uint32_t i = 0; i < 32; ++i) {
        const std::uint64_t v = std::uint64_t{rows[i][k]} << base;
        values[32 * k + i] += minus ? 0 - v : v;
      }
  }
}

HWY_INLINE void prefetch(const void* at) {
  __builtin_prefetch(at, 0, 3);
}

// Terms [first, stop) of a form over one block. The directory of the block after it is asked for on the way.
void gather(Gathered& g, const SlicedBlock& block, const SlicedBlock* next, const SliceForm::Term* first,
            const SliceForm::Term* stop) {
  std::memset(g.n, 0, sizeof g.n);
  g.top = 0;
  for (const SliceForm::Term* t = first; t < stop; ++t) {
    if (next) prefetch(next->entry + t->stream);
    const std::uint32_t width = std::min(block.width(t->stream), kLevels - t->shift);
    const auto* plane = reinterpret_cast<const std::uint64_t*>(block.stream_planes(t->stream));
    // The first four without a branch: most pixels have fewer, no two neighbours alike.
    for (std::uint32_t k = 0; k < 4; ++k) {
      const std::uint32_t level = t->shift + k;
      g.planes[level][g.n[level]] = plane + k * kWords;
      g.n[level] += k < width;
    }
    for (std::uint32_t k = 4; k < width; ++k) {
      const std::uint32_t level = t->shift + k;
      g.planes[level][g.n[level]++] = plane + k * kWords;
    }
    g.top = std::max(g.top, t->shift + width);
  }
}

// The same for the lists.
void gather_lists(std::vector<ListRange>& lists, const SlicedBlock& block, const SlicedBlock* next,
                  std::span<const SliceForm::ListRun> runs) {
  lists.resize(runs.size());
  std::size_t n = 0;
  for (const SliceForm::ListRun& run : runs) {
    if (next) prefetch(next->list_end + run.first);
    const ListRange range{block.list_begin(run.first), block.list_stop(run.stop - 1), run.weight};
    prefetch(range.begin);
    lists[n] = range;
    n += range.begin < range.stop;
  }
  lists.resize(n);
}

// Walks over the planes of the next step, a few at a time, and asks for them.
struct Ahead {
  const Gathered* next;
  std::uint32_t level = 0, i = 0;
  HWY_INLINE void ask(std::uint32_t n) {
    while (next && n) {
      if (level >= next->top) return;
      if (i >= next->n[level]) {
        ++level, i = 0;
        continue;
      }
      prefetch(next->planes[level][i++]);
      --n;
    }
  }
};

// Adds one level's planes to the sum, eight at a time, batch by batch; carries join the level three up.
void add_level(Gathered& g, std::uint32_t level, std::uint64_t (*sum)[kWords], std::uint64_t (*carry)[kCarries][kWords],
               Ahead& ahead) {
  const D d;
  constexpr std::uint32_t kBatch = 8;
  const std::uint32_t groups = (g.n[level] + 7) / 8;
  for (std::uint32_t i = g.n[level]; i < groups * 8; ++i) g.planes[level][i] = kNoBits;
  for (std::uint32_t first = 0; first < groups; first += kBatch) {
    const std::uint32_t stop = std::min(groups, first + kBatch);
    ahead.ask(8 * (stop - first) + 8);
    for (std::uint32_t o = 0; o < kWords; o += static_cast<std::uint32_t>(hn::Lanes(d))) {
      V s1 = hn::Load(d, sum[level] + o), s2 = hn::Load(d, sum[level + 1] + o), s4 = hn::Load(d, sum[level + 2] + o);
      for (std::uint32_t k = first; k < stop; ++k)
        hn::Store(add8(s1, s2, s4, g.planes[level] + 8 * k, o), d, carry[level][k] + o);
      hn::Store(s1, d, sum[level] + o);
      hn::Store(s2, d, sum[level + 1] + o);
      hn::Store(s4, d, sum[level + 2] + o);
    }
  }
  for (std::uint32_t k = 0; k < groups; ++k)
    if (any_bit(carry[level][k])) {
      g.planes[level + 3][g.n[level + 3]++] = carry[level][k];
      g.top = std::max(g.top, level + 4);
    }
}

void add_gathered(Gathered& g, std::uint64_t (*sum)[kWords], std::uint64_t (*carry)[kCarries][kWords],
                  const Gathered* next) {
  Ahead ahead{next};
  for (std::uint32_t level = 0; level < std::min(g.top, kLevels); ++level)
    if (g.n[level]) add_level(g, level, sum, carry, ahead);
  ahead.ask(~0u);
}

// One step of the walk over blocks, forms and signs: up to kChunk terms.
struct Step {
  const SlicedBlock* block;
  const SliceForm::Term *first, *stop;
  std::uint32_t form, minus;
  bool first_of_form, last_of_form;
};
std::vector<Step> steps_of(std::span<const SlicedBlock> blocks, std::span<const SliceForm> forms) {
  std::vector<Step> steps;
  for (const SlicedBlock& block : blocks)
    for (std::uint32_t m = 0; m < forms.size(); ++m) {
      const std::size_t first = steps.size();
      for (std::uint32_t minus = 0; minus < 2; ++minus) {
        const auto& terms = minus ? forms[m].minus : forms[m].plus;
        for (std::size_t at = 0; at < terms.size(); at += kChunk)
          steps.push_back(
              {&block, terms.data() + at, terms.data() + std::min(terms.size(), at + kChunk), m, minus, false, false});
      }
      if (steps.size() == first)
        steps.push_back({&block, nullptr, nullptr, m, 0, false, false});  // it still writes zeros
      steps[first].first_of_form = true;
      steps.back().last_of_form = true;
    }
  return steps;
}

void finish_form(const std::vector<ListRange>& lists, std::uint64_t (*sum)[kAllLevels][kWords], std::uint64_t* values) {
  std::memset(values, 0, kBlockPositions * sizeof *values);
  for (const ListRange& range : lists)
    for (const std::uint16_t* e = range.begin; e < range.stop; ++e)
      values[listed_position(*e)] += range.weight << listed_plane(*e);
  for (std::uint32_t minus = 0; minus < 2; ++minus) {
    std::uint32_t n_planes = kLevels;
    while (n_planes && !any_bit(sum[minus][n_planes - 1])) --n_planes;
    add_values(sum[minus], n_planes, minus != 0, values);
    std::memset(sum[minus], 0, sizeof sum[minus]);
  }
}

void sum_forms(std::span<const SlicedBlock> blocks, std::span<const SliceForm> forms,
               std::span<const std::span<std::uint64_t>> images) {
  Scratch& s = scratch();
  std::memset(s.sum, 0, sizeof s.sum);
  const std::vector<Step> steps = steps_of(blocks, forms);
  std::size_t n_gathered = 0, n_finished = 0;  // forms over blocks: the lists take turns in two places
  const auto gather_step = [&](std::size_t i) {
    const SlicedBlock* next = steps[i].block + 1 < blocks.data() + blocks.size() ? steps[i].block + 1 : nullptr;
    if (steps[i].first_of_form)
      gather_lists(s.lists[n_gathered++ % 2], *steps[i].block, next, forms[steps[i].form].lists);
    gather(s.gathered[i % 2], *steps[i].block, next, steps[i].first, steps[i].stop);
  };
  if (!steps.empty()) gather_step(0);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    const bool more = i + 1 < steps.size();
    if (more) gather_step(i + 1);
    add_gathered(s.gathered[i % 2], s.sum[step.minus], s.carry, more ? &s.gathered[(i + 1) % 2] : nullptr);
    if (!step.last_of_form) continue;
    const std::uint64_t at = static_cast<std::uint64_t>(step.block - blocks.data()) * kBlockPositions;
    const std::span<std::uint64_t> image = images[step.form].subspan(at);
    const std::vector<ListRange>& lists = s.lists[n_finished++ % 2];
    if (image.size() >= kBlockPositions) {
      finish_form(lists, s.sum, image.data());
    } else {
      std::uint64_t values[kBlockPositions];
      finish_form(lists, s.sum, values);
      std::copy(values, values + image.size(), image.begin());
    }
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

HWY_INLINE std::uint64_t count_bits(const std::uint64_t* plane, const std::uint64_t* positions) {
#if HWY_TARGET <= HWY_AVX3_DL
  const D d;
  const V v = hn::LoadU(d, plane);
  return hn::GetLane(hn::SumOfLanes(d, hn::PopulationCount(positions ? hn::And(v, hn::LoadU(d, positions)) : v)));
#else
  std::uint64_t n = 0;
  for (std::uint32_t i = 0; i < kWords; ++i)
    n += static_cast<std::uint64_t>(std::popcount(positions ? plane[i] & positions[i] : plane[i]));
  return n;
#endif
}

// Sum of 1 << plane over a list. Vectors read past its end, as far as `limit`; what lies past the end is masked out.
HWY_INLINE std::uint64_t list_sum(const std::uint16_t* e, const std::uint16_t* stop, const std::uint16_t* limit) {
  std::uint64_t sum = 0;
  // Lists are ordered by plane: the last entry says whether 255 of them fit 32 bits.
  if (e < stop && listed_plane(stop[-1]) < 24) {
    const hn::CappedTag<std::uint32_t, 8> d;
    const hn::Rebind<std::uint16_t, decltype(d)> narrow;
    const auto n_lanes = static_cast<std::uint32_t>(hn::Lanes(d));
    auto sums = hn::Zero(d);
    for (; e < stop && e + n_lanes <= limit; e += n_lanes) {
      const auto plane = hn::ShiftRight<11>(hn::PromoteTo(d, hn::LoadU(narrow, e)));
      const auto in = hn::Lt(hn::Iota(d, 0), hn::Set(d, static_cast<std::uint32_t>(stop - e)));
      sums = hn::Add(sums, hn::IfThenElseZero(in, hn::Shl(hn::Set(d, 1), plane)));
    }
    sum = hn::GetLane(hn::SumOfLanes(d, sums));
  }
  for (; e < stop; ++e) sum += std::uint64_t{1} << listed_plane(*e);
  return sum;
}

HWY_INLINE std::uint64_t list_sum_at(const std::uint16_t* e, const std::uint16_t* stop,
                                     const std::uint64_t* positions) {
  std::uint64_t sum = 0;
  for (; e < stop; ++e) {
    const std::uint32_t at = listed_position(*e);
    sum += (positions[at / 64] >> (at % 64) & 1) << listed_plane(*e);
  }
  return sum;
}

void add_stream_sums(const SlicedBlock& block, std::uint32_t n_streams, std::uint32_t first, std::uint32_t stop,
                     const std::uint64_t* positions, std::uint64_t* sums) {
  constexpr std::uint32_t kAlways = 3;
  const std::uint16_t *list = block.list_begin(first), *limit = block.list_stop(n_streams - 1);
  const auto* planes_stop =
      reinterpret_cast<const std::uint64_t*>(block.stream_planes(n_streams - 1)) + block.width(n_streams - 1) * kWords;
  for (std::uint32_t s = first; s < stop; ++s) {
    const auto* plane = reinterpret_cast<const std::uint64_t*>(block.stream_planes(s));
    const std::uint32_t width = block.width(s);
    std::uint64_t sum = 0;
    std::uint32_t k = 0;
    // Most pixels have two planes, one more or one less: three are counted without a branch, what is not theirs is dropped.
    if (plane + kAlways * kWords <= planes_stop)
      for (; k < kAlways; ++k) sum += (k < width ? count_bits(plane + k * kWords, positions) : 0) << k;
    for (; k < width; ++k) sum += count_bits(plane + k * kWords, positions) << k;
    const std::uint16_t* list_stop = block.list_stop(s);
    sum += positions ? list_sum_at(list, list_stop, positions) : list_sum(list, list_stop, limit);
    list = list_stop;
    sums[s - first] += sum;
  }
}

}  // namespace quantem::detector_detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quantem::detector_detail {

HWY_EXPORT(sum_forms);
HWY_EXPORT(add_moments);
HWY_EXPORT(add_stream_sums);

void sum_forms(std::span<const SlicedBlock> blocks, std::span<const SliceForm> forms,
               std::span<const std::span<std::uint64_t>> images) {
  HWY_DYNAMIC_DISPATCH(sum_forms)(blocks, forms, images);
}
void add_moments(const SlicedBlock& block, const MomentPixels& pixels, bool minus, std::uint64_t* total,
                 std::uint64_t* row, std::uint64_t* col) {
  HWY_DYNAMIC_DISPATCH(add_moments)(block, pixels, minus, total, row, col);
}
void add_stream_sums(const SlicedBlock& block, std::uint32_t n_streams, std::uint32_t first, std::uint32_t stop,
                     const std::uint64_t* positions, std::uint64_t* sums) {
  HWY_DYNAMIC_DISPATCH(add_stream_sums)(block, n_streams, first, stop, positions, sums);
}

SliceForm form_of(std::span<const WeightedStream> streams) {
  SliceForm form;
  for (const auto& [stream, weight] : streams) {
    if (weight == 0) continue;
    // Non-adjacent form: the fewest signed powers of two, a third of the bits on average.
    const bool negative = weight < 0;
    const std::uint64_t w = negative ? 0 - static_cast<std::uint64_t>(weight) : static_cast<std::uint64_t>(weight);
    const std::uint64_t half = w >> 1, sum = w + half, changed = half ^ sum;
    for (std::uint64_t bits = sum & changed; bits; bits &= bits - 1)
      (negative ? form.minus : form.plus).push_back({stream, static_cast<std::uint32_t>(std::countr_zero(bits))});
    for (std::uint64_t bits = half & changed; bits; bits &= bits - 1)
      (negative ? form.plus : form.minus).push_back({stream, static_cast<std::uint32_t>(std::countr_zero(bits))});
    const auto list_weight = static_cast<std::uint64_t>(weight);
    if (!form.lists.empty() && form.lists.back().stop == stream && form.lists.back().weight == list_weight)
      ++form.lists.back().stop;
    else
      form.lists.push_back({stream, stream + 1, list_weight});
  }
  return form;
}

SliceForm form_of(const MaskPlan& plan) {
  std::vector<WeightedStream> streams;
  streams.reserve(plan.terms.size());
  for (const PlanTerm& t : plan.terms) streams.push_back({t.stream, t.sign});
  return form_of(streams);
}

}  // namespace quantem::detector_detail
#endif  // HWY_ONCE
