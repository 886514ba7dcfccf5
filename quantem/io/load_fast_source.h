#pragma once
// The stored bytes of one block of 512 positions, for the fast ingest: which frames are there, which can be taken as bit planes,
// which must come through the general path, read with few large reads.

#include <array>
#include <span>
#include <vector>

#include "quantem/core/array.h"
#include "quantem/io/bslz4_planes.h"
#include "quantem/io/load_values.h"

namespace quantem {

class ContainerSource : public FrameSource {
 public:
  ContainerSource(const Container& container, const FrameReader& reader) : container_(container), reader_(reader) {}
  [[nodiscard]] std::uint64_t frame_of(std::uint64_t source_position) const override {
    return container_.frame_of(source_position);
  }
  std::optional<FrameFault> read_frame(std::uint64_t frame, std::span<std::byte> out,
                                       FrameReader::Scratch& scratch) const override {
    return reader_.read_frame(frame, out, scratch);
  }
  [[nodiscard]] const Container& container() const { return container_; }
  [[nodiscard]] const FrameReader& reader() const { return reader_; }

 private:
  const Container& container_;
  const FrameReader& reader_;
};

// Whether the frames of a part are whole chunks of bitshuffle (alone), in the volume's dtype.
bool has_planes(const Part& part, const LoadPlan& plan);

struct FastFrame {
  enum class Kind : std::uint8_t { lost, planes, values };
  Kind kind = Kind::lost;
  std::uint64_t crop_position = 0, frame = 0;
  std::uint64_t at = 0, bytes = 0;  // planes: in BlockFrames::stored; values: at in BlockFrames::values
  FrameFault fault;                 // lost
};

struct BlockFrames {
  std::vector<FastFrame> frames;                       // one per position of the block
  std::array<std::uint64_t, kBlockPositions> order{};  // acquisition order of each
  bool in_order = true;                                // `order` ascends
  PlaneGeometry geometry;                              // of all frames with planes
  std::uint64_t frame_bytes = 0, n_lost = 0;
  Buffer stored;
  std::vector<std::byte> values;

  [[nodiscard]] std::span<const std::byte> stored_of(const FastFrame& f) const {
    return {stored.data() + f.at, static_cast<std::size_t>(f.bytes)};
  }
  [[nodiscard]] std::span<const std::byte> values_of(const FastFrame& f) const {
    return {values.data() + f.at, static_cast<std::size_t>(frame_bytes)};
  }
  void lose(FastFrame& f, FrameFault fault) {
    f.kind = FastFrame::Kind::lost;
    f.fault = std::move(fault);
    ++n_lost;
  }
};

// False when the block is for the general path: too many frames without planes, or geometry that would need much memory.
bool collect_frames(const LoadPlan& plan, const ContainerSource& source, std::uint64_t block, BlockFrames& out,
                    FrameReader::Scratch& scratch);

}  // namespace quantem
