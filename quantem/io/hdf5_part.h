#pragma once
// HDF5 datasets as parts of a container: rank 2 to 4, a threshold channel taken out, virtual datasets followed to their sources.
// Callers hold an hdf5::Lock.

#include <optional>
#include <string>
#include <vector>

#include "quantem/io/container.h"
#include "quantem/io/hdf5_index.h"

namespace quantem::hdf5 {

inline constexpr std::uint64_t kMostFrames = std::uint64_t{1} << 40;  // of a dataset, and that a master may announce

struct PartRequest {
  std::optional<std::uint64_t>
      channel;  // rank 4 with axes [image, channel, row, col]: this one; else all leading axes are frames
  std::uint64_t first_frame = 0;
};

// The dataset's frames as parts from `request.first_frame` on, consecutive and in order; several only for a virtual dataset.
// Sources that are not there become absent parts. Files are added to container.files. Chunks that end outside their file are
// named in container.warnings and are absent.
Result<std::vector<Part>> make_parts(Container& container, const Object& dataset, const PartRequest& request);

// The index of `path` in container.files, added when new.
Result<std::uint32_t> add_file(Container& container, const std::filesystem::path& path);

// Detector extent of a part (its last two axes).
Extent detector_of(const Part& part);

// Sets container.dtype to the widest of the present parts and checks that their detectors agree; otherwise not_ready is set.
// Also checks that every filter can be undone.
void agree(Container& container);

std::string shape_text(const std::vector<std::uint64_t>& shape);  // "(25, 8, 8)"

}  // namespace quantem::hdf5
