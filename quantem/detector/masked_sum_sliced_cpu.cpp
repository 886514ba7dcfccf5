// Sums over detector pixels at each scan position, from bit-sliced storage: the planner says which streams, the kernels add
// them 512 positions at a time.

#include "quantem/detector/sliced_cpu.h"
#include "quantem/detector/sum_plan.h"

namespace quantem::detector_detail {
namespace {

// A part is a few blocks that follow each other: the kernels fetch a block's planes while they add those of the one before.
constexpr std::uint64_t kBlocksPerPart = 8;
std::uint64_t parts_of_blocks(std::uint64_t n_blocks) {
  return (n_blocks + kBlocksPerPart - 1) / kBlocksPerPart;
}

// The image's positions of n_blocks blocks from `first` on; the image's end may cut the last block.
std::span<std::uint64_t> positions_of_part(std::span<std::uint64_t> image, std::uint64_t first,
                                           std::uint64_t n_blocks) {
  const std::uint64_t at = first * kBlockPositions;
  return image.subspan(at, std::min<std::uint64_t>(n_blocks * kBlockPositions, image.size() - at));
}

}  // namespace

Result<Done> run_forms(const Volume& volume, std::span<const SliceForm> forms,
                       std::span<const std::span<std::uint64_t>> images, const Job& job, const char* what) {
  const std::span<const SlicedBlock> blocks = volume.sliced()->blocks;
  return sweep(volume, job, what, parts_of_blocks(blocks.size()), [&](std::uint64_t part) {
    const std::uint64_t first = part * kBlocksPerPart;
    const std::span<const SlicedBlock> mine = blocks.subspan(first, std::min(kBlocksPerPart, blocks.size() - first));
    std::vector<std::span<std::uint64_t>> at;
    for (const auto& image : images) at.push_back(positions_of_part(image, first, mine.size()));
    sum_forms(mine, forms, at);
  });
}

SliceForm form_of_weights(const Planner& planner, std::span<const std::int64_t> weights) {
  std::vector<WeightedStream> streams(planner.layout().n_streams);
  for (std::uint32_t s = 0; s < streams.size(); ++s) streams[s].stream = s;
  for (const SumTerm& t : terms_of_weights(planner, weights)) streams[t.stream].weight += t.weight;
  return form_of(streams);
}

DetectorOps::Path masked_sums_sliced(const Volume& volume, std::span<const BitMask> masks,
                                     std::span<const std::span<std::uint64_t>> images, const Job& job) {
  const auto planner = cpu_planner(volume);
  std::vector<SliceForm> forms;
  for (const BitMask& mask : masks) forms.push_back(form_of(planner->plan(mask)));
  QUANTEM_TRY(run_forms(volume, forms, images, job, "masked_sum"));
  return std::string_view("cpu_sliced_masked_sum");
}

DetectorOps::Path move_sum_sliced(const Volume& volume, const BitMask& from, const BitMask& to,
                                  std::span<std::uint64_t> image, const Job& job) {
  const auto planner = cpu_planner(volume);
  const MaskPlan anew = planner->plan(to), change = planner->plan_change(from, to);
  if (anew.cost <= change.cost) {
    const SliceForm form = form_of(anew);
    QUANTEM_TRY(run_forms(volume, {&form, 1}, {&image, 1}, job, "masked_sum"));
    return std::string_view("cpu_sliced_masked_sum");
  }
  const SliceForm form = form_of(change);
  std::vector<std::uint64_t> difference(image.size());
  const std::span<std::uint64_t> span(difference);
  QUANTEM_TRY(run_forms(volume, {&form, 1}, {&span, 1}, job, "masked_sum"));
  for (std::size_t n = 0; n < image.size(); ++n) image[n] += difference[n];
  return std::string_view("cpu_sliced_moved_sum");
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
  std::vector<WeightedStream> total, row, col;
  MomentPixels plus, minus;
  bool any_pixels = false;
};

// Streams ascend: sums of tiles come before their moments.
void take_tiles(MomentPlan& plan, const SlicedLayout& layout, const std::vector<std::uint32_t>& tiles) {
  for (const std::uint32_t tile : tiles) {
    const Region r = layout.tile32_region(tile);
    const std::uint32_t stream = layout.tile32_stream(tile);
    plan.total.push_back({stream, 1});
    plan.row.push_back({stream, std::int64_t{r.row_start}});
    plan.col.push_back({stream, std::int64_t{r.col_start}});
  }
  for (const std::uint32_t tile : tiles) {
    plan.row.push_back({layout.row_moment_stream(tile), 1});
    plan.col.push_back({layout.col_moment_stream(tile), 1});
  }
}

// Lines of pixel streams along rows, then along columns.
MomentPixels lines_of(const SlicedLayout& layout, const BitMask& pixels) {
  MomentPixels out;
  const auto add_line = [&](std::vector<MomentPixels::Line>& lines, std::uint32_t coordinate, std::uint32_t n,
                            auto pixel_at) {
    MomentPixels::Line line{coordinate, {}};
    for (std::uint32_t i = 0; i < n; ++i) {
      const std::uint64_t p = pixel_at(i);
      if (!pixels[p]) continue;
      const std::uint32_t stream = layout.stream_of_pixel[p];
      if (!line.runs.empty() && line.runs.back().stop == stream)
        ++line.runs.back().stop;
      else
        line.runs.push_back({stream, stream + 1, i});
    }
    if (!line.runs.empty()) lines.push_back(std::move(line));
  };
  const std::uint64_t n_cols = layout.det.cols;
  for (std::uint32_t r = 0; r < layout.det.rows; ++r)
    add_line(out.rows, r, layout.det.cols, [&](std::uint32_t c) { return r * n_cols + c; });
  for (std::uint32_t c = 0; c < layout.det.cols; ++c)
    add_line(out.cols, c, layout.det.rows, [&](std::uint32_t r) { return r * n_cols + c; });
  return out;
}

MomentPlan plan_moments(const SlicedLayout& layout, const BitMask& selected, const BitMask& valid) {
  MomentPlan plan;
  std::vector<std::uint32_t> tiles;
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
    if (whole) tiles.push_back(tile);
    each([&](std::uint64_t p) {
      if (!whole && selected[p]) plus.set(p), plan.any_pixels = true;
      if (whole && valid[p] && !selected[p]) minus.set(p), plan.any_pixels = true;
    });
  }
  take_tiles(plan, layout, tiles);
  if (plan.any_pixels) plan.plus = lines_of(layout, plus), plan.minus = lines_of(layout, minus);
  return plan;
}

// Adds what pixels give to the sums of one block, whose end may be cut.
void add_pixel_moments(const MomentPlan& plan, const SlicedBlock& block, std::uint64_t at,
                       std::span<const std::span<std::uint64_t>> images) {
  alignas(64) std::uint64_t values[3][kBlockPositions] = {};
  add_moments(block, plan.plus, false, values[0], values[1], values[2]);
  add_moments(block, plan.minus, true, values[0], values[1], values[2]);
  const std::uint64_t n = std::min<std::uint64_t>(kBlockPositions, images[0].size() - at);
  for (int m = 0; m < 3; ++m)
    for (std::uint64_t i = 0; i < n; ++i) images[m][at + i] += values[m][i];
}

}  // namespace

DetectorOps::Path moment_sums_sliced(const Volume& volume, const BitMask& selected, std::span<std::uint64_t> total,
                                     std::span<std::uint64_t> row, std::span<std::uint64_t> col, const Job& job) {
  const SlicedStorage& storage = *volume.sliced();
  const MomentPlan plan = plan_moments(storage.layout, selected, volume.valid_pixels());
  const SliceForm forms[] = {form_of(plan.total), form_of(plan.row), form_of(plan.col)};
  const std::span<const SlicedBlock> blocks = storage.blocks;
  QUANTEM_TRY(sweep(volume, job, "moment_sums", parts_of_blocks(blocks.size()), [&](std::uint64_t part) {
    const std::uint64_t first = part * kBlocksPerPart;
    const std::span<const SlicedBlock> mine = blocks.subspan(first, std::min(kBlocksPerPart, blocks.size() - first));
    const std::span<std::uint64_t> at[] = {positions_of_part(total, first, mine.size()),
                                           positions_of_part(row, first, mine.size()),
                                           positions_of_part(col, first, mine.size())};
    sum_forms(mine, forms, at);
    if (plan.any_pixels)
      for (std::uint64_t b = 0; b < mine.size(); ++b) add_pixel_moments(plan, mine[b], b * kBlockPositions, at);
  }));
  return std::string_view(plan.any_pixels ? "cpu_sliced_moment_sums" : "cpu_sliced_stored_moments");
}

}  // namespace quantem::detector_detail
