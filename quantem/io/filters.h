#pragma once
// HDF5 filters, undone by this program and never by a plugin: bytes of one stored chunk -> elements.
// Supported, alone or in a pipeline: 1 deflate, 2 shuffle, 32004 LZ4, 32008 bitshuffle {none, LZ4, zstd}, 32015 zstd.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quantem/core/result.h"

namespace quantem {

struct Filter {
  std::uint32_t id = 0;
  std::vector<std::uint32_t> client;  // client data values
  bool operator==(const Filter&) const = default;
};
// In the order in which a writer applied them; decoding undoes them last to first.
using FilterPipeline = std::vector<Filter>;

std::string filter_name(std::uint32_t id);                     // "bitshuffle", "ZFP", "filter 40000"
Result<Done> check_supported(const FilterPipeline& pipeline);  // unsupported, with number, name and what to do

// Why a chunk was refused; the words of docs/formats.md.
enum class ChunkVerdict : std::uint8_t {
  ok,
  chunk_truncated,
  chunk_size,
  chunk_block_size,
  chunk_trailing,
  lz4_truncated,
  lz4_overrun,
  lz4_offset,
  lz4_short,
  zstd,
  deflate
};
struct ChunkFault {
  ChunkVerdict verdict = ChunkVerdict::ok;
  std::uint32_t block = 0;  // of the compressed blocks inside the chunk
  std::uint64_t byte = 0;   // in the stored bytes, where known
  [[nodiscard]] bool ok() const { return verdict == ChunkVerdict::ok; }
};
std::string_view verdict_name(ChunkVerdict verdict);
std::string describe(const ChunkFault& fault);  // "lz4_offset: LZ4 match before the start of block 3 (byte 118)"

// Scratch memory that calls on one thread share; it grows to what a chunk needs.
struct DecodeScratch {
  std::vector<std::byte> a, b;    // what lies between two filters
  std::vector<std::byte> planes;  // one bitshuffle block
};

// Decodes one stored chunk into exactly out.size() bytes, the elements as the file holds them (its byte order). Bit i
// of filter_mask set: filter i was not applied to this chunk. Never reads past `stored`, never writes past `out`; on a
// fault the contents of `out` are unspecified but initialised by the caller's bytes or this call's. Memory: O(out) at
// most, whatever the bytes claim.
ChunkFault decode_chunk(std::span<const std::byte> stored, const FilterPipeline& pipeline, std::uint32_t filter_mask,
                        std::size_t item_bytes, std::span<std::byte> out, DecodeScratch& scratch);

}  // namespace quantem
