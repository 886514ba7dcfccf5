#pragma once
// What .npy and raw files share: one contiguous array of frames, nothing known beside them.

#include <optional>
#include <string>

#include "quantem/io/container.h"

namespace quantem {

struct FlatLayout {
  Dtype dtype = Dtype::u16;
  bool big_endian = false;
  Extent det;
  std::uint64_t offset_bytes = 0, gap_bytes = 0;  // before the first frame; after each
  std::uint64_t n_frames = 0;                     // whole ones that are there
};

// Path, identity, options and format; io when the file cannot be looked at.
Result<Container> flat_container(const std::filesystem::path& path, const OpenOptions& options, std::string format);

// The one part, all pixels valid; `scan`: the array's own first two axes, where it has them.
void finish_flat_container(Container& container, const FlatLayout& layout, std::optional<Extent> scan);

}  // namespace quantem
