#pragma once
// T17: kernels of dense volumes on a CUDA device.

#include "bench/cuda_bench.cuh"
#include "quantem/detector/dense_query_cuda.h"

namespace quantem::bench {

__global__ void narrow_sums(const u64* sums, u64 n, u32* out) {
  for (u64 i = u64{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += u64{gridDim.x} * blockDim.x)
    out[i] = static_cast<u32>(min(sums[i], u64{0xFFFFFFFF}));
}

// The acquisition's counts as a dense volume of their own memory.
inline Volume dense_volume(const Acquired<std::uint16_t>& a) {
  auto counts = std::make_shared<DenseDevice>();
  counts->counts = must(a.b.context.allocate(a.dense.n_bytes(), "dense volume"));
  must(cudaMemcpyAsync(counts->counts.data(), a.dense.data(), a.dense.n_bytes(), cudaMemcpyDeviceToDevice, a.b.stream),
       "dense volume");
  VolumeInfo info;
  info.shape = a.shape;
  info.audit.count_max = 65535;
  return Volume(std::move(info), a.b.device, std::shared_ptr<const DenseDevice>(std::move(counts)));
}

inline void run_dense(Acquired<std::uint16_t>& a, const BitMask& bf) {
  Bench& b = a.b;
  if (!b.wanted("T17")) return;
  using namespace detector_detail;
  const Volume volume = dense_volume(a);
  const u64 n = a.shape.n_positions(), n_pixels = a.shape.frame_pixels();
  const double bytes = static_cast<double>(volume.resident_bytes());
  DenseQuery query = must(DenseQuery::open(volume, Job{}, "bench"));
  // Sums of the reference are 32 bits; those of dense volumes are compared with them there.
  DeviceMemory narrow = must(b.context.allocate(3 * n * 4, "bench"));
  const auto equal = [&](const u64* got, std::size_t slots) {
    narrow_sums<<<1024, 256, 0, b.stream>>>(got, slots * n, narrow.as<u32>());
    bool exact = true;
    for (std::size_t i = 0; i < slots; ++i) exact &= b.equal(narrow.as<u32>() + i * n, a.expected[i].as<u32>(), n, n);
    return exact;
  };
  {
    const SelectedOnDevice selected = must(place_selected(query, bf));
    must(launch_selected(query, selected));
    a.direct(bf, 0);
    b.add("T17bf", fmt::format("dense: BF r=30, {} segments of 16 bytes", selected.n_segments),
          b.times([&] { must(launch_selected(query, selected)); }),
          16.0 * selected.n_segments * static_cast<double>(n) + 8.0 * static_cast<double>(n), equal(selected.image, 1));
  }
  DeviceMemory moments = must(b.context.allocate(3 * n * 8, "bench"));
  must(launch_com(query, moments.as<u64>()));
  a.direct(volume.valid_pixels(), 0);
  b.add("T17com", "dense: CoM, all pixels", b.times([&] { must(launch_com(query, moments.as<u64>())); }), bytes,
        equal(moments.as<u64>(), 3));
  DeviceMemory sums = must(b.context.allocate(n_pixels * 8, "bench"));
  const auto sum_all = [&] { must(launch_sum_positions(query, n, {}, nullptr, sums.as<u64>())); };
  sum_all();
  a.direct_region(whole(a.shape.scan));
  b.add("T17mean", "dense: sum pattern", b.times(sum_all), bytes,
        b.equal(sums.as<u64>(), a.pattern.as<u64>(), n_pixels, n_pixels));
}

}  // namespace quantem::bench
