#include "quantem/io/load_hot_pixels.h"

#include <algorithm>
#include <cmath>

namespace quantem {
namespace {

std::vector<std::uint32_t> neighbours_of(std::uint32_t pixel, const LoadPlan& plan) {
  std::vector<std::uint32_t> out;
  const std::int64_t rows = plan.crop.det.rows, cols = plan.crop.det.cols;
  const std::int64_t r = pixel / plan.crop.det.cols, c = pixel % plan.crop.det.cols;
  for (std::int64_t i = std::max<std::int64_t>(r - 1, 0); i <= std::min(r + 1, rows - 1); ++i)
    for (std::int64_t j = std::max<std::int64_t>(c - 1, 0); j <= std::min(c + 1, cols - 1); ++j) {
      const auto p = static_cast<std::uint32_t>(i * cols + j);
      if (p != pixel && plan.rules.valid_pixels[p]) out.push_back(p);
    }
  return out;
}

bool is_hot(double sum, const std::vector<std::uint32_t>& around, const std::vector<double>& sums) {
  if (around.empty()) return false;
  double largest = -HUGE_VAL, second = -HUGE_VAL;
  for (const std::uint32_t p : around) {
    if (sums[p] > largest)
      second = largest, largest = sums[p];
    else
      second = std::max(second, sums[p]);
  }
  return sum > 10 * std::max(around.size() > 1 ? second : largest, 0.0) + 36;
}

}  // namespace

Result<std::vector<HotPixel>> find_hot_pixels(const LoadPlan& plan, const BlockReader& reader, const Job& job) {
  ProgressMeter meter(job, "find hot pixels", plan.crop.n_positions(), "frames");
  std::vector<double> sums(plan.crop.frame_pixels());
  std::uint64_t n_frames = 0;
  BlockReader::Scratch scratch;
  for (std::uint64_t b = 0; b < plan.n_blocks; ++b)  // one after the other: float sums keep their order
    QUANTEM_TRY(reader.add_pattern(b, sums, n_frames, scratch, meter));
  std::vector<HotPixel> hot;
  for (std::uint32_t p = 0; p < sums.size(); ++p)
    if (plan.rules.valid_pixels[p])
      if (auto around = neighbours_of(p, plan); is_hot(sums[p], around, sums)) hot.push_back({p, std::move(around)});
  BitMask listed(sums.size());
  for (const HotPixel& h : hot) listed.set(h.pixel);
  const auto is_listed = [&](std::uint32_t pixel) { return listed[pixel]; };
  for (HotPixel& h : hot) std::erase_if(h.neighbours, is_listed);
  std::erase_if(hot, [](const HotPixel& h) { return h.neighbours.empty(); });
  meter.finish();
  return hot;
}

}  // namespace quantem
