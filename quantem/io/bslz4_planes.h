#pragma once
// A bitshuffle chunk (filter 32008; none, LZ4 or zstd) decoded as far as its bit planes: what the fast ingest wants,
// since a block's planes are already "one bit of every pixel". Layout of a block in bitshuffle.h, of a chunk in
// docs/formats.md 2.3.
//
// Same checks, same verdicts as decode_chunk: every length word is walked before anything is decoded, nothing is read
// past `stored`, nothing is written outside the blocks of the target.

#include <cstddef>
#include <cstdint>
#include <span>

#include "quantem/io/filters.h"

namespace quantem {

enum class BlockCodec : std::uint8_t { none = 0, lz4 = 2, zstd = 3 };

// How the elements of a chunk fall into blocks: n_full_blocks blocks of block_elements, then one of
// short_block_elements (0: there is none; always a multiple of 8), then tail_elements (0-7) as they are.
struct PlaneGeometry {
  BlockCodec codec = BlockCodec::lz4;
  std::size_t item_bytes = 0;
  std::uint64_t block_elements = 0, n_full_blocks = 0;
  std::uint64_t short_block_elements = 0, tail_elements = 0;
  [[nodiscard]] std::uint64_t n_blocks() const { return n_full_blocks + (short_block_elements != 0 ? 1 : 0); }
  [[nodiscard]] std::uint64_t elements_of(std::uint64_t block) const {
    return block < n_full_blocks ? block_elements : short_block_elements;
  }
  [[nodiscard]] std::uint64_t bytes_of(std::uint64_t block) const { return elements_of(block) * item_bytes; }
  bool operator==(const PlaneGeometry&) const = default;
};

// Geometry of one stored chunk that holds chunk_bytes bytes of elements: the block size stands in its header (LZ4,
// zstd), or in the client values (none). `filter` is the 32008 entry of the pipeline. Chunks of one dataset nearly
// always agree, but need not: compare.
ChunkFault plane_geometry(std::span<const std::byte> stored, const Filter& filter, std::size_t item_bytes,
                          std::uint64_t chunk_bytes, PlaneGeometry& geometry);

// Block c goes to base + c * block_stride_bytes, its plane b at + b * elements_of(c) / 8; bytes_of(c) bytes are used
// there, so a target for 512 frames side by side is base = scratch + frame * stride, block_stride_bytes = 512 * stride.
struct PlaneTarget {
  std::byte* base = nullptr;
  std::uint64_t block_stride_bytes = 0;
  std::byte* tail = nullptr;  // tail_elements * item_bytes bytes; may be null when there are none
  // Null: every plane is written. Otherwise n_blocks() numbers: planes from n_planes[c] on are zero and were *not*
  // written (in sparse counts most high planes), planes below it are complete.
  std::uint8_t* n_planes = nullptr;
};

// `geometry` must come from plane_geometry of a chunk with the same geometry; another one in this chunk is
// chunk_block_size. Item sizes 1 to 31 bytes when n_planes is given. On a fault the blocks of the target are
// unspecified.
ChunkFault decode_planes(std::span<const std::byte> stored, const PlaneGeometry& geometry, const PlaneTarget& target);

// The blocks of one chunk one at a time, for ingest that decodes a few blocks of many frames before the next few. The same
// checks and verdicts as decode_planes: `stored` is walked to its end before the first block is decoded.
class PlaneBlocks {
 public:
  ChunkFault open(std::span<const std::byte> stored, const PlaneGeometry& geometry);
  // The next block into the first bytes_of(block) bytes of `to`. Bytes from n_written on are zero in the block and not
  // in `to`: up to 32 of them hold what a copy of 16 bytes at a time left there, the rest were not written.
  ChunkFault next(std::byte* to, std::uint64_t& n_written);
  // Asks for the next block's first bytes, which another frame's decoding then hides.
  void prefetch() const {
    if (at_ + 192 < stored_.size())
      for (std::size_t i = 0; i < 192; i += 64) __builtin_prefetch(stored_.data() + at_ + i);
  }
  // tail_elements elements as they are. Valid after open().
  [[nodiscard]] std::span<const std::byte> tail() const { return stored_.subspan(tail_at_); }

 private:
  std::span<const std::byte> stored_;
  const PlaneGeometry* geometry_ = nullptr;  // the caller's
  std::size_t at_ = 0, tail_at_ = 0;
  std::uint32_t block_ = 0;
};

// The whole chunk as elements: planes block by block into `scratch` (grows to one block), then into `out` (all of the
// chunk).
ChunkFault decode_bitshuffle(std::span<const std::byte> stored, const Filter& filter, std::size_t item_bytes,
                             std::span<std::byte> out, std::vector<std::byte>& scratch);

}  // namespace quantem
