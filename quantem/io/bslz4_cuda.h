#pragma once
// Bitshuffle-LZ4 chunks -> bit planes of pixels, on a GPU. The chunks come as the file holds them; the planes go where the encoder
// (resident/sliced_device_encode.h) reads them. A dense frame never exists.
//
//   index   thread = frame        walks the length words of the chunk
//   parse   thread = LZ4 stream   checks every bound once, writes the list of copies ("steps")
//   copy    16 lanes = stream     replays the steps in a window of shared memory, writes the planes that hold a one
//
// Accepts and refuses the same bytes as decode_chunk (io/filters.h). The window is sized by what the first slab shows; streams that
// do not fit it take a slower path of the same result. Frames are one chunk each, LZ4 blocks of 8192 bytes (the default).

#include <cstdint>
#include <memory>
#include <vector>

#include "quantem/resident/sliced_device_encode.h"

namespace quantem {

// Where a frame's chunk lies in the slab; bytes 0: the frame is missing.
struct ChunkPlace {
  std::uint32_t offset, bytes;
};

class Bslz4Decoder {
 public:
  struct Options {
    std::uint32_t n_pixels = 0, item_bits = 16;
    std::uint32_t max_frames = 2048;  // of a slab
    std::uint32_t n_lanes = 2;
    BitMask valid_pixels;
    double growth = 1;  // largest chunk of the load over the largest of its first slab: streams may get as much longer
    void* work = nullptr;  // work_bytes() of device memory that stay until the decoder is gone; null: its own
  };
  static Result<std::unique_ptr<Bslz4Decoder>> make(CudaContext& context, const Options& options);
  ~Bslz4Decoder();
  static std::uint64_t work_bytes(const Options& options);
  // Whether frames of this shape can be decoded here at all (a frame of under 8 elements has no block).
  static bool supports(std::uint32_t n_pixels, std::uint32_t item_bits);

  enum Verdict : std::uint32_t { kFine, kRefused, kAbsent };
  // Queues on `stream`: `bytes` (device memory, 64 readable bytes behind the last chunk) -> rows.words, rows.live; clears the bits of
  // rows.present (which the caller has set) of frames that are refused. One Verdict a frame goes to `verdicts` (pinned host memory).
  Result<Done> decode(std::uint32_t lane, CudaStream* stream, const void* bytes, const ChunkPlace* chunks_on_device,
                      std::uint32_t n_frames, const PlaneRows& rows, std::uint32_t* verdicts);

 private:
  struct State;
  explicit Bslz4Decoder(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace quantem
