#include "quantem/io/byte_codecs.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>

#include "quantem/io/lz4_block.h"

namespace quantem {
namespace {

struct FreeContext {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};
ZSTD_DCtx* zstd_context() {  // 160 KB, worth keeping
  thread_local const std::unique_ptr<ZSTD_DCtx, FreeContext> context(ZSTD_createDCtx());
  return context.get();
}

}  // namespace

ChunkFault decode_deflate(std::span<const std::byte> in, std::span<std::byte> out, bool exact, std::size_t& n_out) {
  n_out = 0;
  z_stream z{};
  if (inflateInit(&z) != Z_OK) return {ChunkVerdict::deflate, 0, 0};
  // zlib counts in 32 bits: feed and drain in pieces.
  constexpr std::size_t kPiece = std::numeric_limits<uInt>::max() / 2;
  std::size_t n_in = 0;
  int state = Z_OK;
  while (state == Z_OK) {
    const std::size_t give = std::min(kPiece, in.size() - n_in), take = std::min(kPiece, out.size() - n_out);
    // zlib never writes through next_in; its header lacks the const.
    z.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(in.data() + n_in));
    z.avail_in = static_cast<uInt>(give);
    z.next_out = reinterpret_cast<Bytef*>(out.data() + n_out);
    z.avail_out = static_cast<uInt>(take);
    state = inflate(&z, Z_NO_FLUSH);
    const std::size_t used = give - z.avail_in, made = take - z.avail_out;
    n_in += used;
    n_out += made;
    if (state == Z_OK && used == 0 && made == 0) state = Z_BUF_ERROR;
  }
  inflateEnd(&z);
  if (state != Z_STREAM_END || (exact && n_out != out.size())) return {ChunkVerdict::deflate, 0, n_in};
  if (n_in != in.size()) return {ChunkVerdict::chunk_trailing, 0, n_in};
  return {};
}

ChunkFault decode_zstd(std::span<const std::byte> in, std::span<std::byte> out, bool exact, std::size_t& n_out) {
  n_out = 0;
  ZSTD_DCtx* const context = zstd_context();
  if (!context || in.empty()) return {ChunkVerdict::zstd, 0, 0};
  const std::size_t n = ZSTD_decompressDCtx(context, out.data(), out.size(), in.data(), in.size());
  if (ZSTD_isError(n) || (exact && n != out.size())) return {ChunkVerdict::zstd, 0, 0};
  n_out = n;
  return {};
}

bool decode_zstd_frame(std::span<const std::byte> in, std::span<std::byte> out) {
  ZSTD_DCtx* const context = zstd_context();
  if (!context || in.empty() || ZSTD_findFrameCompressedSize(in.data(), in.size()) != in.size()) return false;
  const std::size_t n = ZSTD_decompressDCtx(context, out.data(), out.size(), in.data(), in.size());
  return !ZSTD_isError(n) && n == out.size();
}

ChunkFault decode_lz4_framed(std::span<const std::byte> in, std::span<std::byte> out, bool exact, std::size_t& n_out) {
  n_out = 0;
  if (in.size() < 12) return {ChunkVerdict::chunk_truncated, 0, in.size()};
  const std::uint64_t chunk_bytes = read_be64(in.data());
  if (exact ? chunk_bytes != out.size() : chunk_bytes > out.size()) return {ChunkVerdict::chunk_size, 0, 0};
  const std::uint64_t block_bytes = read_be32(in.data() + 8);
  if (block_bytes == 0 || block_bytes > std::numeric_limits<std::int32_t>::max())
    return {ChunkVerdict::chunk_block_size, 0, 8};

  // First the chain of lengths, then the blocks.
  std::uint64_t at = 12, made = 0;
  std::uint32_t block = 0;
  for (; made < chunk_bytes; ++block, made += block_bytes) {
    if (in.size() - at < 4) return {ChunkVerdict::chunk_truncated, block, at};
    const std::uint64_t n = read_be32(in.data() + at);
    if (n > in.size() - at - 4) return {ChunkVerdict::chunk_truncated, block, at};
    at += 4 + n;
  }
  if (at != in.size()) return {ChunkVerdict::chunk_trailing, block, at};

  at = 12;
  block = 0;
  for (made = 0; made < chunk_bytes; ++block) {
    const std::size_t n = read_be32(in.data() + at);
    const std::size_t plain = static_cast<std::size_t>(std::min(block_bytes, chunk_bytes - made));
    const auto from = in.subspan(at + 4, n);
    const auto to = out.subspan(made, plain);
    if (n == plain) {
      std::memcpy(to.data(), from.data(), n);
    } else if (const Lz4Outcome o = decode_lz4_block_filled(from, to); o.verdict != ChunkVerdict::ok) {
      return {o.verdict, block, at + 4 + o.byte};
    }
    at += 4 + n;
    made += plain;
  }
  n_out = static_cast<std::size_t>(chunk_bytes);
  return {};
}

void undo_shuffle(std::span<const std::byte> in, std::size_t item_bytes, std::span<std::byte> out) {
  const std::size_t n = in.size() / item_bytes;
  for (std::size_t k = 0; n > 0 && k < item_bytes; ++k)  // an element longer than the chunk: nothing to move
    for (std::size_t i = 0; i < n; ++i) out[i * item_bytes + k] = in[k * n + i];
  std::copy(in.begin() + static_cast<std::ptrdiff_t>(n * item_bytes), in.end(),
            out.begin() + static_cast<std::ptrdiff_t>(n * item_bytes));
}

}  // namespace quantem
