#pragma once
// The magnitude of an image's Fourier transform, for looking at lattices and resolution.
//
//   m = mean of valid finite values; invalid ones become m; m is subtracted
//   F = sum over (r, c) of w (x - m) exp(-2 pi i (p r / n_r + q c / n_c))        unnormalised, w = 1 or Hann
//   out = |F|, with the zero frequency n |m| (n = n_r n_c), moved to (n_r // 2, n_c // 2); log gives log1p(out)
// Any size. Computed in double; out is f32. hann: w = w_r w_c, w_i = 1/2 - 1/2 cos(2 pi i / (n - 1)), 1 for n = 1.

#include <cstdint>

#include "quantem/core/array.h"
#include "quantem/core/result.h"

namespace quantem {

enum class Taper : std::uint8_t { none, hann };
struct FftOptions {
  bool log = true;
  Taper taper = Taper::none;
};

// Errors: missing_data when no value is valid; invalid_argument if values or valid disagree with the extent.
Result<Image<float>> fft_magnitude(const Grid<float>& image, const FftOptions& options = {});

}  // namespace quantem
