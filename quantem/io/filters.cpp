#include "quantem/io/filters.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "quantem/io/bslz4_planes.h"
#include "quantem/io/byte_codecs.h"

namespace quantem {
namespace {

enum : std::uint32_t { kDeflate = 1, kShuffle = 2, kLz4 = 32004, kBitshuffle = 32008, kZstd = 32015 };

struct NamedFilter {
  std::uint32_t id;
  const char* name;
};
constexpr std::array kNames = std::to_array<NamedFilter>({
    {kDeflate, "deflate"},
    {kShuffle, "shuffle"},
    {3, "Fletcher32"},
    {4, "szip"},
    {5, "N-bit"},
    {6, "scale-offset"},
    {305, "LZO"},
    {307, "bzip2"},
    {32000, "LZF"},
    {32001, "Blosc"},
    {32002, "MAFISC"},
    {32003, "Snappy"},
    {kLz4, "LZ4"},
    {kBitshuffle, "bitshuffle"},
    {32010, "JPEG"},
    {32012, "APAX"},
    {32013, "ZFP"},
    {32014, "FPZIP"},
    {kZstd, "zstd"},
    {32017, "SZ"},
    {32018, "FCIDECOMP"},
    {32019, "JPEG"},
    {32022, "Granular BitRound"},
    {32023, "SZ3"},
    {32024, "Delta-Rice"},
    {32026, "Blosc2"},
    {32027, "FLAC"},
    {32028, "SPERR"},
});

bool applied(std::size_t i, std::uint32_t filter_mask) {
  return i >= 32 || (filter_mask >> i & 1) == 0;
}

// Filters whose output has the size of their input, so that the size before them is known.
bool keeps_size(const Filter& f) {
  return f.id == kShuffle || (f.id == kBitshuffle && (f.client.size() < 5 || f.client[4] == 0));
}

// The most that a compressor may have made of n bytes: what an intermediate buffer may take, whatever the stored sizes
// claim.
std::size_t intermediate_bound(std::size_t n) {
  return n + n / 2 + 65536;
}

std::size_t bitshuffle_output(const Filter& f, std::span<const std::byte> in) {
  if (keeps_size(f)) return in.size();
  return in.size() < 8 ? 0 : static_cast<std::size_t>(read_be64(in.data()));
}

// Undoes one filter. `out` is resized views' worth of memory: exactly what must come out, or the bound of it.
ChunkFault undo(const Filter& f, std::span<const std::byte> in, std::size_t item_bytes, std::span<std::byte> out,
                bool exact, std::vector<std::byte>& planes, std::size_t& n_out) {
  n_out = out.size();
  switch (f.id) {
    case kDeflate:
      return decode_deflate(in, out, exact, n_out);
    case kZstd:
      return decode_zstd(in, out, exact, n_out);
    case kLz4:
      return decode_lz4_framed(in, out, exact, n_out);
    case kShuffle: {
      if (exact && in.size() < out.size()) return {ChunkVerdict::chunk_truncated, 0, in.size()};
      if (in.size() > out.size())
        return {exact ? ChunkVerdict::chunk_trailing : ChunkVerdict::chunk_size, 0, out.size()};
      n_out = in.size();
      const std::size_t s = !f.client.empty() && f.client[0] != 0 ? f.client[0] : item_bytes;
      undo_shuffle(in, std::max<std::size_t>(s, 1), out.first(n_out));
      return {};
    }
    case kBitshuffle: {
      if (!exact) {
        n_out = bitshuffle_output(f, in);
        if (!keeps_size(f) && in.size() < 12) return {ChunkVerdict::chunk_truncated, 0, in.size()};
        if (n_out > out.size()) return {ChunkVerdict::chunk_size, 0, 0};
      }
      return decode_bitshuffle(in, f, item_bytes, out.first(n_out), planes);
    }
    default:
      return {ChunkVerdict::chunk_size, 0, 0};  // check_supported refuses these with their name
  }
}

}  // namespace

std::string filter_name(std::uint32_t id) {
  const auto it = std::find_if(kNames.begin(), kNames.end(), [&](const NamedFilter& f) { return f.id == id; });
  return it != kNames.end() ? it->name : "filter " + std::to_string(id);
}

Result<Done> check_supported(const FilterPipeline& pipeline) {
  constexpr const char* kWayOut =
      "supported are deflate, shuffle, LZ4, zstd and bitshuffle (alone, with LZ4 or with zstd); "
      "rewrite with bitshuffle-LZ4";
  for (const Filter& f : pipeline) {
    switch (f.id) {
      case kDeflate:
      case kShuffle:
      case kLz4:
      case kZstd:
        break;
      case kBitshuffle: {
        const std::uint32_t code = f.client.size() > 4 ? f.client[4] : 0;
        if (code != 0 && code != 2 && code != 3)
          return Error{Code::unsupported, "filter 32008 (bitshuffle) with compressor code " + std::to_string(code) +
                                              " is not supported: " + kWayOut};
        break;
      }
      default: {
        const std::string name = filter_name(f.id);
        const std::string number = "filter " + std::to_string(f.id);
        return Error{Code::unsupported,
                     number + (name == number ? "" : " (" + name + ")") + " is not supported: " + kWayOut};
      }
    }
  }
  if (pipeline.size() > 32)
    return Error{Code::unsupported,
                 "a pipeline of " + std::to_string(pipeline.size()) + " filters: HDF5 admits at most 32"};
  return Done{};
}

std::string_view verdict_name(ChunkVerdict verdict) {
  constexpr std::string_view kWords[] = {"ok",
                                         "chunk_truncated",
                                         "chunk_size",
                                         "chunk_block_size",
                                         "chunk_trailing",
                                         "lz4_truncated",
                                         "lz4_overrun",
                                         "lz4_offset",
                                         "lz4_short",
                                         "zstd",
                                         "deflate"};
  return kWords[static_cast<std::size_t>(verdict)];
}

std::string describe(const ChunkFault& fault) {
  const std::string block = "block " + std::to_string(fault.block), byte = "byte " + std::to_string(fault.byte);
  const std::string at = " (" + block + ", " + byte + ")";
  const std::string word = std::string(verdict_name(fault.verdict)) + ": ";
  switch (fault.verdict) {
    case ChunkVerdict::ok:
      return "ok";
    case ChunkVerdict::chunk_truncated:
      return word + "the chunk ends before its data" + at;
    case ChunkVerdict::chunk_size:
      return word + "the chunk's size is not the one its dataset states";
    case ChunkVerdict::chunk_block_size:
      return word + "block size is 0 or no multiple of 8 elements";
    case ChunkVerdict::chunk_trailing:
      return word + "bytes are left behind the last block" + at;
    case ChunkVerdict::lz4_truncated:
      return word + "LZ4 data end inside a sequence" + at;
    case ChunkVerdict::lz4_overrun:
      return word + "LZ4 data write past the end of the block" + at;
    case ChunkVerdict::lz4_offset:
      return word + "LZ4 match before the start of the block, or at offset 0" + at;
    case ChunkVerdict::lz4_short:
      return word + "LZ4 data end before the block is full" + at;
    case ChunkVerdict::zstd:
      return word + "no valid zstd data of the block's size" + at;
    case ChunkVerdict::deflate:
      return word + "no valid zlib data of the chunk's size (" + byte + ")";
  }
  return word;
}

ChunkFault decode_chunk(std::span<const std::byte> stored, const FilterPipeline& pipeline, std::uint32_t filter_mask,
                        std::size_t item_bytes, std::span<std::byte> out, DecodeScratch& scratch) {
  std::size_t first = 0;  // the first filter that was applied: its output of decoding is `out`
  while (first < pipeline.size() && !applied(first, filter_mask)) ++first;
  if (first == pipeline.size()) {
    if (stored.size() < out.size()) return {ChunkVerdict::chunk_truncated, 0, stored.size()};
    if (stored.size() > out.size()) return {ChunkVerdict::chunk_trailing, 0, out.size()};
    if (!out.empty()) std::memcpy(out.data(), stored.data(), out.size());
    return {};
  }

  std::span<const std::byte> in = stored;
  std::vector<std::byte>* next = &scratch.a;
  for (std::size_t i = pipeline.size(); i-- > first;) {
    if (!applied(i, filter_mask)) continue;
    bool exact = true;  // the size of what comes out is known: everything before keeps sizes
    for (std::size_t k = first; k < i; ++k)
      if (applied(k, filter_mask) && !keeps_size(pipeline[k])) exact = false;
    std::span<std::byte> to = out;
    if (i != first) {
      const std::size_t n = exact ? out.size() : intermediate_bound(out.size());
      if (next->size() < n) next->resize(n);
      to = {next->data(), n};
    }
    std::size_t n_out = 0;
    if (const ChunkFault fault = undo(pipeline[i], in, item_bytes, to, exact, scratch.planes, n_out); !fault.ok())
      return fault;
    in = to.first(n_out);
    next = next == &scratch.a ? &scratch.b : &scratch.a;
  }
  return {};
}

}  // namespace quantem
