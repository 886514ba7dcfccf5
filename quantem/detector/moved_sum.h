#pragma once
// A mask that moves, where counts are dense: the image changes by the pixels that differ, or is summed anew where those are more.

#include <algorithm>
#include <vector>

#include "quantem/detector/detector_ops.h"

namespace quantem::detector_detail {

// DetectorOps::move_sum by way of the backend's masked sums; `path` names it where the difference was the cheaper.
template <class MaskedSums>
DetectorOps::Path moved_sum(const MaskedSums& masked_sums, const Volume& volume, const BitMask& from, const BitMask& to,
                            std::span<std::uint64_t> image, const Job& job, std::string_view path) {
  BitMask changed[2] = {~from, ~to};  // pixels to add, pixels to take away
  changed[0] &= to;
  changed[1] &= from;
  if (changed[0].n_set() + changed[1].n_set() >= to.n_set())
    return masked_sums(volume, std::span<const BitMask>(&to, 1), std::span<const std::span<std::uint64_t>>(&image, 1),
                       job);
  std::vector<std::uint64_t> sums[2] = {std::vector<std::uint64_t>(image.size()),
                                        std::vector<std::uint64_t>(image.size())};
  const std::span<std::uint64_t> spans[2] = {sums[0], sums[1]};
  QUANTEM_TRY(
      masked_sums(volume, std::span<const BitMask>(changed), std::span<const std::span<std::uint64_t>>(spans), job));
  for (std::size_t n = 0; n < image.size(); ++n) image[n] += sums[0][n] - sums[1][n];
  return path;
}

}  // namespace quantem::detector_detail
