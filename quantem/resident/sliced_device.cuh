#pragma once
// Reading a bit-sliced volume in a kernel: directory entries, planes, and lists in chunks of 16 bytes.

#include "quantem/resident/device_bits.cuh"
#include "quantem/resident/sliced_device.h"

namespace quantem::sliced {

using bits::u16;
using bits::u32;
using bits::u64;
using bits::u8;

inline constexpr u32 kWords = kBlockPositions / 32;  // of a plane
inline constexpr u32 kNoStream = ~0u;

__device__ __forceinline__ u32 entry_of(const SlicedDeviceView& v, u32 block, u32 stream) {
  return __ldg(v.directory + directory_index(block, stream, v.n_streams));
}
// The block's planes from word `word` on; add an entry's offset for a stream, 64 bytes for the next plane.
__device__ __forceinline__ const char* words_of(const SlicedDeviceView& v, u32 block, u32 word) {
  return reinterpret_cast<const char*>(__ldg(v.plane_base + block)) + 4 * word;
}
__device__ __forceinline__ const uint4* lists_of(const SlicedDeviceView& v, u32 block) {
  return reinterpret_cast<const uint4*>(__ldg(v.list_base + block));
}

// The listed bits of streams first .. last (both included), numbered within their block. The four loads are independent.
struct ListSpan {
  int begin, end;
  [[nodiscard]] __device__ bool any() const { return end > begin; }
  // Chunks of eight that the span touches.
  [[nodiscard]] __device__ int first_chunk() const { return begin / 8; }
  [[nodiscard]] __device__ int n_chunks() const { return any() ? (end + 7) / 8 - begin / 8 : 0; }
};
__device__ __forceinline__ ListSpan listed(const SlicedDeviceView& v, u32 block, u32 first, u32 last) {
  const u32 before = first % 64 ? __ldg(v.list_end + directory_index(block, first - 1, v.n_streams)) : 0;
  const u32 begin = __ldg(v.list_start + directory_index(block, first / 64, v.n_sixty_fours)) + before;
  const u32 end = __ldg(v.list_start + directory_index(block, last / 64, v.n_sixty_fours)) +
                  __ldg(v.list_end + directory_index(block, last, v.n_streams));
  return {static_cast<int>(begin), static_cast<int>(end)};
}
// Which of the eight bits of a chunk belong to the span, one bit each.
__device__ __forceinline__ u32 inside(ListSpan s, int chunk) {
  const int from = max(s.begin - chunk * 8, 0), to = min(s.end - chunk * 8, 8);
  return to > from ? (0xffu << from & 0xffu >> (8 - to)) : 0;
}
__device__ __forceinline__ uint4 load_chunk(const uint4* lists, int chunk, bool wanted) {
  return wanted ? __ldg(lists + chunk) : make_uint4(0, 0, 0, 0);
}
// Calls f(position * 4, plane) for the wanted listed bits of a chunk.
template <class F>
__device__ __forceinline__ void for_each_bit(uint4 chunk, u32 wanted, F&& f) {
  const u32 x[4] = {chunk.x, chunk.y, chunk.z, chunk.w};
#pragma unroll
  for (int i = 0; i < 8; ++i)
    if (wanted >> i & 1) {
      const u32 bit = i % 2 ? x[i / 2] >> 16 : x[i / 2];
      f(bit & 0x7fcu, bit >> 11 & 31u);
    }
}

}  // namespace quantem::sliced
