#pragma once
// Making HDF5 files: groups, small datasets, attributes. Every function is called with the library's lock held.

#define H5_USE_110_API
#include <hdf5.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "quantem/core/result.h"

namespace quantem::hdf5 {

// A file being written; the first failure is kept and everything after it does nothing, so that callers ask once at the end.
class Writer {
 public:
  explicit Writer(const std::filesystem::path& path);  // created, or emptied when it exists
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // Paths are absolute; groups on the way are made.
  void group(const std::string& path, const std::string& nx_class = {});
  void text(const std::string& path, const std::string& value);
  void number(const std::string& path, double value, const std::string& units = {});
  void integer(const std::string& path, hid_t file_type, std::int64_t value);
  // A small contiguous dataset; `memory_type` is that of `values`.
  void array(const std::string& path, hid_t file_type, hid_t memory_type, std::span<const hsize_t> shape,
             const void* values);
  void external_link(const std::string& path, const std::string& file, const std::string& target);
  void text_attribute(const std::string& object, const std::string& name, const std::string& value);
  void integer_attribute(const std::string& object, const std::string& name, hid_t type,
                         std::span<const std::uint64_t> values, bool scalar = false);

  // (n, rows, cols), one chunk a frame, bitshuffle-LZ4, fill value all bits set, growing frame by frame. One at a time.
  void begin_frames(const std::string& path, hid_t type, std::size_t item_bytes, hsize_t n_frames, hsize_t rows,
                    hsize_t cols);
  void write_frame(hsize_t frame, std::span<const std::byte> chunk);

  // Closes everything; io naming what failed.
  Result<Done> close();

 private:
  void check(bool good, const std::string& what);
  std::string parent_of(const std::string& path);
  void dataset(const std::string& path, hid_t file_type, hid_t memory_type, hid_t space, const void* values);

  hid_t file_ = -1, links_ = -1, frames_ = -1;
  std::filesystem::path path_;
  std::string failure_;
};

}  // namespace quantem::hdf5
