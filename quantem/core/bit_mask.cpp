#include "quantem/core/bit_mask.h"

#include "quantem/core/sha256.h"

namespace quantem {

std::uint64_t BitMask::first_unset() const {
  for (std::size_t w = 0; w < words_.size(); ++w)
    if (~words_[w] != 0) {
      const std::uint64_t i = w * 64 + static_cast<std::uint64_t>(std::countr_one(words_[w]));
      return i < n_ ? i : n_;
    }
  return n_;
}

BitMask& BitMask::operator&=(const BitMask& other) {
  for (std::size_t w = 0; w < words_.size(); ++w) words_[w] &= other.words_[w];
  return *this;
}

BitMask BitMask::operator~() const {
  BitMask out = *this;
  for (std::uint64_t& w : out.words_) w = ~w;
  if (n_) out.trim();
  return out;
}

std::string BitMask::sha256() const {
  std::vector<std::uint8_t> bytes((n_ + 7) / 8);
  for (std::uint64_t b = 0; b < bytes.size(); ++b) {
    // Reversed within the byte: neighbours, pairs, halves.
    std::uint64_t x = words_[b / 8] >> (b % 8 * 8) & 0xff;
    x = (x >> 1 & 0x55) | (x & 0x55) << 1;
    x = (x >> 2 & 0x33) | (x & 0x33) << 2;
    bytes[b] = static_cast<std::uint8_t>(x >> 4 | x << 4);
  }
  return sha256_hex(bytes.data(), bytes.size());
}

}  // namespace quantem
