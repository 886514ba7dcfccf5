#pragma once
// Puts the streams of one block into their final form: decides which planes are stored and which bits are listed, and
// lays out planes | entry | list_base | list_end | lists in one allocation. Every encoder goes through it, so that all
// make the same bytes.

#include <cstdint>
#include <vector>

#include "quantem/core/array.h"
#include "quantem/core/result.h"
#include "quantem/resident/sliced.h"

namespace quantem {

struct EncodedBlock {
  Buffer bytes;
  SlicedBlock block;  // points into bytes; moving the EncodedBlock keeps it valid
};

// Reusable: start() keeps the memory of the block before. One thread at a time.
class BlockWriter {
 public:
  static constexpr std::uint32_t kPlaneWords = 16, kMaxPlanes = 63;
  // The last plane's offset must fit an entry's u32.
  static constexpr std::uint64_t kMaxPlaneBytes = (std::uint64_t{1} << 32) - kPlaneBytes;

  explicit BlockWriter(std::uint64_t max_plane_bytes = kMaxPlaneBytes) : max_plane_bytes_(max_plane_bytes) {}

  void start(std::uint32_t n_streams);

  // The next stream, in stream order: plane b is words [16 b, 16 b + 16) of `planes`, lowest plane first.
  void add_stream(const std::uint32_t* planes, std::uint32_t n_planes);
  // The same without a copy: write up to kMaxPlanes planes at next_planes() (64-byte aligned, contents undefined), then
  // commit. set_bits, when the encoder knows them, are the set bits of each plane.
  [[nodiscard]] std::uint32_t* next_planes();
  void commit(std::uint32_t n_planes);
  void commit(std::uint32_t n_planes, const std::uint16_t* set_bits);

  // commit in two steps, for encoders that write lists faster: which planes are stored and how many bits are listed above
  // them (set_bits is read from the top plane down to the first that is stored), ...
  struct Cut {
    std::uint32_t width, n_listed;
  };
  static Cut cut(std::uint32_t n_planes, const std::uint16_t* set_bits);
  // ... then room for the list: the caller writes cut.n_listed entries, ordered by plane, then position, and may overwrite
  // kListSlack entries past them. Call it when the planes are in place.
  static constexpr std::size_t kListSlack = 64;
  [[nodiscard]] std::uint16_t* store(const Cut& cut);

  // unsupported when the planes pass 4 GiB, with the ways out; out_of_memory; internal when streams are missing.
  Result<EncodedBlock> finish();

 private:
  bool reserve_planes(std::uint64_t n_bytes);
  void store_listing(const Cut& cut, std::uint32_t n_planes);

  std::uint64_t max_plane_bytes_;
  std::uint32_t n_streams_ = 0, n_added_ = 0;
  Buffer planes_;
  std::uint64_t plane_bytes_ = 0;
  std::vector<std::uint32_t> entry_, list_base_;
  std::vector<std::uint16_t> list_end_, lists_;
  std::size_t n_lists_ = 0;
  bool too_large_ = false, out_of_memory_ = false;
};

}  // namespace quantem
