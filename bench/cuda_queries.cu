// quantem-bench-cuda: queries of encoded volumes on a CUDA device. Makes the acquisition of bench/acquisition.h in device memory, encodes
// it, compares every answer in full with plain sums over the dense counts, and only then times: kernels by device events with the L2
// cache emptied before (cold), public calls by the host's clock. A wrong answer has no time.
//   quantem-bench-cuda OUT.json [WORD...]      only targets that contain a WORD

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>

#include "bench/cuda_acquisition.cuh"
#include "quantem/detector/masked_sum.h"
#include "quantem/detector/mean_pattern.h"
#include "quantem/detector/sliced_query_cuda.h"
#include "quantem/resident/sliced_device_encode.h"

namespace quantem::bench {
namespace {

using detector_detail::SlicedQuery;
using detector_detail::SlicedSession;
using detector_detail::SumLaunch;
using detector_detail::SumPlanView;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

constexpr int kRepeats = 25;

[[noreturn]] void fail(const Error& error) {
  fmt::print(stderr, "quantem-bench-cuda: {}\n", error.message);
  std::exit(1);
}
template <class T>
T must(Result<T> result) {
  if (!result) fail(result.error());
  return *std::move(result);
}
void must(cudaError_t status, const char* what) {
  if (status != cudaSuccess) fail(Error{Code::device, std::string(what) + ": " + cudaGetErrorString(status)});
}

struct Bench {
  Device device = must(open_device(Backend::cuda));
  CudaContext& context = *must(CudaContext::of(device));
  std::vector<std::string> words, rows;
  double ceiling_gb_s = 0;
  cudaStream_t stream = reinterpret_cast<cudaStream_t>(context.query_stream());
  const void* other = nullptr;  // memory that is read to empty the L2 cache
  DeviceMemory scratch = must(context.allocate(4, "bench"));

  [[nodiscard]] bool wanted(const std::string& target) const {
    return words.empty() ||
           std::any_of(words.begin(), words.end(), [&](const auto& w) { return target.find(w) != std::string::npos; });
  }
  void add(const std::string& target, const std::string& what, std::vector<double> ms, double bytes, bool exact) {
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

  Volume encode() const {
    const u64 n = shape.n_positions(), n_blocks = (n + kBlockPositions - 1) / kBlockPositions;
    SlicedDeviceBuilder::Options o;
    o.layout = SlicedLayout(shape.det);
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

template <class T>
class Queries {
 public:
  Queries(Bench& bench, Acquired<T>& acquired, const Volume& volume)
      : b(bench),
        a(acquired),
        volume_(volume),
        n(volume.shape().n_positions()),
        query(must(SlicedQuery::open(volume, Job{}, "bench"))),
        images(must(b.context.allocate(32 * n * 4, "images"))) {
    largest = must(query.largest_total());
  }

  // Bytes that plans read in one volume, and write.
  double bytes_of(std::span<const std::vector<detector_detail::SumTerm>> plans) const {
    const SlicedDevice& d = query.device();
    double planes = 0, listed = 0, terms = 0;
    for (const auto& plan : plans)
      for (const auto& t : plan) planes += d.mean_planes[t.stream], listed += d.mean_listed[t.stream], ++terms;
    return (planes * 64 + listed * 2 + terms * 6) * d.view.n_blocks + 4.0 * static_cast<double>(n * plans.size());
  }
  void sums(const std::string& target, const std::string& what, std::span<const BitMask> masks,
            std::span<const Volume> volumes) {
    if (!b.wanted(target)) return;
    std::vector<SlicedSession::Placed> plans = must(query.plans_of_masks(masks));
    std::vector<SumPlanView> views;
    std::vector<std::vector<detector_detail::SumTerm>> terms;
    for (const auto& p : plans) views.push_back(p.view);
    for (const BitMask& m : masks) terms.push_back(detector_detail::terms_of(query.session().planner.plan(m)));
    std::vector<const SlicedDevice*> devices;
    for (const Volume& v : volumes) devices.push_back(v.sliced_device());
    SumLaunch launch;
    launch.volumes = devices, launch.plans = views, launch.bits = detector_detail::bits_of_sums(largest, 1, false);
    launch.integers = images.as<u32>(), launch.stride = n;
    must(cudaMemsetAsync(images.data(), 0xee, images.n_bytes(), b.stream), "poison");
    must(detector_detail::launch_sums(b.context, launch));
    bool exact = true;
    for (std::size_t v = 0; v < volumes.size(); ++v)
      for (std::size_t m = 0; m < masks.size(); ++m) {
        if (v == 0 || masks.size() > 1) a.direct(masks[m], 0);
        exact &= b.equal(images.as<u32>() + (v * masks.size() + m) * n, a.expected[0].template as<u32>(), n, n);
      }
    const auto run = [&] { must(detector_detail::launch_sums(b.context, launch)); };
    const double bytes = bytes_of({terms.data(), terms.size()}) * static_cast<double>(volumes.size());
    b.add(
        target,
        fmt::format("{}; {} streams, {} bits, {} list warps", what, terms[0].size(), launch.bits, views[0].list_warps),
        b.times(run), bytes, exact);
    if (target == "T5") {
      b.add("T5warm", what + ", warm", b.times(run, false), bytes, exact);
      void* pinned = must(b.context.pinned_result(n * 4));
      launch.integers = nullptr, launch.rounded = static_cast<float*>(pinned);
      b.add("T5link", what + ", f32 written across the link", b.times(run), bytes, exact);
    }
  }
  void moved(const std::string& target, const BitMask& from, const BitMask& to, const std::string& what) {
    if (!b.wanted(target)) return;
    const MaskPlan plan = query.session().planner.plan_change(from, to);
    const std::vector<detector_detail::SumTerm> terms = detector_detail::terms_of(plan);
    const SlicedSession::Request request{detector_detail::PlanKind::sum, nullptr, [&] { return terms; }};
    const auto placed = must(query.place({&request, 1}));
    a.direct(from, 0), a.direct(to, 3);
    const SlicedDevice* device = &query.device();
    SumLaunch launch;
    launch.volumes = {&device, 1}, launch.plans = {&placed[0].view, 1},
    launch.bits = detector_detail::bits_of_sums(largest, 1, false);
    launch.integers = images.as<u32>(), launch.before = a.expected[0].template as<u32>(), launch.stride = n;
    must(detector_detail::launch_sums(b.context, launch));
    const bool exact = b.equal(images.as<u32>(), a.expected[3].template as<u32>(), n, n);
    b.add(target, fmt::format("{}; {} streams, {} list warps", what, terms.size(), placed[0].view.list_warps),
          b.times([&] { must(detector_detail::launch_sums(b.context, launch)); }), bytes_of({&terms, 1}) + 4.0 * n,
          exact);
  }
  void moments(const std::string& target, const BitMask& selected, const std::string& what) {
    if (!b.wanted(target)) return;
    const auto placed = must(query.plans_of_moments(selected));
    std::vector<SumPlanView> views;
    SumLaunch launch;
    for (const auto& p : placed) views.push_back(p.view), launch.weighted |= p.weighted;
    const SlicedDevice* device = &query.device();
    launch.volumes = {&device, 1}, launch.plans = views,
    launch.bits = detector_detail::bits_of_sums(largest, 192, false);
    launch.integers = images.as<u32>(), launch.stride = n;
    must(cudaMemsetAsync(images.data(), 0xee, images.n_bytes(), b.stream), "poison");
    must(detector_detail::launch_sums(b.context, launch));
    a.direct(selected, 0);
    bool exact = true;
    for (u64 i = 0; i < 3; ++i) exact &= b.equal(images.as<u32>() + i * n, a.expected[i].template as<u32>(), n, n);
    const std::vector<detector_detail::SumTerm> terms[] = {
        detector_detail::terms_of(query.session().planner.plan(selected)),
        detector_detail::terms_of_moment(device->layout, selected, volume_.valid_pixels(), true),
        detector_detail::terms_of_moment(device->layout, selected, volume_.valid_pixels(), false)};
    b.add(target,
          fmt::format("{}; {} + {} + {} streams, {} bits", what, terms[0].size(), terms[1].size(), terms[2].size(),
                      launch.bits),
          b.times([&] { must(detector_detail::launch_sums(b.context, launch)); }), bytes_of(terms), exact);
  }
  void pattern(const std::string& target, const Region& region, const std::string& what) {
    if (!b.wanted(target)) return;
    const u64 n_pixels = volume_.shape().frame_pixels();
    const bool all = region == whole(volume_.shape().scan);
    const auto members = must(scan_set(region, volume_.shape().scan)).members;
    detector_detail::SetOnDevice set;
    if (!all) set = must(detector_detail::upload_set(query, members, false, n_pixels * 8));
    auto* out = static_cast<u64*>(must(b.context.work_area(n_pixels * 8)));
    must(detector_detail::launch_pattern_sums(query, set, out));
    a.direct_region(region);
    const bool exact = b.equal(out, a.pattern.template as<u64>(), n_pixels, n_pixels);
    const SlicedDevice& d = query.device();
    double planes = 0, listed = 0;
    for (u32 s = 0; s < n_pixels; ++s) planes += d.mean_planes[s], listed += d.mean_listed[s];
    const double blocks = all ? d.view.n_blocks : set.n_groups * double{detector_detail::kRegionBlocks};
    b.add(target, what, b.times([&] { must(detector_detail::launch_pattern_sums(query, set, out)); }),
          (planes * 64 + listed * 2 + 6.0 * static_cast<double>(n_pixels)) * blocks, exact);
  }
  void one_frame(const std::string& target) {
    if (!b.wanted(target)) return;
    const u64 position = n / 2 + 77, n_pixels = volume_.shape().frame_pixels();
    void* out = must(b.context.work_area(n_pixels * sizeof(T)));
    must(detector_detail::launch_frame(query, position, out));
    const bool exact =
        b.equal(static_cast<const T*>(out), a.dense.template as<T>() + position * n_pixels, n_pixels, n_pixels);
    b.add(target, "one frame", b.times([&] { must(detector_detail::launch_frame(query, position, out)); }),
          static_cast<double>(n_pixels) * (sizeof(T) + 32), exact);
  }

  Bench& b;
  Acquired<T>& a;
  const Volume& volume_;
  u64 n, largest = 0;
  SlicedQuery query;
  DeviceMemory images;
};

BitMask ring(double inner, double outer, double shift = 0) {
  const Extent det{192, 192};
  const Point c{95.5, 95.5 + shift};
  return must(inner > 0 ? annulus(c, inner, outer, det) : disk(c, outer, det)).bits;
}

void calls(Bench& b, const Volume& volume) {
  const Mask bf{volume.shape().det, ring(0, 30), {}};
  if (b.wanted("T5call"))
    b.add("T5call", "masked_sum, BF r=30, image in host memory", b.call_times([&] { must(masked_sum(volume, bf)); }), 0,
          true);
  if (b.wanted("T10call"))
    b.add("T10call", "frame(), pattern in host memory", b.call_times([&] { must(frame(volume, {77, 99})); }), 0, true);
  if (b.wanted("calls")) {
    b.add("T8call", "moment_sums, all pixels", b.call_times([&] { must(moment_sums(volume)); }), 0, true);
    b.add("T9call", "mean_pattern", b.call_times([&] { must(mean_pattern(volume)); }), 0, true);
    int shift = 0;
    b.add("T7call", "masked_sum of a new mask each time", b.call_times([&] {
      const Mask m = must(disk({95.5, 60 + 0.25 * ++shift}, 30, volume.shape().det));
      must(masked_sum(volume, m));
    }),
          0, true);
    b.add("Tstat", "frame_statistics", b.call_times([&] { must(frame_statistics(volume)); }), 0, true);
    b.add("Tmax", "max_pattern", b.call_times([&] { must(max_pattern(volume)); }), 0, true);
  }
}

void run_512(Bench& b) {
  Acquired<std::uint16_t> acquired(b, {512, 512}, 8, 0.6);
  std::vector<double> ms = b.times([&] {
    sweep<<<1056, 512, 0, b.stream>>>(acquired.dense.as<uint4>() + (u64{1} << 28), u64{1} << 28, b.scratch.as<u32>());
  });
  std::sort(ms.begin(), ms.end());
  b.ceiling_gb_s = 0x1p32 / ms[ms.size() / 2] / 1e6;
  std::printf("ceiling: %.0f GB/s of reading\n", b.ceiling_gb_s);
  std::vector<Volume> volumes{acquired.encode()};
  const Volume& volume = volumes[0];
  fmt::print("volume: {:.3f} GB, largest count {}\n", static_cast<double>(volume.resident_bytes()) / 1e9,
             volume.audit().count_max);
  {
    Queries<std::uint16_t> q(b, acquired, volume);
    const BitMask bf = ring(0, 30), adf = ring(30, 60), adf2 = ring(40, 80), df = ring(30, INFINITY);
    fmt::print("largest total {}\n", q.largest);
    q.sums("T5", "BF r=30", {&bf, 1}, {&volume, 1});
    q.sums("T6adf", "ADF 30-60", {&adf, 1}, {&volume, 1});
    q.sums("T6adf2", "ADF 40-80", {&adf2, 1}, {&volume, 1});
    q.sums("T6df", "DF >= 30", {&df, 1}, {&volume, 1});
    q.moved("T7", bf, ring(0, 30, 1), "BF moved by 1 px");
    q.moved("T7far", bf, ring(0, 30, 5), "BF moved by 5 px");
    q.moments("T8", volume.valid_pixels(), "CoM, all pixels");
    q.moments("T8m30", bf, "CoM, r <= 30");
    q.moments("T8m60", ring(0, 60), "CoM, r <= 60");
    q.pattern("T9", whole(volume.shape().scan), "sum pattern");
    q.one_frame("T10");
    q.pattern("T11", {200, 264, 192, 256}, "region 64x64, aligned");
    q.pattern("T11odd", {200, 264, 200, 264}, "region 64x64, at column 200");
    std::vector<BitMask> discs;
    for (int i = 0; i < 8; ++i) discs.push_back(ring(0, 8 + 3.0 * i, i * 4 - 16));
    q.sums("many", "8 discs, one launch", {discs.data(), discs.size()}, {&volume, 1});
  }
  calls(b, volume);
  if (b.wanted("T14")) {
    while (volumes.size() < 32) volumes.push_back(acquired.encode());
    Queries<std::uint16_t> q(b, acquired, volumes[0]);
    const BitMask bf = ring(0, 30);
    for (const std::size_t k : {4, 16, 32})
      q.sums(k == 32 ? "T14" : "T14of" + std::to_string(k), fmt::format("BF over {} volumes", k), {&bf, 1},
             {volumes.data(), k});
  }
}

void run_1024(Bench& b) {
  if (!b.wanted("T13")) return;
  Acquired<std::uint8_t> acquired(b, {1024, 1024}, 8, 0.6);
  const Volume volume = acquired.encode();
  b.add("T13", fmt::format("volume of 1024x1024, {:.3f} GB", static_cast<double>(volume.resident_bytes()) / 1e9), {0},
        static_cast<double>(volume.resident_bytes()), true);
  Queries<std::uint8_t> q(b, acquired, volume);
  const BitMask bf = ring(0, 30);
  q.sums("T13bf", "1024x1024: BF r=30", {&bf, 1}, {&volume, 1});
  q.moments("T13com", volume.valid_pixels(), "1024x1024: CoM, all pixels");
}

int main_with(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: quantem-bench-cuda OUT.json [WORD...]\n");
    return 2;
  }
  Bench b;
  b.words.assign(argv + 2, argv + argc);
  run_512(b);
  run_1024(b);
  b.write(argv[1]);
  return 0;
}

}  // namespace
}  // namespace quantem::bench

int main(int argc, char** argv) {
  return quantem::bench::main_with(argc, argv);
}
