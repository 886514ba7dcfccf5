#pragma once
// What the benchmarks of CUDA devices share: how kernels and calls are timed, when an answer is right, the record; and an acquisition in
// device memory, dense and encoded, with plain sums over it.

#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/cuda_acquisition.cuh"
#include "quantem/detector/geometry.h"
#include "quantem/resident/sliced_device_encode.h"
#include "quantem/resident/volume.h"

namespace quantem::bench {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

inline constexpr int kRepeats = 25;

[[noreturn]] inline void fail(const Error& error) {
  fmt::print(stderr, "quantem-bench-cuda: {}\n", error.message);
  std::exit(1);
}
template <class T>
T must(Result<T> result) {
  if (!result) fail(result.error());
  return *std::move(result);
}
inline void must(cudaError_t status, const char* what) {
  if (status != cudaSuccess) fail(Error{Code::device, std::string(what) + ": " + cudaGetErrorString(status)});
}

struct Bench {
  Device device = must(open_device(Backend::cuda));
  CudaContext& context = *must(CudaContext::of(device));
  std::vector<std::string> words, rows;
  std::string set;  // name of a set of counts besides the main one: part of targets and of what was measured
  double ceiling_gb_s = 0;
  cudaStream_t stream = reinterpret_cast<cudaStream_t>(context.query_stream());
  const void* other = nullptr;  // memory that is read to empty the L2 cache
  DeviceMemory scratch = must(context.allocate(4, "bench"));

  [[nodiscard]] bool wanted(const std::string& target) const {
    return words.empty() || !set.empty() ||
           std::any_of(words.begin(), words.end(), [&](const auto& w) { return target.find(w) != std::string::npos; });
  }
  void add(const std::string& of_target, const std::string& of_what, std::vector<double> ms, double bytes, bool exact) {
    const std::string target = of_target + set, what = set.empty() ? of_what : set + ": " + of_what;
    std::sort(ms.begin(), ms.end());
    const double median = exact ? ms[ms.size() / 2] : 0, share = median > 0 ? bytes / median / 1e6 / ceiling_gb_s : 0;
    fmt::print("{:8s} {:52s} {}", target, what,
               exact ? fmt::format("{:8.4f} ms ({:.4f} - {:.4f})  {:8.1f} MB {:5.1f} %\n", median, ms.front(),
                                   ms.back(), bytes / 1e6, 100 * share)
                     : "WRONG\n");
    std::fflush(stdout);
    rows.push_back(fmt::format(
        R"(  {{"target": "{}", "what": "{}", "median_ms": {:.5f}, "min_ms": {:.5f}, "max_ms": {:.5f}, "bytes": {:.0f}, )"
        R"("share_of_ceiling": {:.3f}, "exact": {}}})",
        target, what, median, exact ? ms.front() : 0, exact ? ms.back() : 0, bytes, share, exact));
  }
  // Times of a kernel: something else has just been read (cold) or the same query has just run.
  template <class F>
  std::vector<double> times(F&& run, bool cold = true) {
    cudaEvent_t a, b;
    must(cudaEventCreate(&a), "event"), must(cudaEventCreate(&b), "event");
    std::vector<double> ms;
    run();
    for (int i = 0; i < kRepeats; ++i) {
      if (cold)
        sweep<<<1056, 512, 0, stream>>>(static_cast<const uint4*>(other) + (u64{i % 8u} << 25), u64{1} << 25,
                                        scratch.as<u32>());
      else
        delay<<<1, 32, 0, stream>>>();
      must(cudaEventRecord(a, stream), "event");
      run();
      must(cudaEventRecord(b, stream), "event");
      must(cudaEventSynchronize(b), "event");
      float t = 0;
      must(cudaEventElapsedTime(&t, a, b), "event");
      ms.push_back(t);
    }
    must(cudaEventDestroy(a), "event"), must(cudaEventDestroy(b), "event");
    return ms;
  }
  template <class F>
  std::vector<double> call_times(F&& call) {
    std::vector<double> ms;
    for (int i = 0; i < 4 * kRepeats; ++i) {
      const auto start = std::chrono::steady_clock::now();
      call();
      if (i >= kRepeats)
        ms.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    }
    return ms;
  }
  // Whether n values equal the expected ones, which repeat after `period`.
  template <class T>
  bool equal(const T* got, const T* want, u64 n, u64 period) {
    must(cudaMemsetAsync(scratch.data(), 0, 4, stream), "compare");
    count_different<<<2048, 256, 0, stream>>>(got, want, n, period, scratch.as<u32>());
    u32 wrong = 1;
    must(cudaMemcpyAsync(&wrong, scratch.data(), 4, cudaMemcpyDeviceToHost, stream), "compare");
    must(cudaStreamSynchronize(stream), "compare");
    if (wrong) fmt::print("{} of {} values differ\n", wrong, n);
    return wrong == 0;
  }
  void write(const std::string& path) const {
    std::FILE* f = std::fopen(path.c_str(), "w");
    if (!f) fail(Error{Code::io, path + ": cannot be written"});
    fmt::print(f,
               "{{\"device\": \"{}\", \"driver\": \"{}\", \"toolkit\": \"{}\", \"ceiling_gb_s\": {:.1f}, \"rows\": "
               "[\n{}\n]}}\n",
               device.info().name, device.info().driver, device.info().runtime, ceiling_gb_s, fmt::join(rows, ",\n"));
    std::fclose(f);
  }
};

// Dense counts of type T and the volume made from them.
template <class T>
class Acquired {
 public:
  Acquired(Bench& bench, Extent scan, double disc, double tail) : b(bench), shape{scan, {192, 192}} {
    const Point center = geometric_center(shape.det);
    std::vector<float> mean;
    for (u32 r = 0; r < shape.det.rows; ++r)
      for (u32 c = 0; c < shape.det.cols; ++c) {
        const double radius = std::hypot(r - center.row, c - center.col);
        mean.push_back(static_cast<float>(radius <= 30 ? disc : tail * std::exp(-(radius - 30) / 70)));
      }
    dense = must(b.context.allocate(shape.n_values() * sizeof(T), "dense counts"));
    DeviceMemory means = must(b.context.allocate(mean.size() * 4, "means"));
    must(b.context.copy_up(means.data(), mean.data(), mean.size() * 4));
    const u32 n_pixels = static_cast<u32>(shape.frame_pixels());
    generate<T><<<dim3(n_pixels / 256, 4096), 256, 0, b.stream>>>(dense.as<T>(), means.as<float>(), shape.n_positions(),
                                                                  n_pixels, 1);
    must(cudaStreamSynchronize(b.stream), "generate");
    b.other = dense.data();
    for (u64 i = 0; i < 9; ++i) expected.push_back(must(b.context.allocate(shape.n_positions() * 4, "expected")));
    pattern = must(b.context.allocate(u64{n_pixels} * 8, "expected"));
  }

  Volume encode(bool tiles_4 = false) const {
    const u64 n = shape.n_positions(), n_blocks = (n + kBlockPositions - 1) / kBlockPositions;
    SlicedDeviceBuilder::Options o;
    o.layout = SlicedLayout(shape.det, tiles_4);
    o.n_positions = n;
    o.item_bits = 8 * sizeof(T);
    o.slab_blocks = 8;
    o.valid_pixels = BitMask(shape.frame_pixels(), true);
    o.saturation = INFINITY;
    auto builder = must(SlicedDeviceBuilder::make(b.context, o));
    const std::vector<u32> present(std::size_t{o.slab_blocks} * 16, ~u32{0});
    for (u64 first = 0, slab = 0; first < n_blocks; first += o.slab_blocks, ++slab) {
      const auto lane = static_cast<u32>(slab % o.n_lanes),
                 blocks = static_cast<u32>(std::min<u64>(o.slab_blocks, n_blocks - first));
      must(builder->place(lane));
      must(b.context.copy_up(builder->rows(lane).present, present.data(), present.size() * 4));
      must(builder->rows_from_values(lane, dense.as<T>() + first * kBlockPositions * shape.frame_pixels(),
                                     blocks * kBlockPositions));
      must(builder->encode(lane, first, blocks));
    }
    DeviceAudit audit;
    std::vector<FlaggedSample> flagged;
    auto sliced = must(builder->finish(audit, flagged));
    VolumeInfo info;
    info.shape = shape;
    info.dtype = info.source_dtype = dtype_of<T>();
    info.audit.count_max = audit.count_max;
    info.valid_pixels = o.valid_pixels;
    info.valid_positions = BitMask(n, true);
    return Volume(std::move(info), b.device, std::move(sliced));
  }

  // Plain sums over `mask` into expected[slot .. slot + 2]: total, row, col.
  void direct(const BitMask& mask, std::size_t slot) {
    std::vector<u32> pixels;
    for (u32 p = 0; p < shape.frame_pixels(); ++p)
      if (mask[p]) pixels.push_back(p);
    DeviceMemory list = must(b.context.allocate(pixels.size() * 4 + 4, "pixels"));
    must(b.context.copy_up(list.data(), pixels.data(), pixels.size() * 4));
    direct_moments<T><<<static_cast<u32>((shape.n_positions() + 7) / 8), 256, 0, b.stream>>>(
        dense.as<T>(), list.as<u32>(), static_cast<u32>(pixels.size()), shape.n_positions(),
        static_cast<u32>(shape.frame_pixels()), shape.det.cols, expected[slot].as<u32>(), expected[slot + 1].as<u32>(),
        expected[slot + 2].as<u32>());
    must(cudaStreamSynchronize(b.stream), "direct sums");
  }
  void direct_region(const Region& r) {
    must(cudaMemsetAsync(pattern.data(), 0, shape.frame_pixels() * 8, b.stream), "direct");
    const Extent e = r.extent();
    direct_pattern<T><<<dim3(static_cast<u32>(shape.frame_pixels() / 256), std::min(e.rows, 64u)), 256, 0, b.stream>>>(
        dense.as<T>(), static_cast<u32>(shape.frame_pixels()), shape.scan.cols, r.row_start, r.col_start, e.rows,
        e.cols, pattern.as<u64>());
    must(cudaStreamSynchronize(b.stream), "direct sums");
  }

  Bench& b;
  Shape4 shape;
  DeviceMemory dense, pattern;
  std::vector<DeviceMemory> expected;
};

}  // namespace quantem::bench
