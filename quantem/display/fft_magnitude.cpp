#include "quantem/display/fft_magnitude.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "quantem/core/fft.h"
#include "quantem/display/check.h"
#include "quantem/display/taper.h"
#include "quantem/runtime/thread_pool.h"

namespace quantem {
namespace {

bool usable(const Grid<float>& image, std::uint64_t i) {
  return image.is_valid(i) && std::isfinite(image.values[i]);
}

// NaN when there is none.
double mean_of_usable(const Grid<float>& image) {
  double sum = 0;
  std::uint64_t n = 0;
  for (std::uint64_t i = 0; i < image.values.size(); ++i)
    if (usable(image, i)) sum += image.values[i], ++n;
  return n ? sum / static_cast<double>(n) : std::numeric_limits<double>::quiet_NaN();
}

constexpr std::uint64_t kLinesAtOnce = 32;

// Calls body(first, stop) for all lines, side by side.
template <class F>
void in_bands(std::uint64_t n_lines, const F& body) {
  parallel_for((n_lines + kLinesAtOnce - 1) / kLinesAtOnce,
               [&](std::uint64_t i) { body(i * kLinesAtOnce, std::min(n_lines, (i + 1) * kLinesAtOnce)); });
}

// Fft2(extent).forward(field), bit for bit: lines do not know of each other.
void forward(Extent extent, std::span<std::complex<double>> field) {
  const std::uint64_t rows = extent.rows, cols = extent.cols;
  in_bands(rows, [&](std::uint64_t first, std::uint64_t stop) {
    Fft2 line({1, extent.cols});
    for (std::uint64_t r = first; r < stop; ++r) line.forward(field.subspan(r * cols, cols));
  });
  in_bands(cols, [&](std::uint64_t first, std::uint64_t stop) {
    Fft2 line({1, extent.rows});
    std::vector<std::complex<double>> gathered((stop - first) * rows);
    for (std::uint64_t r = 0; r < rows; ++r)
      for (std::uint64_t c = first; c < stop; ++c) gathered[(c - first) * rows + r] = field[r * cols + c];
    for (std::uint64_t c = first; c < stop; ++c) line.forward(std::span(gathered).subspan((c - first) * rows, rows));
    for (std::uint64_t r = 0; r < rows; ++r)
      for (std::uint64_t c = first; c < stop; ++c) field[r * cols + c] = gathered[(c - first) * rows + r];
  });
}

}  // namespace

Result<Image<float>> fft_magnitude(const Grid<float>& image, const FftOptions& options) {
  QUANTEM_TRY(check_grid(image, "fft_magnitude"));
  const double mean = mean_of_usable(image);
  if (std::isnan(mean))
    return Error{Code::missing_data, "fft_magnitude: no value of the " + to_string(image.extent) + " image is valid"};
  const std::uint32_t rows = image.extent.rows, cols = image.extent.cols;
  const std::vector<double> row_weight = taper_weights(options.taper, rows),
                            col_weight = taper_weights(options.taper, cols);

  std::vector<std::complex<double>> field(image.extent.count());
  for (std::uint64_t r = 0, i = 0; r < rows; ++r)
    for (std::uint64_t c = 0; c < cols; ++c, ++i)
      field[i] = usable(image, i) ? row_weight[r] * col_weight[c] * (image.values[i] - mean) : 0.0;
  forward(image.extent, field);
  field[0] = static_cast<double>(image.extent.count()) * std::fabs(mean);

  Image<float> out;
  out.extent = image.extent, out.unit = options.log ? "log(1+|F|)" : "|F|", out.provenance = image.provenance;
  out.values.resize(field.size());
  in_bands(rows, [&](std::uint64_t first, std::uint64_t stop) {
    for (std::uint64_t r = first, i = first * cols; r < stop; ++r)
      for (std::uint64_t c = 0; c < cols; ++c, ++i) {
        const double magnitude = std::abs(field[i]);
        out.values[(r + rows / 2) % rows * cols + (c + cols / 2) % cols] =
            static_cast<float>(options.log ? std::log1p(magnitude) : magnitude);
      }
  });
  return out;
}

}  // namespace quantem
