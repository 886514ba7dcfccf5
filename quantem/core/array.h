#pragma once
// Arrays on the host: views of somebody's memory, owned arrays of run-time type, and the typed products Image and Pattern.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "quantem/core/bit_mask.h"
#include "quantem/core/dtype.h"
#include "quantem/core/provenance.h"
#include "quantem/core/shape.h"

namespace quantem {

// Uninitialised bytes at a 64-byte boundary (one bit plane, one cache line).
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::uint64_t n_bytes);  // data() is null when the memory is not there; see allocate_buffer
  [[nodiscard]] std::byte* data() { return bytes_.get(); }
  [[nodiscard]] const std::byte* data() const { return bytes_.get(); }
  [[nodiscard]] std::uint64_t n_bytes() const { return n_bytes_; }
  template <class T>
  [[nodiscard]] std::span<T> as() {
    return {reinterpret_cast<T*>(bytes_.get()), n_bytes_ / sizeof(T)};
  }
  template <class T>
  [[nodiscard]] std::span<const T> as() const {
    return {reinterpret_cast<const T*>(bytes_.get()), n_bytes_ / sizeof(T)};
  }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::unique_ptr<std::byte[], Free> bytes_;
  std::uint64_t n_bytes_ = 0;
};
Result<Buffer> allocate_buffer(std::uint64_t n_bytes, std::string_view what);  // out_of_memory, never a throw
Result<Buffer> allocate_zeroed_buffer(std::uint64_t n_bytes, std::string_view what);

// Counts in somebody's memory, C order, host byte order.
struct ArrayView {
  Dtype dtype = Dtype::u16;
  std::vector<std::uint64_t> shape;
  const void* data = nullptr;
};

// An array of run-time type and rank, C order.
struct HostArray {
  Dtype dtype = Dtype::u16;
  std::vector<std::uint64_t> shape;
  Buffer buffer;
  BitMask valid_pixels;  // empty: all are
  Provenance provenance;
  template <class T>
  [[nodiscard]] std::span<const T> as() const {
    return buffer.as<T>();
  }
  template <class T>
  [[nodiscard]] std::span<T> as() {
    return buffer.as<T>();
  }
  [[nodiscard]] ArrayView view() const { return {dtype, shape, buffer.data()}; }
};

// A map over scan positions (Image) or detector pixels (Pattern). `valid` is empty when every element has a value;
// otherwise a cleared bit marks an element without one (NaN in float maps, the dtype's maximum in integer maps).
template <class T>
struct Grid {
  Extent extent;
  std::vector<T> values;  // extent.count(), C order
  std::string unit;       // "counts", "px", "1/A", "rad", ...
  BitMask valid;
  Provenance provenance;
  [[nodiscard]] T& at(std::uint32_t row, std::uint32_t col) { return values[std::uint64_t{row} * extent.cols + col]; }
  [[nodiscard]] const T& at(std::uint32_t row, std::uint32_t col) const {
    return values[std::uint64_t{row} * extent.cols + col];
  }
  [[nodiscard]] bool is_valid(std::uint64_t i) const { return valid.count() == 0 || valid[i]; }
};
template <class T>
struct Image : Grid<T> {};
template <class T>
struct Pattern : Grid<T> {};

}  // namespace quantem
