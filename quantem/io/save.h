#pragma once
// Writing acquisitions and images. A file appears complete or not at all: it is written under a temporary name in its directory,
// flushed, then renamed; an existing file is never replaced unless `overwrite` says so (then atomically). A call that fails or is
// cancelled leaves nothing behind.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "quantem/core/array.h"
#include "quantem/core/bit_mask.h"
#include "quantem/core/calibration.h"
#include "quantem/core/job.h"
#include "quantem/core/result.h"
#include "quantem/core/shape.h"

namespace quantem {

// Fills `out` with the det_rows * det_cols values of one scan position (flat, row-major), host byte order. Called from several
// threads at once, each position once, in no particular order.
using FrameProvider = std::function<Result<Done>(std::uint64_t position, std::span<std::byte> out)>;

struct ArinaSpec {
  Shape4 shape;
  Dtype dtype = Dtype::u16;  // u8, u16, u32
  std::uint64_t frames_per_file = 32768;
  std::vector<std::uint32_t> pixel_mask;  // NXdetector bits, frame_pixels() of them; empty: zeros
  BitMask valid_positions;                // cleared: no chunk is written, the frame is missing. Empty: all are there
  std::optional<double> voltage_kV;
  std::optional<std::uint64_t> saturation_value;
  std::optional<Calibration>
      calibration;  // into the side file x_em_metadata.h5, and voltage as above; only what is known
  std::vector<std::pair<std::string, std::string>> metadata;  // text attributes of /entry
  bool overwrite = false;
};

struct SaveReport {
  std::vector<std::filesystem::path> files;  // data files, side files, the master last
  std::uint64_t n_frames = 0;                // written
  std::uint64_t logical_bytes = 0, stored_bytes = 0;
};

// An Arina-layout HDF5 set: `master` must be named NAME_master.h5; beside it NAME_data_000001.h5 ... with /entry/data/data of
// shape (n, rows, cols), one bitshuffle-LZ4 chunk (filter 32008) a frame. Data files appear first, the master last.
// Exact: reading it back gives the same counts. Errors: invalid_argument (name, shape, dtype, mask size), io (exists, not writable).
Result<SaveReport> write_arina(const std::filesystem::path& master, const ArinaSpec& spec, const FrameProvider& frames,
                               const Job& job = {});

// A four-dimensional .npy, (scan_row, scan_col, det_row, det_col), frame by frame: memory stays bounded.
Result<SaveReport> write_npy(const std::filesystem::path& path, const Shape4& shape, Dtype dtype,
                             const FrameProvider& frames, bool overwrite = false, const Job& job = {});
// Any array as .npy, little-endian, C order.
Result<Done> write_npy(const std::filesystem::path& path, const ArrayView& array, bool overwrite = false);

// One frame as the bytes of a bitshuffle-LZ4 chunk (filter 32008, default block size): appended to nothing, `chunk` is replaced.
void encode_bslz4_chunk(std::span<const std::byte> elements, std::size_t item_bytes, std::vector<std::byte>& chunk);

}  // namespace quantem
