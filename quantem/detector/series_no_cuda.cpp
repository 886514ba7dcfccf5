// Compiled instead of series_cuda.cu where there is no CUDA compiler.

#include "quantem/detector/series.h"

namespace quantem::detector_detail {

Result<std::string_view> series_sums_cuda(std::span<const Volume* const>, const BitMask&, std::span<std::vector<float>>,
                                          const Job&) {
  return Error{Code::unsupported, "masked_sum_series: this build has no CUDA"};
}

}  // namespace quantem::detector_detail
