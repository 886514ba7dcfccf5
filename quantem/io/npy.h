#pragma once
// NumPy .npy files, versions 1 to 3: as a source of frames, and written. Little-endian unsigned 8, 16, 32, signed 16, 32 bit and
// binary32, and their big-endian twins, are read; two dimensions are one frame, three are frames in acquisition order, four are
// (scan_row, scan_col, det_row, det_col). Source: NumPy enhancement proposal 1 and its `numpy.lib.format`.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "quantem/core/array.h"
#include "quantem/io/container.h"

namespace quantem {

struct NpyHeader {
  std::string descr;  // as written: "<u2"
  bool fortran_order = false;
  std::vector<std::uint64_t> shape;
  std::uint64_t data_offset = 0;
};
// The bytes of a file from its start, at least data_offset of them. corrupt_data names what is wrong and where.
Result<NpyHeader> parse_npy_header(std::span<const std::byte> start);

// Headers only. Fails when the file cannot be read or its header is no .npy header or its element type is not one that is
// read (unsupported, with the conversion to make); fortran_order, a wrong size and a wrong rank are in Container::not_ready.
// A file that is too short is missing frames: its whole ones are there under Missing::mark. The scan shape is not resolved yet:
// shape.scan is that of a four-dimensional array, else empty (resolve_scan_shape follows).
Result<Container> inspect_npy(const std::filesystem::path& path, const OpenOptions& options = {});

// The 64-byte aligned header that NumPy would write (version 1.0, or 2.0 where it is too long for that).
std::string npy_header(Dtype dtype, std::span<const std::uint64_t> shape);

}  // namespace quantem
