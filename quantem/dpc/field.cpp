#include "quantem/dpc/field.h"

#include <bit>
#include <cmath>
#include <limits>
#include <utility>

namespace quantem {
namespace {

constexpr float kNoValue = std::bit_cast<float>(std::uint32_t{0x7FC00000});

}  // namespace

Result<Done> check_field(const ComField& field, const char* operation) {
  const std::uint64_t n = field.scan.count();
  if (n == 0 || field.row.size() != n || field.col.size() != n || field.valid.count() != n)
    return Error{Code::invalid_argument, std::string(operation) + ": the scan is " + to_string(field.scan) +
                                             ", the components have " + std::to_string(field.row.size()) + " and " +
                                             std::to_string(field.col.size()) + " values and valid has " +
                                             std::to_string(field.valid.count())};
  return Done{};
}

ComMaps to_maps(const ComField& field) {
  const std::uint64_t n = field.scan.count();
  std::vector<float> row(n), col(n);
  for (std::uint64_t i = 0; i < n; ++i) {
    row[i] = field.valid[i] ? static_cast<float>(field.row[i]) : kNoValue;
    col[i] = field.valid[i] ? static_cast<float>(field.col[i]) : kNoValue;
  }
  ComMaps maps{scan_image(field, std::move(row), field.unit), scan_image(field, std::move(col), field.unit),
               field.valid};
  if (!field.valid.all()) maps.row.valid = maps.col.valid = field.valid;
  return maps;
}

Result<ComField> to_field(const ComMaps& maps) {
  const std::uint64_t n = maps.row.extent.count();
  if (maps.row.extent != maps.col.extent || maps.row.values.size() != n || maps.col.values.size() != n ||
      (maps.valid.count() != 0 && maps.valid.count() != n))
    return Error{Code::invalid_argument,
                 "com maps: row is " + to_string(maps.row.extent) + " with " + std::to_string(maps.row.values.size()) +
                     " values, col is " + to_string(maps.col.extent) + " with " +
                     std::to_string(maps.col.values.size()) + ", valid has " + std::to_string(maps.valid.count())};
  ComField field;
  field.scan = maps.row.extent;
  field.row.resize(n);
  field.col.resize(n);
  field.valid = BitMask(n, true);
  field.unit = maps.row.unit.empty() ? "px" : maps.row.unit;
  field.provenance = maps.row.provenance;
  for (std::uint64_t i = 0; i < n; ++i) {
    const double r = static_cast<double>(maps.row.values[i]), c = static_cast<double>(maps.col.values[i]);
    if ((maps.valid.count() && !maps.valid[i]) || !std::isfinite(r) || !std::isfinite(c)) {
      field.valid.set(i, false);
      continue;
    }
    field.row[i] = r;
    field.col[i] = c;
  }
  return field;
}

ComField scale_components(const ComField& field, Pair factor, const std::string& unit) {
  ComField scaled = field;
  for (double& x : scaled.row) x *= factor.row;
  for (double& x : scaled.col) x *= factor.col;
  scaled.unit = unit;
  return scaled;
}

FieldDerivatives field_derivatives(const ComField& field, Pair step) {
  const double none = std::numeric_limits<double>::quiet_NaN();
  const std::uint64_t rows = field.scan.rows, cols = field.scan.cols;
  FieldDerivatives d{std::vector<double>(rows * cols, none), std::vector<double>(rows * cols, none)};
  for (std::uint64_t r = 1; r + 1 < rows; ++r)
    for (std::uint64_t c = 1; c + 1 < cols; ++c) {
      const std::uint64_t i = r * cols + c, up = i - cols, down = i + cols, left = i - 1, right = i + 1;
      if (!field.valid[up] || !field.valid[down] || !field.valid[left] || !field.valid[right]) continue;
      d.divergence[i] =
          (field.row[down] - field.row[up]) / (2 * step.row) + (field.col[right] - field.col[left]) / (2 * step.col);
      d.curl[i] =
          (field.col[down] - field.col[up]) / (2 * step.row) - (field.row[right] - field.row[left]) / (2 * step.col);
    }
  return d;
}

}  // namespace quantem
