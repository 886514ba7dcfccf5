#pragma once
// What a file (or a set of files) holds, known from headers alone: shape, dtype, where every frame's bytes lie, calibration.
// inspect() makes one; load() turns it into a Volume. Nothing here holds counts.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "quantem/core/bit_mask.h"
#include "quantem/core/calibration.h"
#include "quantem/core/dtype.h"
#include "quantem/core/provenance.h"
#include "quantem/core/result.h"
#include "quantem/core/shape.h"
#include "quantem/io/filters.h"

namespace quantem {

enum class ScanOrder : std::uint8_t { raster, serpentine };
enum class ExtraFrames : std::uint8_t { error, drop };
enum class Missing : std::uint8_t { error, mark };

struct RawLayout {  // raw binary: everything is given
  Dtype dtype = Dtype::u16;
  Extent det;
  std::uint64_t offset_bytes = 0, gap_bytes = 0;  // before the first frame; after each frame
  bool big_endian = false;
};

struct OpenOptions {
  std::optional<Extent> scan_shape;
  ScanOrder scan_order = ScanOrder::raster;
  std::uint32_t flyback_cols = 0, skip_frames = 0;
  ExtraFrames extra_frames = ExtraFrames::error;
  Missing missing = Missing::error;
  std::string dataset_path;            // of HDF5 files: which dataset; empty finds it
  std::optional<std::string> channel;  // of files with several thresholds: by name; empty takes the file's default
  std::optional<RawLayout> raw;
};

// A stretch of a file where bytes of frames lie.
struct ByteRange {
  static constexpr std::uint64_t kAbsent = ~std::uint64_t{0};
  std::uint64_t offset = kAbsent, bytes = 0;
  std::uint32_t filter_mask = 0;
  [[nodiscard]] bool present() const { return offset != kAbsent; }
};

// One dataset (or raw array) that holds consecutive frames. Chunks tile its box; one frame per chunk is the fast path.
struct Part {
  std::uint32_t file = 0;  // index into Container::files
  std::string dataset;     // "/entry/data/data"; empty for .npy and raw
  Dtype dtype = Dtype::u16;
  bool big_endian = false;
  std::uint64_t first_frame = 0, n_frames = 0;  // stored frames of the container
  // The dataset's own box and chunk, rank 2 to 4 with (channel axis removed or fixed): the last two axes are detector rows and cols.
  std::vector<std::uint64_t> shape, chunk;  // chunk empty: contiguous (or compact), one range for all
  std::uint64_t fixed_axis = ~std::uint64_t{0},
                fixed_index = 0;  // an axis that is not frames (threshold channel): taken at one index
  FilterPipeline filters;
  bool partial_edge_chunks_unfiltered = false;
  std::vector<ByteRange> chunks;         // row-major over the chunk grid; one range when contiguous
  std::uint64_t frame_stride_bytes = 0;  // contiguous only: from one frame to the next (frame bytes + gap)
  std::string
      absent_reason;  // not empty: the part's frames are missing ("x_data_000003.h5 not found in DIR"); then chunks is empty
  [[nodiscard]] bool one_frame_per_chunk() const;
};

struct Container {
  std::filesystem::path path;                // what was opened
  std::string format;                        // "arina", "hdf5", "emd", "npy", "raw"
  std::vector<std::filesystem::path> files;  // all files with frames, and the master
  std::vector<SourceFile> identity;          // one per file, taken before the first read
  Shape4 shape;
  Dtype dtype = Dtype::u16;  // the widest of the parts
  std::vector<Part> parts;
  std::uint64_t n_stored = 0, n_expected = 0;  // frames: what is there, what the master announces
  Origin scan_shape_origin = Origin::file;
  OpenOptions options;   // as given; scan order, flyback and skip are applied by frame_of
  BitMask valid_pixels;  // from the pixel mask; all set when the source has none
  bool has_pixel_mask = false;
  std::optional<std::uint64_t> saturation_value;
  Calibration calibration;
  std::string metadata_json = "{}";    // source scalars as found, the side file's attributes
  std::uint64_t n_ignored_frames = 0;  // flyback, skipped, dropped
  std::vector<std::string> warnings;
  // Readiness. A container that is not ready still answers what is known; load() refuses it with `not_ready`.
  std::optional<Error> not_ready;  // what is wrong, and what to do
  std::uint64_t n_missing = 0;     // positions without a stored frame, known from headers

  // Stored frame of flat scan position n, scan order, skip and flyback undone.
  [[nodiscard]] std::uint64_t frame_of(std::uint64_t position) const;
  // The part that holds stored frame k, or null when k is not stored.
  [[nodiscard]] const Part* part_of(std::uint64_t frame) const;
};

// Headers only; touches no device. Fails only when nothing can be said (no such file, not a format that is read). Whatever else
// is wrong (no scan shape, missing frames under Missing::error, an unsupported filter) is in Container::not_ready.
Result<Container> inspect(const std::filesystem::path& path, const OpenOptions& options = {});

// stale_source when a file changed since inspect().
Result<Done> check_unchanged(const Container& container);

}  // namespace quantem
