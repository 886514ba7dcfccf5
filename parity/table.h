#pragma once
// The parity table: operations x shapes x dtypes, and what each column (backend, storage) must do with them. One table serves
// three readers: `run` executes it, `list` prints it, `support` prints docs/support.md from it.

#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "quantem/resident/volume.h"

namespace quantem::parity {

enum class Column : std::uint8_t { cpu_dense, cpu_encoded, cuda_dense, cuda_encoded };
inline constexpr Column kColumns[] = {Column::cpu_dense, Column::cpu_encoded, Column::cuda_dense, Column::cuda_encoded};
std::string_view column_name(Column column);  // "cpu dense"

// What a column must do with a row. A row that says `runs` and is refused fails, and so does the reverse.
enum class Expect : std::uint8_t { runs, invalid, wrong_dtype, unsupported };
std::string_view expect_name(Expect expect);

// The acquisition of a row, generated from its seed: mostly small counts, some large ones, bad pixels, missing positions.
struct Truth {
  Shape4 shape;
  Dtype dtype;
  Buffer counts;               // as stored, dtype
  std::vector<double> values;  // the same counts (all exact in double), 0 at bad pixels and missing positions
  BitMask valid_pixels, valid_positions;
  std::uint64_t seed;
  [[nodiscard]] double at(std::uint64_t position, std::uint64_t pixel) const {
    return values[position * shape.frame_pixels() + pixel];
  }
};
// `at_the_top`: every integer count is near its dtype's largest.
Truth make_truth(const Shape4& shape, Dtype dtype, std::uint64_t seed, bool at_the_top = false);

// Results as they leave an operation. Integers and floats are compared bit by bit unless the operation has a bound.
using Output =
    std::variant<std::vector<std::uint64_t>, std::vector<std::int64_t>, std::vector<float>, std::vector<double>>;
struct Outcome {
  std::vector<Output> outputs;
  std::string path;  // the path that provenance names; empty where the operation has none
};

struct Operation {
  const char* name;
  double bound;  // 0: bitwise; else the largest absolute difference allowed
  Result<Outcome> (*run)(const Volume&, const Truth&);
  std::vector<Output> (*oracle)(const Truth&);  // plain loops over Truth::values
  Expect (*expect)(Column, Dtype, const Shape4&);
};
const std::vector<Operation>& operations();

struct Shape {
  const char* why;
  Shape4 shape;
  bool at_the_top = false;
  bool tiles_4 = false;  // encoded volumes with sums over 4x4 tiles; the other columns and dtypes have nothing to say
  [[nodiscard]] bool has(Column column, Dtype dtype) const {
    return !tiles_4 || ((column == Column::cpu_encoded || column == Column::cuda_encoded) && is_unsigned_count(dtype));
  }
  [[nodiscard]] std::string name() const { return to_string(shape) + (tiles_4 ? " tiles_4" : ""); }
};
const std::vector<Shape>& shapes();
const std::vector<Dtype>& dtypes();

// An acquisition of more than 2^32 counts, whose frames repeat: what is right follows from plain loops over one period, and one period is
// all the host memory that its counts take. Not on `cpu dense`, which would hold every count.
struct LargeCheck {
  const char* name;
  std::vector<Output> want;
  std::function<Result<Outcome>(const Volume&)> run;
};
Shape4 large_shape();
inline constexpr Dtype kLargeDtype = Dtype::u8;
std::vector<LargeCheck> large_checks();
Result<Volume> make_large(const Device& device, Representation representation);

}  // namespace quantem::parity
