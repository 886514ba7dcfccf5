// Sums and maxima over scan positions for each detector pixel, from bit-sliced storage on a CUDA device: set bits of a plane are
// counted and weighted by the plane. Bound by reading every plane once.

#include <algorithm>
#include <cstring>

#include "quantem/detector/sliced_query_cuda.h"
#include "quantem/resident/sliced_device.cuh"
#include "quantem/runtime/current_device.cuh"

namespace quantem::detector_detail {
namespace {

using bits::u32;
using bits::u64;
using sliced::kWords;

__device__ __forceinline__ void add_to(u32* to, u32 value) {
  atomicAdd(to, value);
}
__device__ __forceinline__ void add_to(u64* to, u64 value) {
  atomicAdd(reinterpret_cast<unsigned long long*>(to), value);
}

__device__ __forceinline__ void unpack(u32 (&to)[2], const bits::u16* from) {
  const u32 x = __ldg(reinterpret_cast<const u32*>(from));
  to[0] = x & 0xffff, to[1] = x >> 16;
}
__device__ __forceinline__ void unpack(u32 (&to)[4], const bits::u16* from) {
  const uint2 x = __ldg(reinterpret_cast<const uint2*>(from));
  to[0] = x.x & 0xffff, to[1] = x.x >> 16, to[2] = x.y & 0xffff, to[3] = x.y >> 16;
}
__device__ __forceinline__ void unpack(u32 (&to)[2], const u32* from) {
  const uint2 x = __ldg(reinterpret_cast<const uint2*>(from));
  to[0] = x.x, to[1] = x.y;
}
__device__ __forceinline__ void unpack(u32 (&to)[4], const u32* from) {
  const uint4 x = __ldg(reinterpret_cast<const uint4*>(from));
  to[0] = x.x, to[1] = x.y, to[2] = x.z, to[3] = x.w;
}
// The lists of one stream in N neighbouring blocks of one group of sixteen (first a multiple of N): three loads.
template <int N>
__device__ __forceinline__ void listed_together(sliced::ListSpan (&span)[N], const SlicedDeviceView& volume, u32 first,
                                                u32 stream) {
  u32 base[N], begin[N] = {}, end[N];
  const bits::u16* ends = volume.list_end + directory_index(first, stream, volume.n_streams);
  unpack(end, ends);
  if (stream % 64) unpack(begin, ends - kBlocksTogether);
  unpack(base, volume.list_start + directory_index(first, stream / 64, volume.n_sixty_fours));
#pragma unroll
  for (int u = 0; u < N; ++u) span[u] = {static_cast<int>(base[u] + begin[u]), static_cast<int>(base[u] + end[u])};
}

// Sums of 64 neighbouring pixel streams over `Blocks` (16 or 8) neighbouring blocks a CTA: of one group of the directory, so that the
// entries and list ends of a stream lie side by side.
// Planes: four lanes a stream, 16 bytes each, so that every 64-byte plane is read whole; two planes of each of U blocks in flight.
// Lists: a thread takes those of one stream in a quarter of the blocks, the first chunk of each in flight.
// With Masked, only positions whose bit is set count; `masks` holds 16 words for each block of the grid, and groups[blockIdx.y] says
// which blocks these are. Total is u32 where Blocks * 512 * the largest count fits.
template <bool Masked, class Total, int Blocks, int U, int Ctas>
__global__ void __launch_bounds__(256, Ctas)
    sum_patterns(const __grid_constant__ SlicedDeviceView volume, const u32* groups, const u32* masks,
                 const u32* pixel_of_stream, u32 n_pixels, u64* sums) {
  constexpr int kPlanes = 2, kEach = Blocks / 4;
  __shared__ Total of_lists[64];
  __shared__ __align__(16) u32 mask[Masked ? Blocks * kWords : 4];
  const u32 thread = threadIdx.x, part = thread % 4, group_of_64 = blockIdx.x, stream = group_of_64 * 64 + thread / 4;
  const u32 block = (Masked ? __ldg(groups + blockIdx.y) : blockIdx.y) * Blocks;
  uint4 entries = make_uint4(0, 0, 0, 0);  // of four of the sixteen blocks that lie together
  if (stream < n_pixels)
    entries = __ldg(
        reinterpret_cast<const uint4*>(volume.directory + directory_index(block / 16 * 16, stream, volume.n_streams)) +
        part);
  if (Masked && thread < Blocks * kWords) mask[thread] = __ldg(masks + blockIdx.y * Blocks * kWords + thread);
  if (thread < 64) of_lists[thread] = 0;
  __syncthreads();

  const u32 mine = thread % 64, list_stream = group_of_64 * 64 + mine, first = block + thread / 64 * kEach;
  sliced::ListSpan span[kEach] = {};
  uint4 chunk[kEach];
  if (list_stream < n_pixels) listed_together(span, volume, first, list_stream);
#pragma unroll
  for (int u = 0; u < kEach; ++u) {
    chunk[u] = sliced::load_chunk(sliced::lists_of(volume, first + u), span[u].first_chunk(), span[u].any());
  }
  Total listed_sum = 0;
#pragma unroll
  for (int u = 0; u < kEach; ++u) {
    const uint4* lists = sliced::lists_of(volume, first + u);
    for (int c = span[u].first_chunk(); c * 8 < span[u].end;) {
      const uint4 now = chunk[u];
      const u32 wanted = sliced::inside(span[u], c++);
      chunk[u] = sliced::load_chunk(lists, c, c * 8 < span[u].end);
      sliced::for_each_bit(now, wanted, [&](u32 position_times_4, u32 plane) {
        const u32 word = (thread / 64 * kEach + u) * kWords + position_times_4 / 128;
        const u32 counts = Masked ? mask[Masked ? word : 0] >> (position_times_4 / 4 % 32) & 1 : 1;
        listed_sum += static_cast<Total>(counts) << plane;
      });
    }
  }
  if (listed_sum) add_to(of_lists + mine, listed_sum);

  Total total = 0;
#pragma unroll 1
  for (int j = 0; j < kEach; ++j) {  // four blocks a turn
    const int owner = static_cast<int>(block % 16) / 4 + j;
    u32 four[4] = {entries.x, entries.y, entries.z, entries.w}, any = 0;
#pragma unroll
    for (int u = 0; u < 4; ++u) four[u] = __shfl_sync(~0u, four[u], owner, 4), any |= four[u] & 63;
    if (!__any_sync(~0u, any)) continue;
#pragma unroll
    for (int h = 0; h < 4; h += U) {
      const char* p[U];
      uint4 x[U][kPlanes];
#pragma unroll
      for (int u = 0; u < U; ++u) {
        p[u] = sliced::words_of(volume, block + j * 4 + h + u, part * 4) + (four[h + u] & ~63u);
#pragma unroll
        for (int f = 0; f < kPlanes; ++f) {
          x[u][f] = make_uint4(0, 0, 0, 0);
          if (f < static_cast<int>(four[h + u] & 63))
            x[u][f] = __ldg(reinterpret_cast<const uint4*>(p[u] + f * kPlaneBytes));
        }
      }
#pragma unroll
      for (int u = 0; u < U; ++u) {
        uint4 m = make_uint4(~0u, ~0u, ~0u, ~0u);
        if (Masked) m = reinterpret_cast<const uint4*>(mask)[Masked ? (j * 4 + h + u) * 4 + part : 0];
        const auto count = [&](uint4 q) {
          return static_cast<Total>(__popc(q.x & m.x) + __popc(q.y & m.y) + __popc(q.z & m.z) + __popc(q.w & m.w));
        };
#pragma unroll
        for (int f = 0; f < kPlanes; ++f) total += count(x[u][f]) << f;
        for (int f = kPlanes; f < static_cast<int>(four[h + u] & 63); ++f)
          total += count(__ldg(reinterpret_cast<const uint4*>(p[u] + f * kPlaneBytes))) << f;
      }
    }
  }
  total += __shfl_down_sync(~0u, total, 2, 4);
  total += __shfl_down_sync(~0u, total, 1, 4);
  __syncthreads();
  if (part == 0 && stream < n_pixels) add_to(sums + __ldg(pixel_of_stream + stream), u64{total} + of_lists[thread / 4]);
}

// Largest counts of a pixel stream, a half-warp a stream, a word of 32 positions a lane: candidates are thinned out from the highest
// plane down. Each CTA row takes every gridDim.y-th group of `groups`; without masks all positions are candidates.
__global__ void __launch_bounds__(256)
    max_patterns(const __grid_constant__ SlicedDeviceView volume, const u32* groups, u32 n_groups, u32 group_blocks,
                 const u32* masks, const u32* pixel_of_stream, u32 n_pixels, u32* largest) {
  const u32 lane = threadIdx.x % 32, word = lane % 16, wanted_stream = (blockIdx.x * 256 + threadIdx.x) / 16;
  const u32 stream = min(wanted_stream, n_pixels - 1);  // both halves of a warp always work
  u32 best = 0;
  for (u32 i = blockIdx.y; i < n_groups * group_blocks; i += gridDim.y) {
    const u32 block = __ldg(groups + i / group_blocks) * group_blocks + i % group_blocks;
    if (block >= volume.n_blocks) continue;  // the same in all threads
    u32 candidates = masks ? __ldg(masks + u64{i} * kWords + word) : ~0u;
    const u32 entry = sliced::entry_of(volume, block, stream), width = entry & 63;
    const sliced::ListSpan span = sliced::listed(volume, block, stream, stream);
    const char* words = sliced::words_of(volume, block, word) + (entry & ~63u);
    const auto* list = reinterpret_cast<const bits::u16*>(sliced::lists_of(volume, block));
    int e = span.end - 1;  // the list is ordered by plane
    const u32 top = span.any() ? (__ldg(list + e) >> 11) + 1u : width;
    u32 value = 0;
    for (int k = static_cast<int>(__reduce_max_sync(~0u, top)) - 1; k >= 0; --k) {
      u32 plane = 0;
      if (k < static_cast<int>(width))
        plane = __ldg(reinterpret_cast<const u32*>(words + k * kPlaneBytes));
      else
        for (; e >= span.begin; --e) {
          const u32 bit = __ldg(list + e);
          if (static_cast<int>(bit >> 11) != k) break;
          if ((bit >> 7 & 15) == word) plane |= 1u << (bit >> 2 & 31);
        }
      const u32 left = candidates & plane;
      if (bits::half_warp_any(left != 0)) candidates = left, value |= 1u << k;
    }
    best = max(best, value);
  }
  if (word == 0 && wanted_stream < n_pixels && best) atomicMax(largest + __ldg(pixel_of_stream + stream), best);
}

// The positions of a set, by groups of neighbouring blocks: those groups that have a member, and the bits of all their blocks.
struct Groups {
  std::vector<u32> group, masks;
};
Groups groups_of(const BitMask& positions, u32 n_blocks, u32 blocks_of_group) {
  Groups out;
  const std::vector<u64>& words = positions.words();
  const u64 words_of_group = u64{blocks_of_group} * kBlockPositions / 64;
  for (u32 g = 0; g * u64{blocks_of_group} < n_blocks; ++g) {
    const u64 first = g * words_of_group, stop = std::min<u64>(words.size(), first + words_of_group);
    u64 any = 0;
    for (u64 w = first; w < stop; ++w) any |= words[w];
    if (!any) continue;
    out.group.push_back(g);
    for (u64 w = first; w < first + words_of_group; ++w) {
      const u64 bits = w < stop ? words[w] : 0;
      out.masks.push_back(static_cast<u32>(bits));
      out.masks.push_back(static_cast<u32>(bits >> 32));
    }
  }
  return out;
}

template <class Total>
void start_sums(const SlicedDevice& device, const SetOnDevice& set, u64* sums, cudaStream_t stream) {
  const u32 n_pixels = device.layout.n_pixels, columns = (n_pixels + 63) / 64;
  const u32* order = device.pixel_of_stream.as<u32>();
  if (set.masks)
    sum_patterns<true, Total, kRegionBlocks, 2, 5>
        <<<dim3(columns, set.n_groups), 256, 0, stream>>>(device.view, set.groups, set.masks, order, n_pixels, sums);
  else
    sum_patterns<false, Total, 16, 4, 4><<<dim3(columns, (device.view.n_blocks + 15) / 16), 256, 0, stream>>>(
        device.view, nullptr, nullptr, order, n_pixels, sums);
}

}  // namespace

Result<SetOnDevice> upload_set(SlicedQuery& query, const BitMask& positions, bool all, std::uint64_t at) {
  SetOnDevice set;
  const u32 n_blocks = query.device().view.n_blocks;
  Groups groups;
  if (all) {
    for (u32 g = 0; g * kRegionBlocks < n_blocks; ++g) groups.group.push_back(g);
  } else {
    groups = groups_of(positions, n_blocks, kRegionBlocks);
  }
  set.n_groups = static_cast<u32>(groups.group.size());
  const u64 masks_at = (4 * groups.group.size() + 63) / 64 * 64;
  const u64 n_bytes = masks_at + 4 * groups.masks.size();
  QUANTEM_TRY_ASSIGN(staging, query.context().pinned_upload(n_bytes));
  std::memcpy(staging, groups.group.data(), 4 * groups.group.size());
  if (!all) std::memcpy(static_cast<char*>(staging) + masks_at, groups.masks.data(), 4 * groups.masks.size());
  QUANTEM_TRY_ASSIGN(area, query.context().work_area(at + n_bytes));
  char* to = static_cast<char*>(area) + at;
  QUANTEM_TRY(query.context().check(cudaMemcpyAsync(to, staging, n_bytes, cudaMemcpyHostToDevice, query.stream()),
                                    "scan positions"));
  set.groups = reinterpret_cast<const u32*>(to);
  set.masks = all ? nullptr : reinterpret_cast<const u32*>(to + masks_at);
  return set;
}

Result<Done> launch_pattern_sums(SlicedQuery& query, const SetOnDevice& set, std::uint64_t* sums) {
  const SlicedDevice& device = query.device();
  const u64 n_rows = set.masks ? set.n_groups : (device.view.n_blocks + 15) / 16;
  if (n_rows > 65535) return Error{Code::unsupported, "sum_pattern: more than 5e8 scan positions on a CUDA device"};
  QUANTEM_TRY(query.context().check(cudaMemsetAsync(sums, 0, device.layout.n_pixels * sizeof(u64), query.stream()),
                                    "sum_pattern"));
  if (query.largest_count() * 16 * kBlockPositions < 0x1p32)
    start_sums<u32>(device, set, sums, query.stream());
  else
    start_sums<u64>(device, set, sums, query.stream());
  return query.context().check(cudaGetLastError(), "sum_pattern");
}

DetectorOps::Path pattern_sum_cuda(const Volume& volume, const BitMask& positions, std::span<std::uint64_t> sum,
                                   const Job& job) {
  QUANTEM_TRY_ASSIGN(query, SlicedQuery::open(volume, job, "sum_pattern"));
  const CurrentDevice current(query.context().device());
  const bool all = positions == volume.valid_positions();  // missing positions hold 0
  const u64 sum_bytes = sum.size_bytes();
  SetOnDevice set;
  if (!all) {
    QUANTEM_TRY_ASSIGN(uploaded, upload_set(query, positions, false, (sum_bytes + 63) / 64 * 64));
    set = uploaded;
  }
  QUANTEM_TRY_ASSIGN(area, query.context().work_area(sum_bytes));
  QUANTEM_TRY(launch_pattern_sums(query, set, static_cast<u64*>(area)));
  QUANTEM_TRY_ASSIGN(pinned, query.copy_down(area, sum_bytes));
  std::memcpy(sum.data(), pinned, sum_bytes);
  return std::string_view(all ? "cuda_sliced_sum_pattern" : "cuda_sliced_region_sum");
}

DetectorOps::Path pattern_max_cuda(const Volume& volume, const BitMask& positions, std::span<std::byte> out,
                                   const Job& job) {
  QUANTEM_TRY_ASSIGN(query, SlicedQuery::open(volume, job, "max_pattern"));
  const CurrentDevice current(query.context().device());
  const SlicedDevice& device = query.device();
  const u32 n_pixels = device.layout.n_pixels;
  const u64 n_bytes = u64{n_pixels} * 4;
  const bool all = positions == volume.valid_positions();
  QUANTEM_TRY_ASSIGN(set, upload_set(query, positions, all, (n_bytes + 63) / 64 * 64));
  QUANTEM_TRY_ASSIGN(area, query.context().work_area(n_bytes));
  QUANTEM_TRY(query.context().check(cudaMemsetAsync(area, 0, n_bytes, query.stream()), "max_pattern"));
  const dim3 grid((n_pixels + 15) / 16, std::min<u32>(set.n_groups * kRegionBlocks, 16));
  max_patterns<<<grid, 256, 0, query.stream()>>>(device.view, set.groups, set.n_groups, kRegionBlocks, set.masks,
                                                 device.pixel_of_stream.as<u32>(), n_pixels, static_cast<u32*>(area));
  QUANTEM_TRY(query.context().check(cudaGetLastError(), "max_pattern"));
  QUANTEM_TRY_ASSIGN(pinned, query.copy_down(area, n_bytes));
  const auto* largest = static_cast<const u32*>(pinned);
  const std::size_t item = item_bytes(volume.dtype());
  for (u32 p = 0; p < n_pixels; ++p) std::memcpy(out.data() + p * item, largest + p, item);  // little endian
  return std::string_view("cuda_sliced_max_pattern");
}

}  // namespace quantem::detector_detail
