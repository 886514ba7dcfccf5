#pragma once
// What a backend must be able to do for the detector area. One plain struct of function pointers, one function per backend
// that returns it (or null when this machine lacks it), one chooser. The public functions check arguments once, AND masks with
// the valid pixels, and then call the table; functions here trust what they get. Every function returns the name of the path
// that ran, for provenance.
//
// Integer images are modulo 2^64: signed results are two's complement. At missing positions functions write 0.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "quantem/core/job.h"
#include "quantem/detector/mean_pattern.h"
#include "quantem/resident/volume.h"

namespace quantem {

struct DetectorOps {
  using Path = Result<std::string_view>;

  // images[m][n] = sum over p in masks[m] of counts[n, p]. Integer counts.
  Path (*masked_sums)(const Volume&, std::span<const BitMask> masks, std::span<const std::span<std::uint64_t>> images,
                      const Job&);
  // `image` holds the sum over `from` and afterwards that over `to`: changed by the difference, or taken anew, whichever is
  // cheaper; the integers are the same. Integer counts.
  Path (*move_sum)(const Volume&, const BitMask& from, const BitMask& to, std::span<std::uint64_t> image, const Job&);
  // images[m][n] = sum over p of weights[m][p] * counts[n, p]. Integer counts.
  Path (*weighted_sums)(const Volume&, std::span<const std::span<const std::int64_t>> weights,
                        std::span<const std::span<std::uint64_t>> images, const Job&);
  // The same for f32 counts, in double in pixel order, weights of 0 skipped; NaN where a selected sample is not finite.
  Path (*weighted_sums_real)(const Volume&, std::span<const std::span<const std::int64_t>> weights,
                             std::span<const std::span<double>> images, const Job&);
  // total, row and col moments over `selected`. Integer counts.
  Path (*moment_sums)(const Volume&, const BitMask& selected, std::span<std::uint64_t> total,
                      std::span<std::uint64_t> row, std::span<std::uint64_t> col, const Job&);
  // sum[p] over `positions` (all valid). Integer counts.
  Path (*pattern_sum)(const Volume&, const BitMask& positions, std::span<std::uint64_t> sum, const Job&);
  // The same for f32 counts, in double in position order over finite samples; n_finite[p] counts them.
  Path (*pattern_sum_real)(const Volume&, const BitMask& positions, std::span<double> sum,
                           std::span<std::uint64_t> n_finite, const Job&);
  // out[p] = largest count over `positions`, working dtype; f32: over finite samples, NaN where there is none.
  Path (*pattern_max)(const Volume&, const BitMask& positions, std::span<std::byte> out, const Job&);
  // The counts of one position, working dtype.
  Path (*frame)(const Volume&, std::uint64_t position, std::span<std::byte> out);
  // total, max, argmax, n_nonzero, n_saturated (values >= saturation) of every position; vectors are sized. Unsigned counts.
  Path (*frame_statistics)(const Volume&, std::uint64_t saturation, FrameStatistics& out, const Job&);
  // masked_sums, each sum rounded once to f32; the function sizes the images. `meanwhile` is called once, from any thread, before the
  // function returns, at best while a device works. Null: the caller rounds the integers.
  Path (*masked_sums_rounded)(const Volume&, std::span<const BitMask> masks, std::span<std::vector<float>> images,
                              const std::function<void()>& meanwhile, const Job&) = nullptr;
  // Bit 0 of states[n]: a selected sample is not finite; bit 1: one is negative. i16, i32, f32. Null: read them from dense host memory.
  Path (*sample_states)(const Volume&, const BitMask& selected, std::span<std::uint8_t> states, const Job&) = nullptr;
};

const DetectorOps* detector_ops_cpu_dense();
const DetectorOps* detector_ops_cpu_sliced();
const DetectorOps* detector_ops_cuda_sliced();  // null where this build has no CUDA
const DetectorOps* detector_ops_cuda_dense();

// The table for the volume's device and storage, or why there is none.
Result<const DetectorOps*> detector_ops(const Volume& volume);

}  // namespace quantem
