#include "quantem/resident/sliced_encode.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <optional>
#include <vector>

#include "quantem/runtime/scratch_pool.h"
#include "quantem/runtime/thread_pool.h"

namespace quantem {
namespace {

// Planes of one stream into the writer: bit j of word k of plane b is bit b of the value at 32 k + j.
template <class T>
void write_stream(std::span<const T> values, BlockWriter& writer) {
  std::uint64_t any = 0;
  for (const T v : values) any |= v;
  const auto n_planes = static_cast<std::uint32_t>(std::bit_width(any));
  std::uint32_t* planes = writer.next_planes();
  if (!planes) return;
  if (any) std::memset(planes, 0, std::uint64_t{n_planes} * kPlaneBytes);
  for (std::uint32_t i = 0; any && i < values.size(); ++i)
    for (std::uint64_t v = values[i]; v; v &= v - 1)
      planes[static_cast<std::uint32_t>(std::countr_zero(v)) * BlockWriter::kPlaneWords + i / 32] |= 1u << (i % 32);
  writer.commit(n_planes);
}

// Most tiles of most frames hold no counts.
template <class T>
bool all_zero(const T* values, std::uint32_t n) {
  static constexpr T kZeros[8] = {};
  return n == 8 ? std::memcmp(values, kZeros, sizeof kZeros) == 0
                : std::all_of(values, values + n, [](T v) { return v == 0; });
}

template <class T>
class BlockTask {
 public:
  BlockTask(const SlicedLayout& layout, std::span<const T> values, std::uint32_t n_positions, BlockWriter& writer)
      : layout_(layout),
        values_(values),
        n_(n_positions),
        writer_(writer),
        pixels_(std::uint64_t{64} * n_),
        sums8_(std::uint64_t{layout.n_tiles8} * n_),
        sums32_(std::uint64_t{3} * layout.n_tiles32 * n_),
        sums4_(std::uint64_t{layout.n_tiles4} * n_) {}

  void run() {
    writer_.start(layout_.n_streams);
    for (std::uint32_t tile = 0; tile < layout_.n_tiles8; ++tile) write_pixels(tile);
    for (std::uint32_t tile = 0; tile < layout_.n_tiles8; ++tile) write_stream(row(sums8_, tile), writer_);
    for (std::uint32_t tile = 0; tile < layout_.n_tiles32; ++tile) write_stream(row(sums32_, 3 * tile), writer_);
    for (std::uint32_t tile = 0; tile < layout_.n_tiles32; ++tile) {
      write_stream(row(sums32_, 3 * tile + 1), writer_);
      write_stream(row(sums32_, 3 * tile + 2), writer_);
    }
    for (std::uint32_t tile = 0; tile < layout_.n_tiles4; ++tile) write_stream(row(sums4_, tile), writer_);
  }

 private:
  [[nodiscard]] std::span<const std::uint64_t> row(const std::vector<std::uint64_t>& rows, std::uint32_t i) const {
    return {rows.data() + std::uint64_t{i} * n_, n_};
  }

  // The pixels' streams of one 8x8 tile; adds to its sum, and to the sum and moments of its 32x32 tile.
  void write_pixels(std::uint32_t tile) {
    const Region r = layout_.tile8_region(tile);
    const std::uint32_t rows = r.extent().rows, cols = r.extent().cols;
    const std::uint32_t tile32 = r.row_start / 32 * layout_.tiles32.cols + r.col_start / 32;
    std::uint64_t* sum8 = sums8_.data() + std::uint64_t{tile} * n_;
    std::uint64_t* sum32 = sums32_.data() + std::uint64_t{3} * tile32 * n_;
    const bool has_4 = layout_.has_tiles_4();
    const std::uint32_t cols4 = has_4 ? layout_.tiles4_of(tile).cols : 0;
    std::uint64_t* sum4 = has_4 ? sums4_.data() + std::uint64_t{layout_.first_tile4(tile)} * n_ : nullptr;
    std::fill(pixels_.begin(), pixels_.end(), T{0});
    for (std::uint32_t i = 0; i < n_; ++i)
      for (std::uint32_t y = r.row_start; y < r.row_stop; ++y) {
        const T* from =
            values_.data() + std::uint64_t{i} * layout_.n_pixels + std::uint64_t{y} * layout_.det.cols + r.col_start;
        if (all_zero(from, cols)) continue;
        for (std::uint32_t x = 0; x < cols; ++x) {
          const std::uint64_t v = from[x];
          pixels_[std::uint64_t{(y - r.row_start) * cols + x} * n_ + i] = from[x];
          if (has_4) sum4[std::uint64_t{(y - r.row_start) / 4 * cols4 + x / 4} * n_ + i] += v;
          sum8[i] += v;
          sum32[i] += v;
          sum32[n_ + i] += v * (y % 32);
          sum32[2 * std::uint64_t{n_} + i] += v * ((r.col_start + x) % 32);
        }
      }
    for (std::uint32_t p = 0; p < rows * cols; ++p)
      write_stream(std::span<const T>(pixels_.data() + std::uint64_t{p} * n_, n_), writer_);
  }

  const SlicedLayout& layout_;
  std::span<const T> values_;
  std::uint32_t n_;
  BlockWriter& writer_;
  std::vector<T> pixels_;                              // 64 pixels of a tile, positions in a row each
  std::vector<std::uint64_t> sums8_, sums32_, sums4_;  // per tile; sums32: sum, row moment, col moment
};

}  // namespace

template <class T>
Result<EncodedBlock> encode_block(const SlicedLayout& layout, std::span<const T> values, std::uint32_t n_positions,
                                  BlockWriter& writer) {
  if (n_positions > kBlockPositions || values.size() != std::uint64_t{n_positions} * layout.n_pixels)
    return Error{Code::invalid_argument, "encode_block: " + std::to_string(values.size()) + " values, expected " +
                                             std::to_string(n_positions) + " positions (at most 512) of " +
                                             std::to_string(layout.n_pixels) + " pixels"};
  BlockTask<T>(layout, values, n_positions, writer).run();
  return writer.finish();
}

template <class T>
Result<SlicedStorage> encode_sliced(const SlicedLayout& layout, std::span<const T> values, std::uint64_t n_positions,
                                    int threads) {
  SlicedStorage storage;
  storage.layout = layout;
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
template Result<SlicedStorage> encode_sliced(const SlicedLayout&, std::span<const std::uint8_t>, std::uint64_t, int);
template Result<SlicedStorage> encode_sliced(const SlicedLayout&, std::span<const std::uint16_t>, std::uint64_t, int);
template Result<SlicedStorage> encode_sliced(const SlicedLayout&, std::span<const std::uint32_t>, std::uint64_t, int);

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
