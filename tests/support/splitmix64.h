#pragma once
// A hash of 64 bits to 64 bits: numbers for generated counts that depend on the seed and the place alone, in any order, on host and device.

#include <cstdint>

#include "quantem/core/host_device.h"

namespace quantem::support {

// The output function of splitmix64. Source: Steele, Lea & Flood, OOPSLA 2014; constants of Stafford's mix 13.
QUANTEM_HOST_DEVICE constexpr std::uint64_t splitmix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

}  // namespace quantem::support
