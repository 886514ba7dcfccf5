#include <algorithm>
#include <cstring>

#include "quantem/io/bitshuffle.h"
#include "quantem/io/lz4_block.h"
#include "quantem/io/save.h"

namespace quantem {
namespace {

void write_be32(std::byte* to, std::uint64_t v) {
  for (int i = 0; i < 4; ++i) to[i] = static_cast<std::byte>(v >> (24 - 8 * i));
}

}  // namespace

void encode_bslz4_chunk(std::span<const std::byte> elements, std::size_t item_bytes, std::vector<std::byte>& chunk) {
  thread_local std::vector<std::byte> planes;  // one block
  const std::size_t n_elements = elements.size() / item_bytes;
  const std::size_t block_elements = std::max<std::size_t>(128, 8192 / item_bytes / 8 * 8),
                    block_bytes = block_elements * item_bytes;
  const std::size_t n_blocks = (n_elements + block_elements - 1) / block_elements;
  planes.resize(block_bytes);
  chunk.resize(12 + n_blocks * (4 + lz4_bound(block_bytes)) + 8 * item_bytes);
  write_be32(chunk.data(), elements.size() >> 32);
  write_be32(chunk.data() + 4, elements.size());
  write_be32(chunk.data() + 8, block_bytes);
  std::size_t at = 12, done = 0;
  while (done < elements.size()) {
    const std::size_t n = std::min(block_elements, (elements.size() - done) / item_bytes / 8 * 8) * item_bytes;
    if (n == 0) break;
    planes_from_elements(elements.subspan(done, n), item_bytes, std::span(planes).first(n));
    const std::size_t packed = encode_lz4_block(std::span(planes).first(n), std::span(chunk).subspan(at + 4));
    write_be32(chunk.data() + at, packed);
    at += 4 + packed;
    done += n;
  }
  const std::size_t tail = elements.size() - done;
  if (tail != 0) std::memcpy(chunk.data() + at, elements.data() + done, tail);
  chunk.resize(at + tail);
}

}  // namespace quantem
