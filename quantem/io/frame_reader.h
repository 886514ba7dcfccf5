#pragma once
// Frames of a container as dense values: the general path, right for every layout, chunk shape and filter. load() uses it where
// its fast path does not apply, and tests use it as the truth.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "quantem/io/container.h"

namespace quantem {

struct FrameFault {      // why a frame has no values
  bool missing = false;  // absent: not stored, never written, or in a file that is not there
  std::string reason;    // missing: which file; otherwise "FILE: DATASET frame 4: lz4_offset: ..."
};

// Open descriptors of a container's files. Safe to use from many threads.
class FrameReader {
 public:
  static Result<FrameReader> open(const Container& container);  // io when a file with frames cannot be opened
  // Stored frame k as det_rows * det_cols values of container.dtype (widened from the part's dtype, byte order undone) into
  // out, which has frame_pixels * item_bytes bytes. A fault leaves `out` zeroed. `scratch` belongs to the calling thread.
  struct Scratch {
    std::vector<std::byte> stored, chunk;
    DecodeScratch decode;
    std::uint64_t cached_part = ~std::uint64_t{0}, cached_chunk = ~std::uint64_t{0};  // the chunk last decoded
  };
  std::optional<FrameFault> read_frame(std::uint64_t frame, std::span<std::byte> out,
                                       Scratch& scratch) const;  // nothing: fine
  // Bytes [offset, offset + out.size()) of file `file`, looping over short reads.
  Result<Done> read_bytes(std::uint32_t file, std::uint64_t offset, std::span<std::byte> out) const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

}  // namespace quantem
