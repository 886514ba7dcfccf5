#pragma once
// read() of a volume that lies on a CUDA device: a region of scan x detector to dense counts in host memory.

#include <cstddef>
#include <span>

#include "quantem/resident/volume.h"

namespace quantem {

// Counts of `scan` x `det` in the working dtype, C order; out has their bytes. Missing positions and bad pixels are 0.
Result<Done> read_sliced_cuda(const Volume& volume, const Region& scan, const Region& det, std::span<std::byte> out);
Result<Done> read_dense_cuda(const Volume& volume, const Region& scan, const Region& det, std::span<std::byte> out);

}  // namespace quantem
