#pragma once
// Deflection over the scan: the working field (double, zero where there is no value) and the maps handed to users
// (float, NaN there).

#include <cstdint>
#include <string>
#include <vector>

#include "quantem/core/array.h"
#include "quantem/core/bit_mask.h"
#include "quantem/core/provenance.h"
#include "quantem/core/result.h"
#include "quantem/core/shape.h"

namespace quantem {

// Every operation of this area works on this and rounds once, at its end. Where `valid` is cleared both components are
// exactly 0, so that no sum or transform spreads a missing value, and fits and means leave the position out.
struct ComField {
  Extent scan;
  std::vector<double> row, col;  // scan.count(), C order
  BitMask valid;                 // scan.count() bits
  std::string unit = "px";       // "px": detector pixels; "1/A"
  Provenance provenance;
  [[nodiscard]] std::uint64_t n_without_value() const { return valid.count() - valid.n_set(); }
};

struct ComMaps {
  Image<float> row, col;
  BitMask valid;
};

ComMaps to_maps(const ComField& field);  // rounds once; NaN 0x7FC00000 and a cleared valid bit where there is no value
// NaN in either component is no value. invalid_argument when the maps' sizes disagree.
Result<ComField> to_field(const ComMaps& maps);
Result<Done> check_field(const ComField& field, const char* operation);

// Components times (row, col): pixels to 1/A is sampling / wavelength per axis, and comes before any rotation.
ComField scale_components(const ComField& field, Pair factor, const std::string& unit);

// A map over the scan with the field's provenance.
template <class T>
Image<T> scan_image(const ComField& field, std::vector<T> values, const std::string& unit) {
  Image<T> image;
  image.extent = field.scan;
  image.values = std::move(values);
  image.unit = unit;
  image.provenance = field.provenance;
  image.provenance.output_shape = to_string(field.scan);
  image.provenance.output_dtype = std::is_same_v<T, float> ? "float32" : "float64";
  return image;
}

// Derivatives by central differences per `step` (1: per scan step), of the aligned field:
//   divergence = d row / d row + d col / d col        curl = d col / d row - d row / d col
// NaN on the scan's border and where the stencil of four neighbours has a position without a value.
struct FieldDerivatives {
  std::vector<double> divergence, curl;  // scan.count()
};
FieldDerivatives field_derivatives(const ComField& field, Pair step);

}  // namespace quantem
