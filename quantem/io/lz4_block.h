#pragma once
// One LZ4 block (no frame, no header) -> exactly n_out bytes. Ours and not liblz4's, because liblz4 1.9.4 accepts a
// match offset of 0 and then returns bytes that nobody wrote; here one comparison refuses 0 and "before the start"
// together.
//
// Checked for every sequence: reads stay inside the block's bytes, writes inside the output, 0 < offset <= bytes
// written, the output is filled exactly and the input used exactly. Source: LZ4 block format description 1.6.3.

#include <cstddef>
#include <cstdint>
#include <span>

#include "quantem/io/filters.h"

namespace quantem {

struct Lz4Outcome {
  ChunkVerdict verdict = ChunkVerdict::ok;
  std::uint64_t byte = 0;  // in the input: where the fault was seen
  // Output bytes from here to the end are zeros that were not written: the block ends in one long run of them, as the
  // high bit planes of sparse counts do. n_out when everything was written. Never a place that a later match reads.
  std::uint64_t n_written = 0;
};

// Writes nothing outside `out`, not even for a moment; reads nothing outside `in` and `out`.
Lz4Outcome decode_lz4_block(std::span<const std::byte> in, std::span<std::byte> out);
// The same with the zeros at the end written.
Lz4Outcome decode_lz4_block_filled(std::span<const std::byte> in, std::span<std::byte> out);

// Compresses with liblz4 (fast, level 1). Returns the bytes written, at most lz4_bound(in.size()), which `out` must
// hold.
std::size_t lz4_bound(std::size_t n_in);
std::size_t encode_lz4_block(std::span<const std::byte> in, std::span<std::byte> out);

}  // namespace quantem
