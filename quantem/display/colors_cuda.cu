// Levels of an image on a CUDA device: the number of edges not above a value, by binary search in shared memory; edges and colours come as
// kernel arguments. Nothing is computed, only compared, so colours and counts are those of the CPU.
//   color_pixels   four pixels a thread: 16 bytes read, 16 written
//   count_levels   counts in shared memory, then added to those of the device

#include <cuda_runtime_api.h>

#include <algorithm>

#include "quantem/display/device_kernels.h"
#include "quantem/display/each_value.cuh"
#include "quantem/runtime/current_device.cuh"

namespace quantem::display_detail {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

constexpr u32 kThreads = 256, kEdges = 255;
constexpr u32 kBelow = 256, kAbove = 257, kInvalid = 258, kCounts = 259;

struct Edges {
  float edge[kEdges];
  bool flat;
};
struct ColorWork {
  Edges edges;
  u32 color[257];  // r, g, b, a in ascending bytes; the last one is for what has no level
  const float* values;
  u32* rgba;
  u32 n_values;
};
struct CountWork {
  Edges edges;
  float lo, hi;
  const float* values;
  u32* counts;
  u32 n_values;
};
static_assert(sizeof(ColorWork) <= 4096 && sizeof(CountWork) <= 4096, "kernel arguments");

Edges edges_of(const Window& window) {
  Edges e{};
  std::copy(window.edges.begin(), window.edges.end(), e.edge);
  e.flat = window.flat();
  return e;
}

// Window::level(): 0..255, 256 for NaN.
__device__ __forceinline__ u32 level_of(float x, const float* edge, bool flat) {
  const u32 magnitude = __float_as_uint(x) & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 256;
  if (magnitude == 0x7f800000u) return x > 0 ? 255 : 0;
  if (flat) return 128;
  u32 level = 0;
#pragma unroll
  for (u32 step = 128; step > 0; step /= 2)
    if (edge[level + step - 1] <= x) level += step;
  return level;
}

__global__ void __launch_bounds__(kThreads) color_pixels(const __grid_constant__ ColorWork work) {
  __shared__ float edge[kEdges + 1];
  __shared__ u32 color[257];
  if (threadIdx.x < kEdges) edge[threadIdx.x] = work.edges.edge[threadIdx.x];
  for (u32 i = threadIdx.x; i < 257; i += kThreads) color[i] = work.color[i];
  __syncthreads();
  const auto shown = [&](float x) { return color[level_of(x, edge, work.edges.flat)]; };
  const u32 n_fours = work.n_values / 4;
  const auto* fours = reinterpret_cast<const float4*>(work.values);
  auto* to = reinterpret_cast<uint4*>(work.rgba);
  for (u64 i = u64{blockIdx.x} * kThreads + threadIdx.x; i < n_fours; i += u64{gridDim.x} * kThreads) {
    const float4 v = __ldg(fours + i);
    to[i] = make_uint4(shown(v.x), shown(v.y), shown(v.z), shown(v.w));
  }
  if (blockIdx.x == 0 && threadIdx.x < work.n_values % 4) {
    const u64 i = u64{n_fours} * 4 + threadIdx.x;
    work.rgba[i] = shown(work.values[i]);
  }
}

__global__ void __launch_bounds__(kThreads) count_levels(const __grid_constant__ CountWork work) {
  __shared__ float edge[kEdges + 1];
  __shared__ u32 counts[kCounts];
  if (threadIdx.x < kEdges) edge[threadIdx.x] = work.edges.edge[threadIdx.x];
  for (u32 i = threadIdx.x; i < kCounts; i += kThreads) counts[i] = 0;
  __syncthreads();
  // Equal neighbours are counted together: fewer atomics that meet in one bin.
  u32 bin = kCounts, n = 0;
  const auto count = [&](float x) {
    const u32 next = x != x        ? kInvalid
                     : x < work.lo ? kBelow
                     : x > work.hi ? kAbove
                                   : level_of(x, edge, work.edges.flat);
    if (next != bin) {
      if (n) atomicAdd(&counts[bin], n);
      bin = next, n = 0;
    }
    ++n;
  };
  each_value<kThreads>(work.values, work.n_values, count);
  if (n) atomicAdd(&counts[bin], n);
  __syncthreads();
  for (u32 i = threadIdx.x; i < kCounts; i += kThreads)
    if (counts[i]) atomicAdd(work.counts + i, counts[i]);
}

u32 n_ctas_of(const CudaContext& context, u32 n_values) {
  return std::clamp<u32>((n_values / 4 + kThreads - 1) / kThreads, 1, 8 * context.multiprocessors());
}

u32 packed(Color c) {
  return u32{c.r} | u32{c.g} << 8 | u32{c.b} << 16 | u32{c.a} << 24;
}

}  // namespace

Result<std::shared_ptr<DeviceMemory>> colorize_cuda(const DeviceImage& image, const Window& window,
                                                    const ColorTable& table, Color bad) {
  QUANTEM_TRY_ASSIGN(context, CudaContext::of(image.device()));
  const auto lock = context->query_lock();
  const CurrentDevice current(context->device());
  ColorWork work{};
  work.edges = edges_of(window);
  for (std::size_t i = 0; i < table.size(); ++i) work.color[i] = packed({table[i][0], table[i][1], table[i][2], 255});
  work.color[256] = packed(bad);
  work.values = image.data();
  work.n_values = static_cast<u32>(image.extent().count());
  QUANTEM_TRY_ASSIGN(rgba, image_memory(*context, u64{work.n_values} * 4));
  work.rgba = rgba->as<u32>();
  const auto stream = reinterpret_cast<cudaStream_t>(context->query_stream());
  color_pixels<<<n_ctas_of(*context, work.n_values), kThreads, 0, stream>>>(work);
  QUANTEM_TRY(context->check(cudaGetLastError(), "colorize"));
  return rgba;
}

Result<Histogram> histogram_cuda(const DeviceImage& image, const Window& window) {
  QUANTEM_TRY_ASSIGN(context, CudaContext::of(image.device()));
  const auto lock = context->query_lock();
  const CurrentDevice current(context->device());
  const auto stream = reinterpret_cast<cudaStream_t>(context->query_stream());
  QUANTEM_TRY_ASSIGN(area, context->work_area(kCounts * 4));
  QUANTEM_TRY_ASSIGN(pinned, context->pinned_result(kCounts * 4));
  QUANTEM_TRY(context->check(cudaMemsetAsync(area, 0, kCounts * 4, stream), "histogram"));
  CountWork work{};
  work.edges = edges_of(window);
  work.lo = window.lo, work.hi = window.hi;
  work.values = image.data();
  work.counts = static_cast<u32*>(area);
  work.n_values = static_cast<u32>(image.extent().count());
  count_levels<<<n_ctas_of(*context, work.n_values), kThreads, 0, stream>>>(work);
  QUANTEM_TRY(context->check(cudaGetLastError(), "histogram"));
  QUANTEM_TRY(context->check(cudaMemcpyAsync(pinned, area, kCounts * 4, cudaMemcpyDeviceToHost, stream), "histogram"));
  QUANTEM_TRY(context->synchronize("histogram"));
  const auto* counts = static_cast<const u32*>(pinned);
  Histogram h;
  std::copy_n(counts, h.bins.size(), h.bins.begin());
  h.below = counts[kBelow], h.above = counts[kAbove], h.invalid = counts[kInvalid];
  return h;
}

}  // namespace quantem::display_detail
