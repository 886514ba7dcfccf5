#pragma once
// Arithmetic on bit-sliced numbers in registers: plane k of a Sliced holds bit k of 32 numbers. Adding costs two LOP3 a plane.

#include <cstdint>

namespace quantem::bits {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

template <int N>
struct Sliced {
  u32 plane[N];
};

__device__ __forceinline__ u32 majority(u32 a, u32 b, u32 c) {
  return (a & b) | (c & (a | b));
}

// a += b << Shift, modulo 2^N. Planes that do not exist are constant zero and cost nothing.
template <int Shift = 0, int N, int M>
__device__ __forceinline__ void add(Sliced<N>& a, const Sliced<M>& b) {
  u32 carry = 0;
#pragma unroll
  for (int k = Shift; k < N; ++k) {
    const u32 x = a.plane[k], y = k - Shift < M ? b.plane[k - Shift < M ? k - Shift : 0] : 0;
    a.plane[k] = x ^ y ^ carry;
    carry = majority(x, y, carry);
  }
}

// The low N planes of a + b, as a new number.
template <int N, int A, int B>
__device__ __forceinline__ Sliced<N> sum(const Sliced<A>& a, const Sliced<B>& b) {
  Sliced<N> r;
  u32 carry = 0;
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const u32 x = k < A ? a.plane[k < A ? k : 0] : 0, y = k < B ? b.plane[k < B ? k : 0] : 0;
    r.plane[k] = x ^ y ^ carry;
    carry = majority(x, y, carry);
  }
  return r;
}
// Of four and of eight numbers, with every bit of the result.
template <int C>
__device__ __forceinline__ Sliced<C + 2> sum_of_4(const Sliced<C>* x) {
  return sum<C + 2>(sum<C + 1>(x[0], x[1]), sum<C + 1>(x[2], x[3]));
}
template <int C>
__device__ __forceinline__ Sliced<C + 3> sum_of_8(const Sliced<C>* x) {
  return sum<C + 3>(sum_of_4(x), sum_of_4(x + 4));
}

// How many of eight bits are set: 14 LOP3.
__device__ __forceinline__ Sliced<4> count_of_8(u32 a, u32 b, u32 c, u32 d, u32 e, u32 f, u32 g, u32 h) {
  const u32 abc = a ^ b ^ c, def = d ^ e ^ f, seven = abc ^ def ^ g;                           // ones
  const u32 two0 = majority(a, b, c), two1 = majority(d, e, f), two2 = majority(abc, def, g);  // twos
  const u32 two3 = seven & h, twos = two0 ^ two1 ^ two2;
  const u32 four0 = majority(two0, two1, two2), four1 = twos & two3;
  return {{seven ^ h, twos ^ two3, four0 ^ four1, four0 & four1}};
}

// The lowest plane of a, and a >>= 1.
template <int N>
__device__ __forceinline__ u32 take_lowest(Sliced<N>& a) {
  const u32 lowest = a.plane[0];
#pragma unroll
  for (int k = 1; k < N; ++k) a.plane[k - 1] = a.plane[k];
  a.plane[N - 1] = 0;
  return lowest;
}

// a ^= mask in every plane: with all bits set, a becomes -a - 1, so that adding to it subtracts.
template <int N>
__device__ __forceinline__ void toggle(Sliced<N>& a, u32 mask) {
#pragma unroll
  for (int k = 0; k < N; ++k) a.plane[k] ^= mask;
}

// 32x32 bit transpose across a warp: lane k brings plane k of 32 numbers, lane j leaves with number j.
__device__ __forceinline__ u32 to_integers(u32 x, u32 lane) {
  u32 m = 0x0000ffffu;
#pragma unroll
  for (u32 s = 16; s; s >>= 1) {
    const u32 y = __shfl_xor_sync(~0u, x, s);
    x = lane & s ? (x & ~m) | ((y & ~m) >> s) : (x & m) | ((y & m) << s);
    m ^= m << (s >> 1);
  }
  return x;
}

// One level of a 32x32 bit transpose: in rows D apart, the upper D bits of each 2D of the first <-> the lower D of the second.
template <u32 D>
__device__ __forceinline__ void swap_bits(u32 (&a)[32]) {
#pragma unroll
  for (u32 i = 0; i < 16; ++i) {
    const u32 k = i / D * 2 * D + i % D;
    if constexpr (D >= 8) {
      const u32 low = __byte_perm(a[k], a[k + D], D == 16 ? 0x5410 : 0x6240);
      a[k + D] = __byte_perm(a[k], a[k + D], D == 16 ? 0x7632 : 0x7351);
      a[k] = low;
    } else {
      constexpr u32 m = D == 4 ? 0x0f0f0f0fu : D == 2 ? 0x33333333u : 0x55555555u;
      const u32 t = ((a[k] >> D) ^ a[k + D]) & m;
      a[k + D] ^= t;
      a[k] ^= t << D;
    }
  }
}
__device__ __forceinline__ void transpose(u32 (&a)[32]) {
  swap_bits<16>(a);
  swap_bits<8>(a);
  swap_bits<4>(a);
  swap_bits<2>(a);
  swap_bits<1>(a);
}

// Sums over the 16 lanes of a half-warp; every lane gets the total. All 32 lanes must be here.
__device__ __forceinline__ u32 half_warp_sum(u32 v) {
#pragma unroll
  for (int d = 8; d; d /= 2) v += __shfl_xor_sync(~0u, v, d);
  return v;
}
// Whether any of the 16 lanes of this thread's half-warp says so.
__device__ __forceinline__ bool half_warp_any(bool yes) {
  return __ballot_sync(~0u, yes) & (0xffffu << (threadIdx.x % 32 / 16 * 16));
}

}  // namespace quantem::bits
