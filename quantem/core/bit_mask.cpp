#include "quantem/core/bit_mask.h"

#include "quantem/core/sha256.h"

namespace quantem {

std::uint64_t BitMask::first_unset() const {
  std::size_t w = 0;
  // Most masks have few bits cleared or none: eight words a step until there is one.
  for (; w + 8 <= words_.size(); w += 8) {
    std::uint64_t together = ~std::uint64_t{0};
    for (std::size_t k = 0; k < 8; ++k) together &= words_[w + k];
    if (~together != 0) break;
  }
  for (; w < words_.size(); ++w)
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
  static_assert(std::endian::native == std::endian::little, "byte b of the words holds indices 8 b ... 8 b + 7");
  std::vector<std::uint64_t> words = words_;
  for (std::uint64_t& x : words) {  // reversed within each byte: neighbours, pairs, halves
    x = (x >> 1 & 0x5555555555555555u) | (x & 0x5555555555555555u) << 1;
    x = (x >> 2 & 0x3333333333333333u) | (x & 0x3333333333333333u) << 2;
    x = (x >> 4 & 0x0f0f0f0f0f0f0f0fu) | (x & 0x0f0f0f0f0f0f0f0fu) << 4;
  }
  return sha256_hex(words.data(), (n_ + 7) / 8);
}

}  // namespace quantem
