#include "quantem/detector/product.h"

#include <algorithm>
#include <cmath>

namespace quantem::detector_detail {

Result<Done> check_selection(const Volume& volume, Extent selection_det, std::uint64_t n, const char* operation) {
  QUANTEM_TRY(volume.check_open());
  const Extent det = volume.shape().det;
  if (selection_det == det && n == det.count()) return Done{};
  if (selection_det == det)
    return Error{Code::invalid_argument, std::string(operation) + ": mask holds " + std::to_string(n) +
                                             " values, detector " + to_string(det) + " has " +
                                             std::to_string(det.count()) + " pixels"};
  return Error{Code::invalid_argument,
               std::string(operation) + ": mask is " + to_string(selection_det) + ", detector is " + to_string(det)};
}

Provenance product_provenance(const Volume& volume, const char* operation, std::string_view path, Extent output,
                              Dtype output_dtype, Dtype accumulator_dtype) {
  Provenance p = volume.provenance();
  p.operation = operation;
  p.path = path;
  p.output_shape = to_string(output);
  p.output_dtype = dtype_name(output_dtype);
  p.accumulator_dtype = dtype_name(accumulator_dtype);
  if (!has_every_position(volume)) p.add_evidence("incomplete");
  return p;
}

void record_mask(Provenance& provenance, const Parameters& parameters, const MaskRecord& selected) {
  provenance.parameters.insert(provenance.parameters.end(), parameters.begin(), parameters.end());
  provenance.mask.sha256 = selected.sha256;
  provenance.mask.n_pixels = selected.n_pixels;
  if (provenance.mask.n_pixels == 0) provenance.warn("empty_mask: no valid pixel is selected");
}

double largest_count(const Volume& volume) {
  return std::max(std::abs(volume.audit().count_max), std::abs(volume.audit().count_min));
}

std::vector<float> rounded(const std::vector<std::uint64_t>& sums, bool is_signed) {
  std::vector<float> out(sums.size());
  if (is_signed) {
    for (std::size_t i = 0; i < sums.size(); ++i) out[i] = static_cast<float>(static_cast<std::int64_t>(sums[i]));
  } else {
    for (std::size_t i = 0; i < sums.size(); ++i) out[i] = static_cast<float>(sums[i]);
  }
  return out;
}

}  // namespace quantem::detector_detail
