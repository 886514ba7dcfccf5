#pragma once
// An output of an operation between guard words, filled with garbage before the call: what writes outside of it, or leaves a part of it as it
// was, is found out.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace quantem::parity {

template <class T>
class Guarded {
 public:
  explicit Guarded(std::uint64_t n) : memory_((2 * kGuard + n) * sizeof(T), kFill), n_(n) {}
  [[nodiscard]] std::span<T> span() { return {reinterpret_cast<T*>(memory_.data()) + kGuard, n_}; }
  [[nodiscard]] std::vector<T> values() { return {span().begin(), span().end()}; }
  [[nodiscard]] bool intact() const {
    const auto untouched = [](std::uint8_t byte) { return byte == kFill; };
    const auto guard = static_cast<std::ptrdiff_t>(kGuard * sizeof(T));
    return std::all_of(memory_.begin(), memory_.begin() + guard, untouched) &&
           std::all_of(memory_.end() - guard, memory_.end(), untouched);
  }

 private:
  static constexpr std::uint64_t kGuard = 512;  // elements on either side: as many as a block has positions
  static constexpr std::uint8_t kFill = 0xA5;
  std::vector<std::uint8_t> memory_;  // of operator new: aligned for every T here
  std::uint64_t n_;
};

}  // namespace quantem::parity
