#pragma once
// What the slice kernels keep between calls, one a thread. Private to slice_kernels_cpu.cpp and its per-target parts.

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "quantem/resident/sliced.h"

namespace quantem::detector_detail {

inline constexpr std::uint32_t kWords = kBlockPositions / 64;  // u64 words of a plane
inline constexpr std::uint32_t kLevels = 64, kAllLevels = kLevels + 4, kQueued = 32;

// A bit-sliced number for each of 512 positions: sum[k] is plane k. Planes to be added wait in the queue of their level (as
// pointers to where they lie; carries lie in the slots) until 32 are there. Levels past 63 fall away: modulo 2^64.
struct Counter {
  alignas(64) std::uint64_t sum[kAllLevels][kWords];
  alignas(64) std::uint64_t slot[kAllLevels][kQueued][kWords];
  const std::uint64_t* queue[kAllLevels][kQueued];
  std::uint32_t n[kAllLevels];
  std::uint32_t top;  // planes below it may be set
};

// The planes of up to kChunk terms of one block and sign, by level, gathered before they are added: the gathering runs a step
// ahead, so that the next planes come from memory while the present ones are added.
inline constexpr std::uint32_t kChunk = 2048, kCarries = 1024;
struct Gathered {
  const std::uint64_t* planes[kAllLevels][kChunk + kCarries];
  std::uint32_t n[kAllLevels];
  std::uint32_t top;  // levels below it may have planes
};
// The lists of a form over one block, the empty ones left out.
struct ListRange {
  const std::uint16_t *begin, *stop;
  std::uint64_t weight;
};
struct Scratch {
  Counter line, total, row, col;
  Gathered gathered[2];
  std::vector<ListRange> lists[2];
  alignas(64) std::uint64_t moment_lists[4 * kBlockPositions];
  alignas(64) std::uint64_t sum[2][kAllLevels][kWords];  // plus, minus
  alignas(64) std::uint64_t carry[kAllLevels][kCarries][kWords];
};
// Memory of one thread, kept for its life. Only what is used of it is ever touched.
inline Scratch& scratch() {
  thread_local const std::unique_ptr<Scratch> memory = [] {
    auto made = std::make_unique_for_overwrite<Scratch>();
    for (Counter* c : {&made->line, &made->total, &made->row, &made->col}) {
      std::memset(c->n, 0, sizeof c->n);
      c->top = kAllLevels;  // start() clears all sums
    }
    return made;
  }();
  return *memory;
}
alignas(64) inline constexpr std::uint64_t kNoBits[kWords] = {};

}  // namespace quantem::detector_detail
