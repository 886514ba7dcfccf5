// The general way to fill a block: dense values of 512 positions, cut into ranges of pixels, each frame's range turned into bit
// planes, and these encoded. Reads and writes the values once each beyond the frames themselves.

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "quantem/io/bitshuffle.h"
#include "quantem/io/load_values.h"
#include "quantem/resident/sliced_encode_simd.h"
#include "quantem/runtime/scratch_pool.h"

namespace quantem {
namespace {

constexpr std::uint32_t kRangePixels = 2048;  // 32 frames of planes stay in a core's cache

class GeneralEncoder : public BlockEncoder {
 public:
  GeneralEncoder(const LoadPlan& plan, const BlockReader& reader)
      : plan_(plan), reader_(reader), layout_(plan.layout()) {}

  Result<EncodedBlock> encode_block_from_source(std::uint64_t block, BlockReport& report,
                                                ProgressMeter& meter) override {
    const auto n = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(kBlockPositions, plan_.shape.n_positions() - block * kBlockPositions));
    const auto scratch = pool_.borrow();
    scratch->values.resize(std::uint64_t{n} * layout_.n_pixels * item_bytes(plan_.dtype));
    QUANTEM_TRY(reader_.read(block, scratch->values, report, scratch->reader, meter));
    if (plan_.dtype == Dtype::u8) return encode<std::uint8_t>(*scratch, n);
    if (plan_.dtype == Dtype::u16) return encode<std::uint16_t>(*scratch, n);
    return encode<std::uint32_t>(*scratch, n);
  }

 private:
  struct Scratch {
    std::vector<std::byte> values, elements, planes;
    BlockReader::Scratch reader;
    std::optional<PlaneEncoder> encoder;
  };

  template <class T>
  Result<EncodedBlock> encode(Scratch& s, std::uint32_t n) {
    const auto* values = reinterpret_cast<const T*>(s.values.data());
    const std::uint32_t pixels = layout_.n_pixels;
    if (!s.encoder) s.encoder.emplace(layout_, static_cast<std::uint32_t>(sizeof(T)), BitMask{});
    s.elements.resize(kRangePixels * sizeof(T));
    const std::size_t stride = kRangePixels * sizeof(T);
    s.planes.resize(PlaneEncoder::kGroupFrames * stride + PlaneEncoder::kReadAhead);
    PositionBits present{};
    for (std::uint32_t i = 0; i < n; ++i) present[i / 64] |= std::uint64_t{1} << (i % 64);
    s.encoder->start(present);
    for (std::uint32_t first = 0; first < pixels; first += kRangePixels) {
      const std::uint32_t taken = std::min(kRangePixels, pixels - first), count = (taken + 7) / 8 * 8;
      s.encoder->begin_range(first, count);
      for (std::uint32_t group = 0; group * PlaneEncoder::kGroupFrames < n; ++group) {
        std::uint32_t width = 0;
        for (std::uint32_t i = 0; i < PlaneEncoder::kGroupFrames; ++i) {
          const std::uint32_t position = group * PlaneEncoder::kGroupFrames + i;
          std::byte* planes = s.planes.data() + i * stride;
          if (position < n)
            width =
                std::max(width, shuffle<T>(values + std::uint64_t{position} * pixels + first, taken, count, s, planes));
          else
            std::memset(planes, 0, count * sizeof(T));
        }
        if (width) s.encoder->add_frames(group, s.planes.data(), stride, std::size_t{width} * (count / 8));
      }
      s.encoder->end_range();
    }
    return s.encoder->finish();
  }

  // Planes of one frame's range, all of them written; how many from the lowest on hold bits.
  template <class T>
  static std::uint32_t shuffle(const T* values, std::uint32_t taken, std::uint32_t count, Scratch& s,
                               std::byte* planes) {
    T any = 0;
    for (std::uint32_t i = 0; i < taken; ++i) any |= values[i];
    const std::span<std::byte> out(planes, count * sizeof(T));
    if (any == 0) {
      std::memset(out.data(), 0, out.size());
      return 0;
    }
    std::span<const std::byte> in(reinterpret_cast<const std::byte*>(values), out.size());
    if (taken < count) {  // the last range of an odd detector
      std::memset(s.elements.data(), 0, out.size());
      std::memcpy(s.elements.data(), values, taken * sizeof(T));
      in = {s.elements.data(), out.size()};
    }
    planes_from_elements(in, sizeof(T), out);
    return static_cast<std::uint32_t>(std::bit_width(any));
  }

  const LoadPlan& plan_;
  const BlockReader& reader_;
  SlicedLayout layout_;
  ScratchPool<Scratch> pool_;
};

}  // namespace

std::unique_ptr<BlockEncoder> general_block_encoder(const LoadPlan& plan, const BlockReader& reader) {
  return std::make_unique<GeneralEncoder>(plan, reader);
}

}  // namespace quantem
