#pragma once
// Bit planes of a bitshuffle block <-> elements. A block of m elements (a multiple of 8) of s bytes is 8 s planes of
// m/8 bytes: plane b holds bit b of the little-endian element (0 = lowest), element i in bit i % 8 (lowest first) of
// byte i / 8. Any s from 1. Both write exactly m * s bytes. Source: K. Masui et al., Astronomy and Computing 12, 181
// (2015).

#include <cstddef>
#include <cstdint>
#include <span>

namespace quantem {

// Planes from n_planes on are zero and are not read, except that the n_planes rounded up to a multiple of 8 must be there.
void elements_from_planes(std::span<const std::byte> planes, std::size_t item_bytes, std::span<std::byte> elements,
                          std::size_t n_planes = ~std::size_t{0});
void planes_from_elements(std::span<const std::byte> elements, std::size_t item_bytes, std::span<std::byte> planes);

}  // namespace quantem
