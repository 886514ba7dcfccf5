// Sums of forms over blocks: planes are gathered a step ahead of the step that adds them, so that they come from memory meanwhile. The other kernels
// stand in the -inl.h files beside.

#include "quantem/detector/slice_kernels.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "quantem/detector/slice_scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quantem/detector/slice_kernels_cpu.cpp"
#include <hwy/foreach_target.h>  // compiles this file once for each SIMD target
#include <hwy/highway.h>

#include "quantem/detector/slice_adders-inl.h"
#include "quantem/detector/slice_moments-inl.h"
#include "quantem/detector/slice_patterns-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quantem::detector_detail::HWY_NAMESPACE {

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

}  // namespace quantem::detector_detail
#endif  // HWY_ONCE
