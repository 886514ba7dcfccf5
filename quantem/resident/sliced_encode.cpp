#include "quantem/resident/sliced_encode.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <optional>
#include <vector>

#include "quantem/runtime/scratch_pool.h"
#include "quantem/runtime/thread_pool.h"

namespace quantem {
namespace {

using Row = std::array<std::uint64_t, kBlockPositions>;  // one stream's values

// Planes of one stream into the writer: bit j of word k of plane b is bit b of the value at 32 k + j.
template <class T>
void write_stream(const T* values, BlockWriter& writer) {
  std::uint64_t any = 0;
  for (std::uint32_t i = 0; i < kBlockPositions; ++i) any |= values[i];
  const auto n_planes = static_cast<std::uint32_t>(std::bit_width(any));
  std::uint32_t* planes = writer.next_planes();
  if (!planes) return;
  std::memset(planes, 0, std::uint64_t{n_planes} * kPlaneBytes);
  for (std::uint32_t i = 0; any && i < kBlockPositions; ++i)
    for (std::uint64_t v = values[i]; v; v &= v - 1)
      planes[static_cast<std::uint32_t>(std::countr_zero(v)) * BlockWriter::kPlaneWords + i / 32] |= 1u << (i % 32);
  writer.commit(n_planes);
}

// One 8x8 tile: its pixels' streams, and what it adds to its own sum and to the sums of its 32x32 tile.
template <class T>
void write_tile(const SlicedLayout& layout, std::span<const T> values, std::uint32_t n_positions, std::uint32_t tile,
                std::vector<Row>& sums8, std::vector<std::array<Row, 3>>& sums32, BlockWriter& writer) {
  const Region r = layout.tile8_region(tile);
  const std::uint32_t rows = r.extent().rows, cols = r.extent().cols;
  const std::uint32_t tile32 = r.row_start / 32 * layout.tiles32.cols + r.col_start / 32;
  thread_local std::vector<T> pixels;  // 64 pixels x 512 positions: each frame's rows are read once
  pixels.assign(std::uint64_t{64} * kBlockPositions, 0);
  for (std::uint32_t i = 0; i < n_positions; ++i) {
    const T* frame = values.data() + std::uint64_t{i} * layout.n_pixels;
    for (std::uint32_t row = 0; row < rows; ++row) {
      const T* from = frame + std::uint64_t{r.row_start + row} * layout.det.cols + r.col_start;
      for (std::uint32_t col = 0; col < cols; ++col) {
        const std::uint64_t v = from[col];
        if (!v) continue;
        pixels[std::uint64_t{row * cols + col} * kBlockPositions + i] = from[col];
        sums8[tile][i] += v;
        sums32[tile32][0][i] += v;
        sums32[tile32][1][i] += v * ((r.row_start + row) % 32);
        sums32[tile32][2][i] += v * ((r.col_start + col) % 32);
      }
    }
  }
  for (std::uint32_t p = 0; p < rows * cols; ++p)
    write_stream(pixels.data() + std::uint64_t{p} * kBlockPositions, writer);
}

}  // namespace

template <class T>
Result<EncodedBlock> encode_block(const SlicedLayout& layout, std::span<const T> values, std::uint32_t n_positions,
                                  BlockWriter& writer) {
  if (n_positions > kBlockPositions || values.size() != std::uint64_t{n_positions} * layout.n_pixels)
    return Error{Code::invalid_argument, "encode_block: " + std::to_string(values.size()) + " values, expected " +
                                             std::to_string(n_positions) + " positions (at most 512) of " +
                                             std::to_string(layout.n_pixels) + " pixels"};
  std::vector<Row> sums8(layout.n_tiles8, Row{});
  std::vector<std::array<Row, 3>> sums32(layout.n_tiles32, std::array<Row, 3>{});
  writer.start(layout.n_streams);
  for (std::uint32_t tile = 0; tile < layout.n_tiles8; ++tile)
    write_tile(layout, values, n_positions, tile, sums8, sums32, writer);
  for (const Row& sum : sums8) write_stream(sum.data(), writer);
  for (const auto& tile : sums32) write_stream(tile[0].data(), writer);
  for (const auto& tile : sums32) {
    write_stream(tile[1].data(), writer);
    write_stream(tile[2].data(), writer);
  }
  return writer.finish();
}

template <class T>
Result<SlicedStorage> encode_sliced(Extent det, std::span<const T> values, std::uint64_t n_positions, int threads) {
  SlicedStorage storage;
  storage.layout = SlicedLayout(det);
  storage.n_positions = n_positions;
  const std::uint64_t n_blocks = (n_positions + kBlockPositions - 1) / kBlockPositions;
  storage.block_bytes.resize(n_blocks);
  storage.blocks.resize(n_blocks);
  std::vector<std::optional<Error>> errors(n_blocks);
  std::atomic<bool> failed = false;
  ScratchPool<BlockWriter> writers;
  parallel_for(
      n_blocks,
      [&](std::uint64_t b) {
        if (failed) return;
        const auto writer = writers.borrow();
        const std::uint64_t first = b * kBlockPositions;
        const auto n = static_cast<std::uint32_t>(std::min<std::uint64_t>(kBlockPositions, n_positions - first));
        auto block = encode_block(
            storage.layout, values.subspan(first * storage.layout.n_pixels, std::uint64_t{n} * storage.layout.n_pixels),
            n, *writer);
        if (!block) {
          errors[b] = block.take_error();
          failed = true;
          return;
        }
        storage.block_bytes[b] = std::move(block->bytes);
        storage.blocks[b] = block->block;
      },
      threads);
  for (auto& e : errors)
    if (e) return std::move(*e);
  return storage;
}

template Result<EncodedBlock> encode_block(const SlicedLayout&, std::span<const std::uint8_t>, std::uint32_t,
                                           BlockWriter&);
template Result<EncodedBlock> encode_block(const SlicedLayout&, std::span<const std::uint16_t>, std::uint32_t,
                                           BlockWriter&);
template Result<EncodedBlock> encode_block(const SlicedLayout&, std::span<const std::uint32_t>, std::uint32_t,
                                           BlockWriter&);
template Result<SlicedStorage> encode_sliced(Extent, std::span<const std::uint8_t>, std::uint64_t, int);
template Result<SlicedStorage> encode_sliced(Extent, std::span<const std::uint16_t>, std::uint64_t, int);
template Result<SlicedStorage> encode_sliced(Extent, std::span<const std::uint32_t>, std::uint64_t, int);

void decode_stream(const SlicedBlock& block, std::uint32_t stream, std::span<std::uint64_t, kBlockPositions> values) {
  std::fill(values.begin(), values.end(), 0);
  const auto* planes = reinterpret_cast<const std::uint32_t*>(block.stream_planes(stream));
  for (std::uint32_t b = 0; b < block.width(stream); ++b)
    for (std::uint32_t k = 0; k < BlockWriter::kPlaneWords; ++k)
      for (std::uint32_t word = planes[b * BlockWriter::kPlaneWords + k]; word; word &= word - 1)
        values[32 * k + static_cast<std::uint32_t>(std::countr_zero(word))] += std::uint64_t{1} << b;
  for (const std::uint16_t* e = block.list_begin(stream); e != block.list_stop(stream); ++e)
    values[listed_position(*e)] += std::uint64_t{1} << listed_plane(*e);
}

std::uint64_t decode_value(const SlicedBlock& block, std::uint32_t stream, std::uint32_t position) {
  std::uint64_t value = 0;
  const auto* planes = reinterpret_cast<const std::uint32_t*>(block.stream_planes(stream));
  for (std::uint32_t b = 0; b < block.width(stream); ++b)
    value |= std::uint64_t{planes[b * BlockWriter::kPlaneWords + position / 32] >> (position % 32) & 1u} << b;
  for (const std::uint16_t* e = block.list_begin(stream); e != block.list_stop(stream); ++e)
    if (listed_position(*e) == position) value += std::uint64_t{1} << listed_plane(*e);
  return value;
}

}  // namespace quantem
