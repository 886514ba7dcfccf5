#pragma once
// Counts made pixel by pixel and read frame by frame. A simulation computes all scan positions of one detector pixel at a time; a
// file wants all pixels of one position. Counts wait in between, packed: 512 positions of a pixel take as many bits each as the
// largest of them needs, so memory stays near that of the compressed file (about 1 bit a value at 1000 electrons a frame).

#include <cstdint>
#include <span>
#include <vector>

namespace quantem {

class PackedCounts {
 public:
  PackedCounts() = default;
  PackedCounts(std::uint64_t n_positions, std::uint32_t n_pixels) : n_positions_(n_positions), pixels_(n_pixels) {}
  // All positions of one pixel; each pixel once, different pixels from different threads.
  void set_pixel(std::uint32_t pixel, std::span<const std::uint32_t> counts);
  [[nodiscard]] std::uint32_t at(std::uint64_t position, std::uint32_t pixel) const {
    const Stream& s = pixels_[pixel];
    const std::uint64_t block = position / kBlock, first = s.first_word[block];
    const std::uint64_t width = (s.first_word[block + 1] - first) / (kBlock / 64);
    if (width == 0) return 0;
    const std::uint64_t bit = position % kBlock * width, word = first + bit / 64, shift = bit % 64;
    std::uint64_t value = s.words[word] >> shift;
    if (shift + width > 64) value |= s.words[word + 1] << (64 - shift);
    return static_cast<std::uint32_t>(value & ((std::uint64_t{1} << width) - 1));
  }
  [[nodiscard]] std::uint64_t resident_bytes() const;

 private:
  static constexpr std::uint64_t kBlock = 512;
  struct Stream {
    std::vector<std::uint64_t> words;
    std::vector<std::uint32_t> first_word;  // per block, and the end
  };
  std::uint64_t n_positions_ = 0;
  std::vector<Stream> pixels_;
};

}  // namespace quantem
