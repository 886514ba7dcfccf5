#include "quantem/io/bslz4_planes.h"

#include <algorithm>
#include <cstring>

#include "quantem/io/bitshuffle.h"
#include "quantem/io/byte_codecs.h"
#include "quantem/io/lz4_block.h"

namespace quantem {
namespace {

constexpr std::uint64_t kHeaderBytes = 12;  // u64 chunk bytes, u32 block bytes

std::uint64_t default_block_elements(std::size_t item_bytes) {
  return std::max<std::uint64_t>(128, 8192 / item_bytes / 8 * 8);
}

void split(std::uint64_t n_elements, PlaneGeometry& g) {
  g.n_full_blocks = n_elements / g.block_elements;
  const std::uint64_t rest = n_elements % g.block_elements;
  g.short_block_elements = rest / 8 * 8;
  g.tail_elements = rest % 8;
}

// The chain of length words must end exactly at the end. No header and no words without compressor.
ChunkFault walk(std::span<const std::byte> stored, const PlaneGeometry& g) {
  const std::uint64_t tail_bytes = g.tail_elements * g.item_bytes;
  std::uint64_t at = kHeaderBytes;
  const std::uint64_t n_blocks = g.n_blocks();
  for (std::uint64_t b = 0; b < n_blocks; ++b) {
    if (stored.size() - at < 4) return {ChunkVerdict::chunk_truncated, static_cast<std::uint32_t>(b), at};
    const std::uint64_t n = read_be32(stored.data() + at);
    if (n > stored.size() - at - 4) return {ChunkVerdict::chunk_truncated, static_cast<std::uint32_t>(b), at};
    at += 4 + n;
  }
  if (stored.size() - at < tail_bytes) return {ChunkVerdict::chunk_truncated, static_cast<std::uint32_t>(n_blocks), at};
  if (stored.size() - at > tail_bytes) return {ChunkVerdict::chunk_trailing, static_cast<std::uint32_t>(n_blocks), at};
  return {};
}

// Planes that hold a set bit or at least lie below one: bytes before n_written, rounded up to whole planes and made
// whole.
std::uint8_t complete_planes(std::byte* to, std::uint64_t n_written, std::uint64_t plane_bytes) {
  const std::uint64_t n_planes = (n_written + plane_bytes - 1) / plane_bytes;
  std::memset(to + n_written, 0, static_cast<std::size_t>(n_planes * plane_bytes - n_written));
  return static_cast<std::uint8_t>(n_planes);
}

// Reads the header where there is one; checks sizes; leaves `stored` as it is.
ChunkFault read_geometry(std::span<const std::byte> stored, BlockCodec codec, std::uint64_t client_block,
                         std::size_t item_bytes, std::uint64_t chunk_bytes, PlaneGeometry& g) {
  g = {codec, item_bytes, 0, 0, 0, 0};
  if (item_bytes == 0 || chunk_bytes % item_bytes != 0) return {ChunkVerdict::chunk_size, 0, 0};
  if (codec == BlockCodec::none) {
    g.block_elements = client_block != 0 ? client_block : default_block_elements(item_bytes);
    if (g.block_elements % 8 != 0) return {ChunkVerdict::chunk_block_size, 0, 0};
    if (stored.size() < chunk_bytes) return {ChunkVerdict::chunk_truncated, 0, stored.size()};
    if (stored.size() > chunk_bytes) return {ChunkVerdict::chunk_trailing, 0, chunk_bytes};
  } else {
    if (stored.size() < kHeaderBytes) return {ChunkVerdict::chunk_truncated, 0, stored.size()};
    if (read_be64(stored.data()) != chunk_bytes) return {ChunkVerdict::chunk_size, 0, 0};
    const std::uint64_t block_bytes = read_be32(stored.data() + 8);
    if (block_bytes == 0 || block_bytes % (8 * std::uint64_t{item_bytes}) != 0)
      return {ChunkVerdict::chunk_block_size, 0, 8};
    g.block_elements = block_bytes / item_bytes;
  }
  split(chunk_bytes / item_bytes, g);
  return {};
}

struct BlockInput {
  std::span<const std::byte> bytes;
  std::uint32_t block;
  std::uint64_t at;  // of the bytes in the chunk
};

// One block into `to` (out_bytes long). n_written as in Lz4Outcome.
ChunkFault decode_block_planes(const BlockInput& in, BlockCodec codec, std::span<std::byte> to,
                               std::uint64_t& n_written) {
  n_written = to.size();
  switch (codec) {
    case BlockCodec::none:
      std::memcpy(to.data(), in.bytes.data(), to.size());
      return {};
    case BlockCodec::zstd:
      if (!decode_zstd_frame(in.bytes, to)) return {ChunkVerdict::zstd, in.block, in.at};
      return {};
    case BlockCodec::lz4:
      break;
  }
  const Lz4Outcome o = decode_lz4_block(in.bytes, to);
  n_written = o.n_written;
  if (o.verdict != ChunkVerdict::ok) return {o.verdict, in.block, in.at + o.byte};
  return {};
}

// Calls each(BlockInput) for the blocks of a walked chunk, stops at the first fault; then `at` is where the tail
// begins.
template <class F>
ChunkFault for_each_block(std::span<const std::byte> stored, const PlaneGeometry& g, std::uint64_t& at, const F& each) {
  at = g.codec == BlockCodec::none ? 0 : kHeaderBytes;
  const std::uint64_t n_blocks = g.n_blocks();
  for (std::uint64_t b = 0; b < n_blocks; ++b) {
    std::uint64_t n = g.bytes_of(b);
    if (g.codec != BlockCodec::none) {
      n = read_be32(stored.data() + at);
      at += 4;
    }
    const BlockInput input{stored.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(n)),
                           static_cast<std::uint32_t>(b), at};
    if (const ChunkFault fault = each(input); !fault.ok()) return fault;
    at += n;
  }
  return {};
}

BlockCodec codec_of(const Filter& filter) {
  const std::uint32_t code = filter.client.size() > 4 ? filter.client[4] : 0;
  return code == 2 ? BlockCodec::lz4 : code == 3 ? BlockCodec::zstd : BlockCodec::none;
}
std::size_t item_bytes_of(const Filter& filter, std::size_t item_bytes) {
  return filter.client.size() > 2 && filter.client[2] != 0 ? filter.client[2] : item_bytes;
}

// A chunk of this geometry, with a chain of length words that ends at its end.
ChunkFault check(std::span<const std::byte> stored, const PlaneGeometry& geometry) {
  const std::uint64_t n_elements =
      geometry.n_full_blocks * geometry.block_elements + geometry.short_block_elements + geometry.tail_elements;
  PlaneGeometry found;
  if (const ChunkFault fault = read_geometry(stored, geometry.codec, geometry.block_elements, geometry.item_bytes,
                                             n_elements * geometry.item_bytes, found);
      !fault.ok())
    return fault;
  if (!(found == geometry)) return {ChunkVerdict::chunk_block_size, 0, 8};
  if (geometry.codec != BlockCodec::none)
    if (const ChunkFault fault = walk(stored, geometry); !fault.ok()) return fault;
  return {};
}

}  // namespace

ChunkFault plane_geometry(std::span<const std::byte> stored, const Filter& filter, std::size_t item_bytes,
                          std::uint64_t chunk_bytes, PlaneGeometry& geometry) {
  const std::uint64_t client_block = filter.client.size() > 3 ? filter.client[3] : 0;
  return read_geometry(stored, codec_of(filter), client_block, item_bytes_of(filter, item_bytes), chunk_bytes,
                       geometry);
}

ChunkFault decode_planes(std::span<const std::byte> stored, const PlaneGeometry& geometry, const PlaneTarget& target) {
  if (const ChunkFault fault = check(stored, geometry); !fault.ok()) return fault;
  std::uint64_t at = 0;
  const ChunkFault fault = for_each_block(stored, geometry, at, [&](const BlockInput& in) -> ChunkFault {
    std::byte* const to = target.base + in.block * target.block_stride_bytes;
    const std::uint64_t n_bytes = geometry.bytes_of(in.block);
    std::uint64_t n_written = 0;
    if (const ChunkFault f =
            decode_block_planes(in, geometry.codec, {to, static_cast<std::size_t>(n_bytes)}, n_written);
        !f.ok())
      return f;
    if (target.n_planes)
      target.n_planes[in.block] = complete_planes(to, n_written, geometry.elements_of(in.block) / 8);
    else
      std::memset(to + n_written, 0, static_cast<std::size_t>(n_bytes - n_written));
    return {};
  });
  if (!fault.ok()) return fault;
  if (geometry.tail_elements != 0 && target.tail)
    std::memcpy(target.tail, stored.data() + at,
                static_cast<std::size_t>(geometry.tail_elements * geometry.item_bytes));
  return {};
}

ChunkFault PlaneBlocks::open(std::span<const std::byte> stored, const PlaneGeometry& geometry) {
  if (const ChunkFault fault = check(stored, geometry); !fault.ok()) return fault;
  stored_ = stored;
  geometry_ = &geometry;
  at_ = geometry.codec == BlockCodec::none ? 0 : kHeaderBytes;
  tail_at_ = stored.size() - static_cast<std::size_t>(geometry.tail_elements * geometry.item_bytes);
  block_ = 0;
  return {};
}

ChunkFault PlaneBlocks::next(std::byte* to, std::uint64_t& n_written) {
  const auto n_out = static_cast<std::size_t>(geometry_->bytes_of(block_));
  std::size_t n_in = n_out;
  if (geometry_->codec != BlockCodec::none) {
    n_in = read_be32(stored_.data() + at_);
    at_ += 4;
  }
  const BlockInput in{stored_.subspan(at_, n_in), block_++, at_};
  at_ += n_in;
  return decode_block_planes(in, geometry_->codec, {to, n_out}, n_written);
}

ChunkFault decode_bitshuffle(std::span<const std::byte> stored, const Filter& filter, std::size_t item_bytes,
                             std::span<std::byte> out, std::vector<std::byte>& scratch) {
  PlaneGeometry g;
  if (const ChunkFault fault = plane_geometry(stored, filter, item_bytes, out.size(), g); !fault.ok()) return fault;
  if (g.codec != BlockCodec::none)
    if (const ChunkFault fault = walk(stored, g); !fault.ok()) return fault;
  const std::uint64_t largest = g.n_full_blocks != 0 ? g.block_elements : g.short_block_elements;  // at most the chunk
  if (scratch.size() < largest * g.item_bytes) scratch.resize(static_cast<std::size_t>(largest * g.item_bytes));

  std::uint64_t at = 0, done = 0;
  const ChunkFault fault = for_each_block(stored, g, at, [&](const BlockInput& in) -> ChunkFault {
    const std::size_t n_bytes = static_cast<std::size_t>(g.bytes_of(in.block));
    std::uint64_t n_written = 0;
    if (const ChunkFault f = decode_block_planes(in, g.codec, {scratch.data(), n_bytes}, n_written); !f.ok()) return f;
    // Zero planes at the end are not made: only the bytes of the elements that have a set plane.
    const std::size_t byte_planes = n_bytes / g.item_bytes,
                      n_live = static_cast<std::size_t>((n_written + byte_planes - 1) / byte_planes);
    std::memset(scratch.data() + n_written, 0, n_live * byte_planes - static_cast<std::size_t>(n_written));
    elements_from_planes({scratch.data(), n_bytes}, g.item_bytes, out.subspan(static_cast<std::size_t>(done), n_bytes),
                         8 * n_live);
    done += n_bytes;
    return {};
  });
  if (!fault.ok()) return fault;
  if (const std::size_t tail = static_cast<std::size_t>(g.tail_elements * g.item_bytes); tail != 0)
    std::memcpy(out.data() + done, stored.data() + at, tail);
  return {};
}

}  // namespace quantem
