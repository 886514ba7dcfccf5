#include "quantem/io/bitshuffle.h"

#include <bit>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quantem/io/bitshuffle.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

// Byte k of 8 neighbouring elements is an 8x8 bit matrix whose rows are one byte of each of the planes 8k ... 8k + 7:
// three swaps in a 64-bit word transpose it. Sixteen such matrices are gathered at once by interleaving 16 bytes of
// each of the 8 planes.

HWY_BEFORE_NAMESPACE();
namespace quantem::HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR
std::size_t elements_from_planes_fast(const std::uint8_t*, std::size_t, std::size_t, std::size_t, std::uint8_t*) {
  return 0;
}
std::size_t planes_from_elements_fast(const std::uint8_t*, std::size_t, std::size_t, std::uint8_t*) {
  return 0;
}
#else
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Bytes = hn::CappedTag<std::uint8_t, 16>;
using Words16 = hn::CappedTag<std::uint16_t, 8>;
using Words32 = hn::CappedTag<std::uint32_t, 4>;
using Words64 = hn::CappedTag<std::uint64_t, 2>;

template <int kShift, class V>
HWY_INLINE V swap_bits(V x, std::uint64_t mask) {
  const Words64 d;
  const V t = hn::And(hn::Xor(x, hn::ShiftRight<kShift>(x)), hn::Set(d, mask));
  return hn::Xor(x, hn::Xor(t, hn::ShiftLeft<kShift>(t)));
}

template <class V>
HWY_INLINE V transpose_bits(V x) {
  x = swap_bits<7>(x, 0x00aa00aa00aa00aaull);
  x = swap_bits<14>(x, 0x0000cccc0000ccccull);
  return swap_bits<28>(x, 0x00000000f0f0f0f0ull);
}

// Bytes of 128 elements (16 matrices in 8 registers, two each, in order) from 16 bytes of each of 8 planes.
template <class V>
HWY_INLINE void transpose_128(const std::uint8_t* plane, std::size_t plane_bytes, V out[8]) {
  const Bytes d8;
  const Words16 d16;
  const Words32 d32;
  const Words64 d64;
  const auto at = [&](std::size_t p) { return hn::LoadU(d8, plane + p * plane_bytes); };
  const auto pair = [&](std::size_t p, auto& low, auto& high) {
    const auto a = at(p), b = at(p + 1);
    low = hn::BitCast(d16, hn::InterleaveLower(d8, a, b));
    high = hn::BitCast(d16, hn::InterleaveUpper(d8, a, b));
  };
  hn::VFromD<Words16> l01, h01, l23, h23, l45, h45, l67, h67;
  pair(0, l01, h01);
  pair(2, l23, h23);
  pair(4, l45, h45);
  pair(6, l67, h67);
  const auto finish = [&](auto first, auto second, V* two) {  // 4 columns: planes 0-3 in `first`, 4-7 in `second`
    two[0] = hn::BitCast(d64, hn::InterleaveLower(d32, first, second));
    two[1] = hn::BitCast(d64, hn::InterleaveUpper(d32, first, second));
  };
  finish(hn::BitCast(d32, hn::InterleaveLower(d16, l01, l23)), hn::BitCast(d32, hn::InterleaveLower(d16, l45, l67)),
         out);
  finish(hn::BitCast(d32, hn::InterleaveUpper(d16, l01, l23)), hn::BitCast(d32, hn::InterleaveUpper(d16, l45, l67)),
         out + 2);
  finish(hn::BitCast(d32, hn::InterleaveLower(d16, h01, h23)), hn::BitCast(d32, hn::InterleaveLower(d16, h45, h67)),
         out + 4);
  finish(hn::BitCast(d32, hn::InterleaveUpper(d16, h01, h23)), hn::BitCast(d32, hn::InterleaveUpper(d16, h45, h67)),
         out + 6);
  for (int i = 0; i < 8; ++i) out[i] = transpose_bits(out[i]);
}

// The other way: 16 bytes of each of 8 planes from the bytes of 128 elements. An interleave of two registers moves the highest bit of
// a byte's place into the register number and one bit of the register number into the lowest of its place; four of them turn
// (register r2 r1 r0, place L p2 p1 p0) into (register p0 p2 p1 of planes, place r2 r1 r0 L of columns).
template <class V>
HWY_INLINE void planes_of_128(V v[8], std::uint8_t* plane, std::size_t plane_bytes) {
  const Bytes d8;
  hn::VFromD<Bytes> a[8], b[8];
  for (int i = 0; i < 8; ++i) a[i] = hn::BitCast(d8, transpose_bits(v[i]));
  const auto stage = [&](const auto* from, auto* to, int bit) {
    for (int i = 0; i < 8; ++i) {
      if (i & bit) continue;
      to[i] = hn::InterleaveLower(d8, from[i], from[i | bit]);
      to[i | bit] = hn::InterleaveUpper(d8, from[i], from[i | bit]);
    }
  };
  stage(a, b, 4);  // register bit 2 holds L
  stage(b, a, 2);  // bit 1 holds p2
  stage(a, b, 1);  // bit 0 holds p1
  stage(b, a, 4);  // bit 2 holds p0
  for (std::size_t i = 0; i < 8; ++i) {
    const std::size_t p = (i & 2) << 1 | (i & 1) << 1 | i >> 2;
    hn::StoreU(a[i], d8, plane + p * plane_bytes);
  }
}

}  // namespace

// The first n_columns / 16 * 16 columns (8 elements each) of a block of 1-, 2- or 4-byte elements; returns the columns
// done.
std::size_t elements_from_planes_fast(const std::uint8_t* planes, std::size_t n_columns, std::size_t item_bytes,
                                      std::size_t n_live, std::uint8_t* elements) {
  const Bytes d8;
  const Words16 d16;
  using V = hn::VFromD<Words64>;
  // Byte k of 128 elements; bytes from n_live on are zero.
  const auto byte = [&](std::size_t k, std::size_t column, V out[8]) {
    if (k < n_live) return transpose_128(planes + 8 * k * n_columns + column, n_columns, out);
    for (int i = 0; i < 8; ++i) out[i] = hn::Zero(Words64());
  };
  std::size_t c = 0;
  for (; c + 16 <= n_columns; c += 16) {
    V byte0[8];
    byte(0, c, byte0);
    std::uint8_t* to = elements + c * 8 * item_bytes;
    if (item_bytes == 1) {
      for (int i = 0; i < 8; ++i) hn::StoreU(hn::BitCast(d8, byte0[i]), d8, to + 16 * i);
      continue;
    }
    V byte1[8];
    byte(1, c, byte1);
    if (item_bytes == 2) {
      for (int i = 0; i < 8; ++i) {
        const auto a = hn::BitCast(d8, byte0[i]), b = hn::BitCast(d8, byte1[i]);
        hn::StoreU(hn::InterleaveLower(d8, a, b), d8, to + 32 * i);
        hn::StoreU(hn::InterleaveUpper(d8, a, b), d8, to + 32 * i + 16);
      }
      continue;
    }
    V byte2[8], byte3[8];
    byte(2, c, byte2);
    byte(3, c, byte3);
    for (int i = 0; i < 8; ++i) {
      const auto b0 = hn::BitCast(d8, byte0[i]), b1 = hn::BitCast(d8, byte1[i]);
      const auto b2 = hn::BitCast(d8, byte2[i]), b3 = hn::BitCast(d8, byte3[i]);
      const auto low = hn::BitCast(d16, hn::InterleaveLower(d8, b0, b1)),
                 low2 = hn::BitCast(d16, hn::InterleaveLower(d8, b2, b3));
      const auto high = hn::BitCast(d16, hn::InterleaveUpper(d8, b0, b1)),
                 high2 = hn::BitCast(d16, hn::InterleaveUpper(d8, b2, b3));
      hn::StoreU(hn::BitCast(d8, hn::InterleaveLower(d16, low, low2)), d8, to + 64 * i);
      hn::StoreU(hn::BitCast(d8, hn::InterleaveUpper(d16, low, low2)), d8, to + 64 * i + 16);
      hn::StoreU(hn::BitCast(d8, hn::InterleaveLower(d16, high, high2)), d8, to + 64 * i + 32);
      hn::StoreU(hn::BitCast(d8, hn::InterleaveUpper(d16, high, high2)), d8, to + 64 * i + 48);
    }
  }
  return c;
}

std::size_t planes_from_elements_fast(const std::uint8_t* elements, std::size_t n_columns, std::size_t item_bytes,
                                      std::uint8_t* planes) {
  const Bytes d8;
  const Words32 d32;
  const Words64 d64;
  using V = hn::VFromD<Words64>;
  alignas(16) static constexpr std::uint8_t kSplit2[16] = {0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15};
  alignas(16) static constexpr std::uint8_t kSplit4[16] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
  std::size_t c = 0;
  for (; c + 16 <= n_columns; c += 16) {
    const std::uint8_t* from = elements + c * 8 * item_bytes;
    V byte[4][8];  // byte k of the 128 elements, in order
    if (item_bytes == 1) {
      for (int i = 0; i < 8; ++i) byte[0][i] = hn::BitCast(d64, hn::LoadU(d8, from + 16 * i));
    } else if (item_bytes == 2) {
      const auto split = hn::Load(d8, kSplit2);
      for (int i = 0; i < 8; ++i) {
        const auto a = hn::BitCast(d64, hn::TableLookupBytes(hn::LoadU(d8, from + 32 * i), split));
        const auto b = hn::BitCast(d64, hn::TableLookupBytes(hn::LoadU(d8, from + 32 * i + 16), split));
        byte[0][i] = hn::InterleaveLower(d64, a, b);
        byte[1][i] = hn::InterleaveUpper(d64, a, b);
      }
    } else {
      const auto split = hn::Load(d8, kSplit4);
      const auto at = [&](int i) {
        return hn::BitCast(d32, hn::TableLookupBytes(hn::LoadU(d8, from + 16 * i), split));
      };
      for (int i = 0; i < 8; ++i) {
        const auto t0 = at(4 * i), t1 = at(4 * i + 1), t2 = at(4 * i + 2), t3 = at(4 * i + 3);
        const auto l01 = hn::BitCast(d64, hn::InterleaveLower(d32, t0, t1)),
                   l23 = hn::BitCast(d64, hn::InterleaveLower(d32, t2, t3));
        const auto h01 = hn::BitCast(d64, hn::InterleaveUpper(d32, t0, t1)),
                   h23 = hn::BitCast(d64, hn::InterleaveUpper(d32, t2, t3));
        byte[0][i] = hn::InterleaveLower(d64, l01, l23);
        byte[1][i] = hn::InterleaveUpper(d64, l01, l23);
        byte[2][i] = hn::InterleaveLower(d64, h01, h23);
        byte[3][i] = hn::InterleaveUpper(d64, h01, h23);
      }
    }
    for (std::size_t k = 0; k < item_bytes; ++k) planes_of_128(byte[k], planes + 8 * k * n_columns + c, n_columns);
  }
  return c;
}
#endif

}  // namespace quantem::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quantem {
namespace {

// Transposes the 8x8 bit matrix whose row r is byte r (r = 0 the lowest byte).
std::uint64_t transpose_8x8(std::uint64_t x) {
  std::uint64_t t = (x ^ (x >> 7)) & 0x00aa00aa00aa00aaull;
  x ^= t ^ (t << 7);
  t = (x ^ (x >> 14)) & 0x0000cccc0000ccccull;
  x ^= t ^ (t << 14);
  t = (x ^ (x >> 28)) & 0x00000000f0f0f0f0ull;
  return x ^ t ^ (t << 28);
}

}  // namespace

HWY_EXPORT(elements_from_planes_fast);
HWY_EXPORT(planes_from_elements_fast);

void elements_from_planes(std::span<const std::byte> planes, std::size_t item_bytes, std::span<std::byte> elements,
                          std::size_t n_planes) {
  const auto* from = reinterpret_cast<const std::uint8_t*>(planes.data());
  auto* to = reinterpret_cast<std::uint8_t*>(elements.data());
  const std::size_t n_columns = elements.size() / item_bytes / 8;  // groups of 8 elements = bytes of a plane
  const std::size_t n_live = n_planes / 8 >= item_bytes ? item_bytes : (n_planes + 7) / 8;
  std::size_t c = 0;
  if (item_bytes == 1 || item_bytes == 2 || item_bytes == 4)
    c = HWY_DYNAMIC_DISPATCH(elements_from_planes_fast)(from, n_columns, item_bytes, n_live, to);
  for (; c < n_columns; ++c) {
    for (std::size_t k = 0; k < item_bytes; ++k) {
      std::uint64_t x = 0;
      if (k < n_live)
        for (unsigned p = 0; p < 8; ++p) x |= std::uint64_t{from[(8 * k + p) * n_columns + c]} << (8 * p);
      x = transpose_8x8(x);
      for (unsigned e = 0; e < 8; ++e) to[(8 * c + e) * item_bytes + k] = static_cast<std::uint8_t>(x >> (8 * e));
    }
  }
}

void planes_from_elements(std::span<const std::byte> elements, std::size_t item_bytes, std::span<std::byte> planes) {
  const auto* from = reinterpret_cast<const std::uint8_t*>(elements.data());
  auto* to = reinterpret_cast<std::uint8_t*>(planes.data());
  const std::size_t n_columns = elements.size() / item_bytes / 8;
  std::size_t done = 0;
  if (item_bytes == 1 || item_bytes == 2 || item_bytes == 4)
    done = HWY_DYNAMIC_DISPATCH(planes_from_elements_fast)(from, n_columns, item_bytes, to);
  for (std::size_t k = 0; k < item_bytes; ++k) {
    std::uint8_t* plane = to + 8 * k * n_columns;
    for (std::size_t c = done; c < n_columns; ++c) {
      std::uint64_t x = 0;
      for (unsigned e = 0; e < 8; ++e) x |= std::uint64_t{from[(8 * c + e) * item_bytes + k]} << (8 * e);
      x = transpose_8x8(x);
      for (unsigned p = 0; p < 8; ++p) plane[p * n_columns + c] = static_cast<std::uint8_t>(x >> (8 * p));
    }
  }
}

}  // namespace quantem
#endif
