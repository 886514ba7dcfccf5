#pragma once
// One bit per pixel or per scan position, flat C order. Bits past count() are always zero.

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "quantem/core/shape.h"

namespace quantem {

class BitMask {
 public:
  BitMask() = default;
  explicit BitMask(std::uint64_t n, bool value = false) : n_(n), words_((n + 63) / 64, value ? ~std::uint64_t{0} : 0) {
    trim();
  }

  [[nodiscard]] std::uint64_t count() const { return n_; }
  [[nodiscard]] bool operator[](std::uint64_t i) const { return words_[i / 64] >> (i % 64) & 1; }
  void set(std::uint64_t i, bool value = true) {
    const std::uint64_t bit = std::uint64_t{1} << (i % 64);
    if (value)
      words_[i / 64] |= bit;
    else
      words_[i / 64] &= ~bit;
  }
  [[nodiscard]] std::uint64_t n_set() const {
    std::uint64_t n = 0;
    for (const std::uint64_t w : words_) n += static_cast<std::uint64_t>(std::popcount(w));
    return n;
  }
  [[nodiscard]] bool all() const { return n_set() == n_; }
  [[nodiscard]] bool none() const { return n_set() == 0; }
  // The first unset bit, or count().
  [[nodiscard]] std::uint64_t first_unset() const;
  // Bit i of word i/64 is flat index i, lowest bit first.
  [[nodiscard]] const std::vector<std::uint64_t>& words() const { return words_; }
  BitMask& operator&=(const BitMask& other);
  [[nodiscard]] BitMask operator~() const;
  bool operator==(const BitMask&) const = default;
  // SHA-256 over ceil(n/8) bytes, index 0 in the highest bit of byte 0, lower-case hex.
  [[nodiscard]] std::string sha256() const;

 private:
  void trim() {
    if (n_ % 64) words_.back() &= (std::uint64_t{1} << (n_ % 64)) - 1;
  }
  std::uint64_t n_ = 0;
  std::vector<std::uint64_t> words_;
};

}  // namespace quantem
