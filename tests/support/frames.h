#pragma once
// Reads whole containers through FrameReader, for tests: every scan position's frame as 64-bit integers, and sums of them.

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "quantem/io/frame_reader.h"

namespace quantem::support {

struct ReadFrame {
  std::vector<std::int64_t> values;  // empty when there is a fault
  std::optional<FrameFault> fault;
  [[nodiscard]] std::int64_t sum() const {
    std::int64_t s = 0;
    for (const std::int64_t v : values) s += v;
    return s;
  }
};

template <class T>
std::vector<std::int64_t> as_integers(const std::vector<std::byte>& bytes) {
  std::vector<std::int64_t> out(bytes.size() / sizeof(T));
  for (std::size_t i = 0; i < out.size(); ++i) {
    T v;
    std::memcpy(&v, &bytes[i * sizeof(T)], sizeof v);
    out[i] = static_cast<std::int64_t>(v);
  }
  return out;
}

// Frames of all scan positions in scan order (raster). Integer dtypes.
inline std::vector<ReadFrame> read_positions(const Container& c) {
  std::vector<ReadFrame> frames;
  auto reader = FrameReader::open(c);
  if (!reader) {
    frames.push_back({{}, FrameFault{false, reader.error().message}});
    return frames;
  }
  FrameReader::Scratch scratch;
  std::vector<std::byte> bytes(c.shape.frame_pixels() * item_bytes(c.dtype));
  for (std::uint64_t p = 0; p < c.shape.n_positions(); ++p) {
    ReadFrame frame;
    frame.fault = reader->read_frame(c.frame_of(p), bytes, scratch);
    if (!frame.fault) frame.values = visit_count_dtype(c.dtype, [&]<class T>() { return as_integers<T>(bytes); });
    frames.push_back(std::move(frame));
  }
  return frames;
}

// Sums in scan order; nothing where a position has no frame.
inline std::vector<std::optional<std::int64_t>> sum_image(const Container& c) {
  std::vector<std::optional<std::int64_t>> sums;
  for (const ReadFrame& f : read_positions(c)) sums.push_back(f.fault ? std::nullopt : std::optional(f.sum()));
  return sums;
}

}  // namespace quantem::support
