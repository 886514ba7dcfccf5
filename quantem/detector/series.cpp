#include "quantem/detector/series.h"

#include <algorithm>

#include "quantem/detector/masked_sum.h"
#include "quantem/detector/product.h"

namespace quantem {
namespace {

using detector_detail::check_selection;
using detector_detail::finished;

Error at_place(std::size_t i, std::size_t n, const Error& error) {
  return with_context("volume " + std::to_string(i) + " of " + std::to_string(n), error);
}

bool together(const Volume& a, const Volume& b) {
  return b.sliced_device() && a.device().index() == b.device().index() && a.valid_pixels() == b.valid_pixels();
}

// The volumes of `rest` that can be answered with its first one, which is on a CUDA device; the others stay in `rest`.
std::vector<std::size_t> take_group(std::span<const Volume> volumes, std::vector<std::size_t>& rest) {
  const Volume& first = volumes[rest.front()];
  const auto others =
      std::stable_partition(rest.begin(), rest.end(), [&](std::size_t i) { return together(first, volumes[i]); });
  std::vector<std::size_t> group(rest.begin(), others);
  rest.erase(rest.begin(), others);
  return group;
}

}  // namespace

Result<std::vector<Image<float>>> masked_sum_series(std::span<const Volume> volumes, const Mask& mask, const Job& job) {
  std::vector<Image<float>> images(volumes.size());
  std::vector<std::size_t> rest;  // on CUDA devices
  for (std::size_t i = 0; i < volumes.size(); ++i) {
    const auto good = check_selection(volumes[i], mask.det, mask.bits.count(), "masked_sum_series");
    if (!good) return at_place(i, volumes.size(), good.error());
    if (volumes[i].sliced_device()) {
      rest.push_back(i);
      continue;
    }
    auto image = masked_sum(volumes[i], mask, job);
    if (!image) return at_place(i, volumes.size(), image.error());
    images[i] = *std::move(image);
  }
  while (!rest.empty()) {
    const std::vector<std::size_t> group = take_group(volumes, rest);
    BitMask selected = mask.bits;
    selected &= volumes[group.front()].valid_pixels();
    std::vector<const Volume*> members;
    for (const std::size_t i : group) members.push_back(&volumes[i]);
    std::vector<std::vector<float>> values(group.size());
    auto path = detector_detail::series_sums_cuda(members, selected, values, job);
    if (!path) return at_place(group.front(), volumes.size(), path.error());
    for (std::size_t k = 0; k < group.size(); ++k)
      images[group[k]] = finished(*members[k], std::move(values[k]), "masked_sum_series", *path, Dtype::u64,
                                  mask.parameters, selected);
  }
  return images;
}

}  // namespace quantem
