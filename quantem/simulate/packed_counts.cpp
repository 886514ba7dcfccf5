#include "quantem/simulate/packed_counts.h"

#include <algorithm>
#include <bit>

namespace quantem {

void PackedCounts::set_pixel(std::uint32_t pixel, std::span<const std::uint32_t> counts) {
  Stream s;
  const std::uint64_t n_blocks = (n_positions_ + kBlock - 1) / kBlock;
  s.first_word.resize(n_blocks + 1);
  for (std::uint64_t block = 0; block < n_blocks; ++block) {
    const std::uint64_t begin = block * kBlock, n = std::min(kBlock, n_positions_ - begin);
    std::uint32_t any = 0;
    for (std::uint64_t i = 0; i < n; ++i) any |= counts[begin + i];
    const auto width = static_cast<std::uint64_t>(std::bit_width(any));
    const std::uint64_t first = s.words.size();
    s.first_word[block] = static_cast<std::uint32_t>(first);
    s.words.resize(first + width * (kBlock / 64));
    for (std::uint64_t i = 0; i < n && width; ++i) {
      const std::uint64_t bit = i * width, word = first + bit / 64, shift = bit % 64, value = counts[begin + i];
      s.words[word] |= value << shift;
      if (shift + width > 64) s.words[word + 1] |= value >> (64 - shift);
    }
  }
  s.first_word[n_blocks] = static_cast<std::uint32_t>(s.words.size());
  s.words.shrink_to_fit();
  pixels_[pixel] = std::move(s);
}

std::uint64_t PackedCounts::resident_bytes() const {
  std::uint64_t n = pixels_.size() * sizeof(Stream);
  for (const Stream& s : pixels_) n += s.words.capacity() * 8 + s.first_word.capacity() * 4;
  return n;
}

}  // namespace quantem
