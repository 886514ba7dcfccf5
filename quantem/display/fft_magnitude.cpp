#include "quantem/display/fft_magnitude.h"

#include <cmath>
#include <complex>
#include <limits>
#include <string>
#include <vector>

#include "quantem/core/fft.h"
#include "quantem/display/check.h"
#include "quantem/display/taper.h"

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
  Fft2(image.extent).forward(field);
  field[0] = static_cast<double>(image.extent.count()) * std::fabs(mean);

  Image<float> out;
  out.extent = image.extent, out.unit = options.log ? "log(1+|F|)" : "|F|", out.provenance = image.provenance;
  out.values.resize(field.size());
  for (std::uint64_t r = 0, i = 0; r < rows; ++r)
    for (std::uint64_t c = 0; c < cols; ++c, ++i) {
      const double magnitude = std::abs(field[i]);
      out.values[(r + rows / 2) % rows * cols + (c + cols / 2) % cols] =
          static_cast<float>(options.log ? std::log1p(magnitude) : magnitude);
    }
  return out;
}

}  // namespace quantem
