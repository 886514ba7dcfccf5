#pragma once
// NumPy's .npy: the arrays that verbs write, and the small ones (masks, true phases) that they take.

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quantem/core/dtype.h"
#include "quantem/core/result.h"

namespace quantem::cli {

// A version 1.0 file, little-endian, C order. `values` are the array's bytes.
std::string npy_bytes(Dtype dtype, std::span<const std::uint64_t> shape, std::span<const std::byte> values);

template <class T>
std::string npy_of(const std::vector<T>& values, std::span<const std::uint64_t> shape) {
  return npy_bytes(dtype_of<T>(), shape, std::as_bytes(std::span(values)));
}

// Any bool, integer or float array, either byte order, C or Fortran order, as doubles in C order.
struct NpyArray {
  std::vector<std::uint64_t> shape;
  std::vector<double> values;
  std::string descr;  // "<f8", "|b1"
};
// Errors: io (no such file), corrupt_data (not .npy, or fewer bytes than the header says), unsupported (other dtypes),
// out_of_memory above 2^28 elements.
std::string npy_shape_text(const std::vector<std::uint64_t>& shape);  // "(4, 6)"
Result<NpyArray> read_npy(const std::filesystem::path& path);

}  // namespace quantem::cli
