#pragma once
// The byte filters below bitshuffle: each undoes one filter on one chunk. `out` is the most that may come out; `exact`
// says that all of it must (otherwise n_out tells how much did: the input of an earlier filter, whose size nobody
// states).

#include <cstddef>
#include <cstdint>
#include <span>

#include "quantem/io/filters.h"

namespace quantem {

constexpr std::uint32_t read_be32(const std::byte* p) {
  return std::to_integer<std::uint32_t>(p[0]) << 24 | std::to_integer<std::uint32_t>(p[1]) << 16 |
         std::to_integer<std::uint32_t>(p[2]) << 8 | std::to_integer<std::uint32_t>(p[3]);
}
constexpr std::uint64_t read_be64(const std::byte* p) {
  return std::uint64_t{read_be32(p)} << 32 | read_be32(p + 4);
}

ChunkFault decode_deflate(std::span<const std::byte> in, std::span<std::byte> out, bool exact, std::size_t& n_out);
// One or more zstd frames.
ChunkFault decode_zstd(std::span<const std::byte> in, std::span<std::byte> out, bool exact, std::size_t& n_out);
// One zstd frame, which must fill `out`.
bool decode_zstd_frame(std::span<const std::byte> in, std::span<std::byte> out);
// Filter 32004: u64 BE bytes, u32 BE block bytes, blocks of {u32 BE length, LZ4 or raw}.
ChunkFault decode_lz4_framed(std::span<const std::byte> in, std::span<std::byte> out, bool exact, std::size_t& n_out);
// Filter 2: byte k of element i lies at k * n + i; bytes past the last whole element are as they were. out.size() ==
// in.size().
void undo_shuffle(std::span<const std::byte> in, std::size_t item_bytes, std::span<std::byte> out);

}  // namespace quantem
