#pragma once
// Random numbers by position, not by order: each draw is a function of (seed, pixel, position), so threads, chunks and the order of
// work change nothing. The generator is Philox 4x32 with 10 rounds: a block cipher of a 128-bit counter under a 64-bit key, two
// 32x32 -> 64 multiplications a round (Salmon, Moraes, Dror, Shaw, SC'11, 2011).

#include <array>
#include <cstdint>

namespace quantem {

std::array<std::uint32_t, 4> philox_4x32(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

// Two uniform doubles of one block, each (53 random bits + 1/2) / 2^53: never 0 and never 1.
struct UniformPair {
  double first, second;
};
UniformPair uniform_pair(std::uint64_t seed, std::uint32_t pixel, std::uint64_t index, std::uint32_t stream);

// A Poisson count of the given mean (below 2^31): the inverse of the distribution at one uniform number below 10, transformed
// rejection from there (Hoermann, Insurance: Mathematics and Economics 12, 39 (1993), PTRS). `u` serves the first; the second draws
// streams 1, 2, ... of (seed, pixel, position).
std::uint32_t poisson(double mean, double u, std::uint64_t seed, std::uint32_t pixel, std::uint64_t position);

}  // namespace quantem
