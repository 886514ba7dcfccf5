// Sums over detector pixels at each scan position, from bit-sliced storage: the planner says which streams, the kernels add
// them 512 positions at a time.

#include <bit>
#include <cstring>

#include "quantem/detector/sliced_cpu.h"

namespace quantem::detector_detail {
namespace {

// Sums over 512 positions go to the image, whose end may cut the last block.
void store(std::span<std::uint64_t> image, std::uint64_t block, const std::uint64_t* values) {
  const std::uint64_t first = block * kBlockPositions;
  std::memcpy(image.data() + first, values,
              std::min<std::uint64_t>(kBlockPositions, image.size() - first) * sizeof *values);
}

}  // namespace

Result<Done> run_forms(const Volume& volume, std::span<const SliceForm> forms,
                       std::span<const std::span<std::uint64_t>> images, const Job& job, const char* what) {
  const SlicedStorage& storage = *volume.sliced();
  return sweep(volume, job, what, storage.n_blocks(), [&](std::uint64_t b) {
    alignas(64) std::uint64_t values[kBlockPositions];
    for (std::size_t m = 0; m < forms.size(); ++m) {
      sum_form(storage.blocks[b], forms[m], values);
      store(images[m], b, values);
    }
  });
}

SliceForm form_of_weights(const Planner& planner, std::span<const std::int64_t> weights) {
  std::uint64_t any = 0;
  const auto magnitude = [](std::int64_t w) {
    return w < 0 ? 0 - static_cast<std::uint64_t>(w) : static_cast<std::uint64_t>(w);
  };
  for (const std::int64_t w : weights) any |= magnitude(w);
  SliceForm form;
  for (; any; any &= any - 1) {
    const int bit = std::countr_zero(any);
    BitMask plus(weights.size()), minus(weights.size());
    for (std::uint64_t p = 0; p < weights.size(); ++p)
      if (magnitude(weights[p]) >> bit & 1) (weights[p] < 0 ? minus : plus).set(p);
    form.push_back(group_of(planner.plan(plus, minus), static_cast<std::uint32_t>(bit)));
  }
  return form;
}

DetectorOps::Path masked_sums_sliced(const Volume& volume, std::span<const BitMask> masks,
                                     std::span<const std::span<std::uint64_t>> images, const Job& job) {
  const auto planner = cpu_planner(volume);
  std::vector<SliceForm> forms;
  for (const BitMask& mask : masks) forms.push_back({group_of(planner->plan(mask))});
  QUANTEM_TRY(run_forms(volume, forms, images, job, "masked_sum"));
  return std::string_view("cpu_sliced_masked_sum");
}

DetectorOps::Path weighted_sums_sliced(const Volume& volume, std::span<const std::span<const std::int64_t>> weights,
                                       std::span<const std::span<std::uint64_t>> images, const Job& job) {
  const auto planner = cpu_planner(volume);
  std::vector<SliceForm> forms;
  for (const auto& w : weights) forms.push_back(form_of_weights(*planner, w));
  QUANTEM_TRY(run_forms(volume, forms, images, job, "weighted_sum"));
  return std::string_view("cpu_sliced_weighted_sum");
}

namespace {

// A masked moment: 32x32 tiles whose sum and stored moments are taken whole, and pixels to add or, where a tile was taken
// whole and nearly all of it is wanted, to take away.
struct MomentPlan {
  SliceForm total, row, col;
  MomentPixels plus, minus;
  bool any_pixels = false;
};

// 2^bit * tile for the bits of the tile's first coordinate: the coarse part of a moment.
void add_coarse(std::vector<SliceGroup>& groups, std::uint32_t coordinate, std::uint32_t stream) {
  for (std::uint32_t bits = coordinate; bits; bits &= bits - 1) {
    const auto bit = static_cast<std::uint32_t>(std::countr_zero(bits));
    if (groups.size() <= bit) groups.resize(bit + 1);
    groups[bit].shift = bit;
    append_stream(groups[bit].plus, stream);
  }
}

void take_tile(MomentPlan& plan, const SlicedLayout& layout, std::uint32_t tile) {
  const Region r = layout.tile32_region(tile);
  append_stream(plan.total[0].plus, layout.tile32_stream(tile));
  add_coarse(plan.row, r.row_start, layout.tile32_stream(tile));
  add_coarse(plan.col, r.col_start, layout.tile32_stream(tile));
  append_stream(plan.row[0].plus, layout.row_moment_stream(tile));
  append_stream(plan.col[0].plus, layout.col_moment_stream(tile));
}

// Lines of pixel streams along rows, then along columns.
MomentPixels lines_of(const SlicedLayout& layout, const BitMask& pixels) {
  MomentPixels out;
  const Extent det = layout.det;
  for (std::uint32_t r = 0; r < det.rows; ++r) {
    MomentPixels::Line line{r, {}};
    for (std::uint32_t c = 0; c < det.cols; ++c)
      if (const std::uint64_t p = std::uint64_t{r} * det.cols + c; pixels[p])
        append_stream(line.runs, layout.stream_of_pixel[p]);
    if (!line.runs.empty()) out.rows.push_back(std::move(line));
  }
  for (std::uint32_t c = 0; c < det.cols; ++c) {
    MomentPixels::Line line{c, {}};
    for (std::uint32_t r = 0; r < det.rows; ++r)
      if (const std::uint64_t p = std::uint64_t{r} * det.cols + c; pixels[p])
        append_stream(line.runs, layout.stream_of_pixel[p]);
    if (!line.runs.empty()) out.cols.push_back(std::move(line));
  }
  return out;
}

MomentPlan plan_moments(const SlicedLayout& layout, const BitMask& selected, const BitMask& valid) {
  MomentPlan plan;
  for (SliceForm* f : {&plan.total, &plan.row, &plan.col}) f->resize(1);
  BitMask plus(selected.count()), minus(selected.count());
  for (std::uint32_t tile = 0; tile < layout.n_tiles32; ++tile) {
    const Region r = layout.tile32_region(tile);
    std::uint64_t n_in = 0, n_valid = 0;
    const auto each = [&](auto f) {
      for (std::uint32_t i = r.row_start; i < r.row_stop; ++i)
        for (std::uint32_t j = r.col_start; j < r.col_stop; ++j) f(std::uint64_t{i} * layout.det.cols + j);
    };
    each([&](std::uint64_t p) { n_in += selected[p], n_valid += valid[p]; });
    if (n_in == 0) continue;
    const bool whole = 2 * n_in > n_valid;
    if (whole) take_tile(plan, layout, tile);
    each([&](std::uint64_t p) {
      if (!whole && selected[p]) plus.set(p), plan.any_pixels = true;
      if (whole && valid[p] && !selected[p]) minus.set(p), plan.any_pixels = true;
    });
  }
  if (plan.any_pixels) plan.plus = lines_of(layout, plus), plan.minus = lines_of(layout, minus);
  return plan;
}

}  // namespace

DetectorOps::Path moment_sums_sliced(const Volume& volume, const BitMask& selected, std::span<std::uint64_t> total,
                                     std::span<std::uint64_t> row, std::span<std::uint64_t> col, const Job& job) {
  const SlicedStorage& storage = *volume.sliced();
  const MomentPlan plan = plan_moments(storage.layout, selected, volume.valid_pixels());
  QUANTEM_TRY(sweep(volume, job, "moment_sums", storage.n_blocks(), [&](std::uint64_t b) {
    alignas(64) std::uint64_t t[kBlockPositions], r[kBlockPositions], c[kBlockPositions];
    const SlicedBlock& block = storage.blocks[b];
    sum_form(block, plan.total, t);
    sum_form(block, plan.row, r);
    sum_form(block, plan.col, c);
    if (plan.any_pixels) {
      add_moments(block, plan.plus, false, t, r, c);
      add_moments(block, plan.minus, true, t, r, c);
    }
    store(total, b, t);
    store(row, b, r);
    store(col, b, c);
  }));
  return std::string_view(plan.any_pixels ? "cpu_sliced_moment_sums" : "cpu_sliced_stored_moments");
}

}  // namespace quantem::detector_detail
