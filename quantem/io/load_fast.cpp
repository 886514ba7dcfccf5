#include "quantem/io/load_fast.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "quantem/io/bitshuffle.h"
#include "quantem/io/bslz4_planes.h"
#include "quantem/io/load_fast_source.h"
#include "quantem/resident/sliced_encode_simd.h"
#include "quantem/runtime/scratch_pool.h"

// A block of 512 positions, planes from end to end. Its chunks are read with few large reads; then, bitshuffle block by bitshuffle
// block, 32 frames at a time are decoded into a slot each (a few hundred KB, so they stay in the core's cache) and handed to the
// PlaneEncoder. Frames of other kinds are read as values by the general path and shuffled into planes.

namespace quantem {
namespace {

constexpr std::size_t kSlots = PlaneEncoder::kGroupFrames;
constexpr std::size_t kDecoderOvershoot = 64;                  // more than PlaneBlocks::next writes past n_written
static_assert(kDecoderOvershoot <= PlaneEncoder::kReadAhead);  // there is room for it behind a block

// Decoded blocks of 32 frames. Bytes of slot i from dirty[i] on are zero.
struct Slots {
  std::vector<std::byte> bytes;
  std::size_t stride = 0;
  std::array<std::size_t, kSlots> dirty{};

  void resize(std::size_t block_bytes) {
    // An odd number of cache lines from one frame to the next: 32 frames fall into 32 different sets.
    stride = (block_bytes + PlaneEncoder::kReadAhead + 127) / 128 * 128 + 64;
    bytes.assign(kSlots * stride, std::byte{0});
    dirty.fill(0);
  }
  [[nodiscard]] std::byte* of(std::size_t i) { return bytes.data() + i * stride; }
  // A frame's n bytes are in slot i; what was there before, and what the decoder copied past its end, becomes zero again.
  void wrote(std::size_t i, std::size_t n) {
    std::memset(of(i) + n, 0, std::max(dirty[i], n + kDecoderOvershoot) - n);
    dirty[i] = n;
  }
};

struct Scratch {
  std::unique_ptr<PlaneEncoder> encoder;
  BlockFrames frames;
  std::vector<PlaneBlocks> blocks;  // of each position of the block
  Slots slots;
  FrameReader::Scratch reader;
};

class PlaneLoader : public BlockEncoder {
 public:
  PlaneLoader(const LoadPlan& plan, const Container& container, const FrameReader& reader)
      : plan_(plan),
        source_(container, reader),
        layout_(plan.layout()),
        general_reader_(plan, source_),
        general_(general_block_encoder(plan, general_reader_)) {
    const double limit = plan.rules.saturation;
    if (limit < 0x1p63) options_.saturated_from = static_cast<std::uint64_t>(std::ceil(limit));
    options_.zero_markers = plan.source_dtype == Dtype::u32 && plan.rules.flagged != Flagged::keep;
    n_valid_pixels_ = plan.rules.valid_pixels.n_set();
  }

  Result<EncodedBlock> encode_block_from_source(std::uint64_t block, BlockReport& report,
                                                ProgressMeter& meter) override {
    const auto scratch = pool_.borrow();
    Scratch& s = *scratch;
    if (!collect_frames(plan_, source_, block, s.frames, s.reader)) return general(block, report, meter);
    for (;;) {
      if (meter.cancelled()) return meter.cancelled_error("load");
      // Lost frames and markers that are both errors: the first in scan order is reported, which the general path finds.
      if (s.frames.n_lost && (plan_.rules.flagged == Flagged::error && options_.zero_markers))
        return general(block, report, meter);
      if (s.frames.n_lost && plan_.missing == Missing::error)
        for (const FastFrame& f : s.frames.frames)
          if (f.kind == FastFrame::Kind::lost) return lost_frame_error(plan_, f.crop_position, f.fault);
      if (encode(s, meter)) break;
      if (!find_faults(s)) return general(block, report, meter);
    }
    if (meter.cancelled()) return meter.cancelled_error("load");
    auto encoded = s.encoder->finish();
    if (!encoded) return encoded;
    QUANTEM_TRY(make_report(s, report));
    meter.add(s.frames.frames.size());
    return encoded;
  }

 private:
  Result<EncodedBlock> general(std::uint64_t block, BlockReport& report, ProgressMeter& meter) {
    return general_->encode_block_from_source(block, report, meter);
  }

  // False when a frame turned out to be damaged.
  bool encode(Scratch& s, const ProgressMeter& meter) {
    const PlaneGeometry& g = s.frames.geometry;
    if (!s.encoder)
      s.encoder = std::make_unique<PlaneEncoder>(layout_, static_cast<std::uint32_t>(item_bytes(plan_.source_dtype)),
                                                 plan_.rules.valid_pixels, options_);
    s.slots.resize(static_cast<std::size_t>(std::max(
        g.n_full_blocks ? g.bytes_of(0) : 0, std::max(g.short_block_elements, std::uint64_t{8}) * g.item_bytes)));
    s.blocks.assign(s.frames.frames.size(), PlaneBlocks());
    PositionBits present{};
    for (std::size_t i = 0; i < s.frames.frames.size(); ++i) {
      const FastFrame& f = s.frames.frames[i];
      if (f.kind == FastFrame::Kind::lost) continue;
      present[i / 64] |= std::uint64_t{1} << (i % 64);
      if (f.kind == FastFrame::Kind::planes && !s.blocks[i].open(s.frames.stored_of(f), g).ok()) return false;
    }
    s.encoder->start(present, s.frames.in_order ? nullptr : s.frames.order.data());
    std::uint64_t first = 0;
    for (std::uint64_t b = 0; b <= g.n_blocks(); ++b) {
      const bool tail = b == g.n_blocks();
      if (tail && g.tail_elements == 0) break;
      if (meter.cancelled()) return true;  // the caller looks again
      const auto count = static_cast<std::uint32_t>(tail ? 8 : g.elements_of(b));
      s.encoder->begin_range(static_cast<std::uint32_t>(first), count);
      for (std::size_t group = 0; group * kSlots < s.frames.frames.size(); ++group) {
        std::size_t live = 0;
        if (!decode_group(s, group, first, count, tail, live)) return false;
        s.encoder->add_frames(static_cast<std::uint32_t>(group), s.slots.bytes.data(), s.slots.stride, live);
      }
      s.encoder->end_range();
      first += count;
    }
    return true;
  }

  bool decode_group(Scratch& s, std::size_t group, std::uint64_t first, std::uint32_t count, bool tail,
                    std::size_t& live) {
    const std::size_t item = s.frames.geometry.item_bytes;
    for (std::size_t i = 0; i < kSlots; ++i) {
      const std::size_t n = group * kSlots + i;
      std::uint64_t written = 0;
      if (n < s.frames.frames.size()) {
        const FastFrame& f = s.frames.frames[n];
        std::byte* const to = s.slots.of(i);
        if (n + 4 < s.blocks.size()) s.blocks[n + 4].prefetch();
        if (f.kind == FastFrame::Kind::planes && !tail) {
          if (!s.blocks[n].next(to, written).ok()) return false;
        } else if (f.kind != FastFrame::Kind::lost) {
          const std::span<const std::byte> values =
              f.kind == FastFrame::Kind::planes
                  ? s.blocks[n].tail()
                  : s.frames.values_of(f).subspan(
                        first * item, std::min<std::size_t>(count * item, s.frames.frame_bytes - first * item));
          shuffle(values, count, item, to);
          written = count * item;
        }
      }
      s.slots.wrote(i, static_cast<std::size_t>(written));
      live = std::max(live, static_cast<std::size_t>(written));
    }
    return true;
  }

  static void shuffle(std::span<const std::byte> values, std::uint32_t count, std::size_t item, std::byte* to) {
    if (values.size() == count * item) return planes_from_elements(values, item, {to, count * item});
    std::array<std::byte, 8 * sizeof(std::uint32_t)> padded{};  // the tail: up to 7 elements
    std::copy(values.begin(), values.end(), padded.begin());
    planes_from_elements({padded.data(), 8 * item}, item, {to, 8 * item});
  }

  // Which frames are damaged, and why in the words of the general path. False when none is found.
  bool find_faults(Scratch& s) {
    const PlaneGeometry& g = s.frames.geometry;
    const std::uint64_t n_lost = s.frames.n_lost;
    std::vector<std::byte> values(static_cast<std::size_t>(s.frames.frame_bytes));
    s.slots.dirty.fill(s.slots.stride);
    for (FastFrame& f : s.frames.frames) {
      if (f.kind != FastFrame::Kind::planes) continue;
      PlaneBlocks blocks;
      ChunkFault fault = blocks.open(s.frames.stored_of(f), g);
      for (std::uint64_t b = 0, written = 0; fault.ok() && b < g.n_blocks(); ++b)
        fault = blocks.next(s.slots.of(0), written);
      if (fault.ok()) continue;
      auto reason = source_.read_frame(f.frame, values, s.reader);
      s.frames.lose(f, reason ? *std::move(reason)
                              : FrameFault{false, "frame " + std::to_string(f.frame) + ": " + describe(fault)});
    }
    return s.frames.n_lost != n_lost;
  }

  Result<Done> make_report(Scratch& s, BlockReport& report) const {
    const BlockAudit& a = s.encoder->audit();
    const auto& flagged = s.encoder->flagged();
    if (plan_.rules.flagged == Flagged::error && !flagged.empty())
      return marker_error(plan_, s.frames.frames[flagged.front().position].crop_position, flagged.front().pixel);
    std::size_t next = 0;
    std::uint64_t n_present = 0;
    for (std::uint32_t i = 0; i < s.frames.frames.size(); ++i) {
      const FastFrame& f = s.frames.frames[i];
      if (f.kind == FastFrame::Kind::lost) {
        report.missing.push_back(f.crop_position);
        ++report.n_lost;
        report.n_corrupt += !f.fault.missing;
        if (report.lost.size() < kLostKept) report.lost.push_back({f.crop_position, f.fault});
        continue;
      }
      ++n_present;
      report.flagged.begin_frame(f.crop_position);
      for (; next < flagged.size() && flagged[next].position == i; ++next)
        report.flagged.add(flagged[next].pixel, layout_.n_pixels);
    }
    report.flagged.close();
    AuditPart& out = report.audit;
    out.saturation = plan_.rules.saturation;
    out.n_values = n_present * n_valid_pixels_ - a.n_flagged;
    out.n_flagged = a.n_flagged;
    out.n_nonzero = a.n_nonzero;
    out.n_above_255 = a.n_above_255;
    out.n_above_65535 = a.n_above_65535;
    out.n_saturated = plan_.rules.saturation > 0 ? a.n_saturated : out.n_values;
    if (out.n_values == 0) return Done{};
    out.min = static_cast<double>(a.count_min);
    out.max = static_cast<double>(a.count_max);
    BlockSample at{a.max_position, a.max_pixel};
    if (a.count_max == 0) at = first_value(s);
    out.max_position = s.frames.frames[at.position].crop_position;
    out.max_order = s.frames.order[at.position];
    out.max_pixel = at.pixel;
    return Done{};
  }

  // All values are 0: the first acquired sample that has one.
  BlockSample first_value(const Scratch& s) const {
    std::vector<std::uint32_t> by_order;
    for (std::uint32_t i = 0; i < s.frames.frames.size(); ++i)
      if (s.frames.frames[i].kind != FastFrame::Kind::lost) by_order.push_back(i);
    std::sort(by_order.begin(), by_order.end(),
              [&](std::uint32_t a, std::uint32_t b) { return s.frames.order[a] < s.frames.order[b]; });
    const auto& flagged = s.encoder->flagged();
    for (const std::uint32_t i : by_order)
      for (std::uint32_t p = 0; p < layout_.n_pixels; ++p)
        if (plan_.rules.valid_pixels[p] && !std::binary_search(flagged.begin(), flagged.end(), BlockSample{i, p}))
          return {i, p};
    return {};
  }

  const LoadPlan& plan_;
  const ContainerSource source_;
  const SlicedLayout layout_;
  PlaneEncoderOptions options_;
  std::uint64_t n_valid_pixels_ = 0;
  const BlockReader general_reader_;
  const std::unique_ptr<BlockEncoder> general_;
  ScratchPool<Scratch> pool_;
};

}  // namespace

std::unique_ptr<BlockEncoder> fast_block_encoder(const LoadPlan& plan, const Container& container,
                                                 const FrameReader& reader) {
  if (std::endian::native != std::endian::little || !is_unsigned_count(plan.source_dtype)) return nullptr;
  return std::make_unique<PlaneLoader>(plan, container, reader);
}

}  // namespace quantem
