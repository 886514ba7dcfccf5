// quantem-bench-cuda: queries of encoded volumes on a CUDA device. Makes the acquisition of bench/acquisition.h in device memory, encodes
// it, compares every answer in full with plain sums over the dense counts, and only then times: kernels by device events with the L2
// cache emptied before (cold), public calls by the host's clock. A wrong answer has no time.
//   quantem-bench-cuda OUT.json [WORD...]      only targets that contain a WORD; "sets": the sparse and the denser counts
// QUANTEM_BENCH_FILE=MASTER.h5: the file whose load T4 takes the kernels of.

#include <fmt/format.h>

#include <string>

#include "bench/cuda_bench.cuh"
#include "bench/cuda_dense.cuh"
#include "bench/cuda_load.cuh"
#include "quantem/detector/masked_sum.h"
#include "quantem/detector/mean_pattern.h"
#include "quantem/detector/sliced_query_cuda.h"
#include "quantem/dpc/chain_cuda.h"
#include "quantem/dpc/device_dpc.h"

namespace quantem::bench {
namespace {

using detector_detail::SlicedQuery;
using detector_detail::SlicedSession;
using detector_detail::SumLaunch;
using detector_detail::SumPlanView;

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
      if (launch.bits <= 16) {
        launch.rounded = nullptr, launch.narrow = static_cast<std::uint16_t*>(pinned);
        b.add("T5link16", what + ", u16 written across the link", b.times(run), bytes, exact);
      }
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

// Centre of mass -> rotation -> phase with mirror boundary, all on the device, against the host's double transforms of the same sums.
void phase(Bench& b, const Volume& volume) {
  if (!b.wanted("T12")) return;
  const Extent scan = volume.shape().scan;
  const u64 n = scan.count();
  DpcOptions options;
  options.boundary = Boundary::mirror;
  const DpcResult want = must(run_dpc(must(com_field(volume)), volume.calibration(), options));
  dpc_detail::ChainPlan plan;
  plan.scan = scan;
  IntegrateOptions how;
  how.boundary = Boundary::mirror;
  plan.integrate = must(dpc_detail::plan_integration(scan, "px", how));
  {  // holds the query lock
    const dpc_detail::Chain chain = must(dpc_detail::Chain::open(volume, nullptr, plan, Job{}));
    DeviceMemory image = must(b.context.allocate(n * 4, "phase"));
    must(chain.queue(image.as<float>(), nullptr));
    const dpc_detail::ChainRecord found = must(chain.record());
    std::vector<float> got(n);
    must(b.context.copy_down(got.data(), image.data(), n * 4));
    double worst = 0, largest = 1;
    bool finite = true;
    for (u64 i = 0; i < n; ++i) {
      finite &= std::isfinite(got[i]);
      worst = std::max(worst, std::abs(static_cast<double>(got[i]) - static_cast<double>(want.phase.values[i])));
      largest = std::max(largest, std::abs(static_cast<double>(want.phase.values[i])));
    }
    const double turned = std::abs(found.degrees - want.rotation.rotation_deg) / dpc_detail::kDegrees;
    const bool right =
        finite && worst <= 1e-5 * largest && turned <= 1e-6 && (found.transpose != 0) == want.rotation.transpose;
    const auto what = fmt::format("phase, mirror; off by {:.1e} of {:.1e}, {:.1e} rad", worst, largest, turned);
    b.add("T12", what, b.times([&] { must(chain.queue(image.as<float>(), nullptr)); }), 0, right);
  }
  b.add("T12call", "run_dpc_on_device, angle in host memory",
        b.call_times([&] { must(run_dpc_on_device(volume, options)); }), 0, true);
  b.add("T12maps", "run_dpc, nine maps in host memory", b.call_times([&] { must(run_dpc(volume, options)); }), 0, true);
}

void rows_of_every_set(Queries<std::uint16_t>& q, const Volume& volume) {
  const BitMask bf = ring(0, 30), adf = ring(30, 60), adf2 = ring(40, 80), df = ring(30, INFINITY);
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
}

// The same with sums over 4x4 tiles, an option of the load. Takes the place of the volumes without them, as 32 of either are most of the memory.
void rows_of_tiles_4(Bench& b, Acquired<std::uint16_t>& acquired) {
  const auto names = {"T3tiles4", "T5tiles4",    "T6adftiles4", "T6adf2tiles4",  "T6dftiles4",
                      "T7tiles4", "T7fartiles4", "T8m30tiles4", "T14of16tiles4", "T14tiles4"};
  if (std::none_of(names.begin(), names.end(), [&](const char* name) { return b.wanted(name); })) return;
  const BitMask bf = ring(0, 30), adf = ring(30, 60), adf2 = ring(40, 80), df = ring(30, INFINITY);
  std::vector<Volume> volumes{acquired.encode(true)};
  const auto resident = static_cast<double>(volumes[0].resident_bytes());
  b.add("T3tiles4", fmt::format("4x4 tiles: volume {:.3f} GB", resident / 1e9), {0}, resident, true);
  {
    const Volume& volume = volumes[0];
    Queries<std::uint16_t> q(b, acquired, volume);
    q.sums("T5tiles4", "4x4 tiles: BF r=30", {&bf, 1}, {&volume, 1});
    q.sums("T6adftiles4", "4x4 tiles: ADF 30-60", {&adf, 1}, {&volume, 1});
    q.sums("T6adf2tiles4", "4x4 tiles: ADF 40-80", {&adf2, 1}, {&volume, 1});
    q.sums("T6dftiles4", "4x4 tiles: DF >= 30", {&df, 1}, {&volume, 1});
    q.moved("T7tiles4", bf, ring(0, 30, 1), "4x4 tiles: BF moved by 1 px");
    q.moved("T7fartiles4", bf, ring(0, 30, 5), "4x4 tiles: BF moved by 5 px");
    q.moments("T8m30tiles4", bf, "4x4 tiles: CoM, r <= 30");
  }
  if (!b.wanted("T14tiles4")) return;
  while (volumes.size() < 32) volumes.push_back(acquired.encode(true));
  Queries<std::uint16_t> q(b, acquired, volumes[0]);
  for (const std::size_t k : {16, 32})
    q.sums(k == 32 ? "T14tiles4" : "T14of16tiles4", fmt::format("4x4 tiles: BF over {} volumes", k), {&bf, 1},
           {volumes.data(), k});
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
    fmt::print("largest total {}\n", q.largest);
    rows_of_every_set(q, volume);
    q.one_frame("T10");
    q.pattern("T11", {200, 264, 192, 256}, "region 64x64, aligned");
    q.pattern("T11odd", {200, 264, 200, 264}, "region 64x64, at column 200");
    std::vector<BitMask> discs;
    for (int i = 0; i < 8; ++i) discs.push_back(ring(0, 8 + 3.0 * i, i * 4 - 16));
    q.sums("many", "8 discs, one launch", {discs.data(), discs.size()}, {&volume, 1});
  }
  calls(b, volume);
  phase(b, volume);
  run_dense(acquired, ring(0, 30));
  if (b.wanted("T14")) {
    while (volumes.size() < 32) volumes.push_back(acquired.encode());
    Queries<std::uint16_t> q(b, acquired, volumes[0]);
    const BitMask bf = ring(0, 30);
    for (const std::size_t k : {4, 16, 32})
      q.sums(k == 32 ? "T14" : "T14of" + std::to_string(k), fmt::format("BF over {} volumes", k), {&bf, 1},
             {volumes.data(), k});
  }
  volumes.clear();
  rows_of_tiles_4(b, acquired);
}

// The rows that depend on the counts most, of the same detector with fewer and with more of them. The prototypes' names and numbers.
void run_set(Bench& b, const std::string& name, double disc, double tail) {
  b.set = name;
  {
    Acquired<std::uint16_t> acquired(b, {512, 512}, disc, tail);
    const Volume volume = acquired.encode();
    const auto resident = static_cast<double>(volume.resident_bytes());
    b.add("T3", fmt::format("disc {}, tail {}: volume {:.3f} GB", disc, tail, resident / 1e9), {0}, resident, true);
    Queries<std::uint16_t> q(b, acquired, volume);
    rows_of_every_set(q, volume);
  }
  b.set.clear();
}

void run_1024(Bench& b) {
  if (!b.wanted("T13")) return;
  Acquired<std::uint8_t> acquired(b, {1024, 1024}, 8, 0.6);
  const Volume volume = acquired.encode();
  b.add("T13", fmt::format("volume of 1024x1024, {:.3f} GB", static_cast<double>(volume.resident_bytes()) / 1e9), {0},
        static_cast<double>(volume.resident_bytes()), true);
  const BitMask bf = ring(0, 30);
  if (b.wanted("T13bftiles4")) {
    const Volume with_4 = acquired.encode(true);
    Queries<std::uint8_t> q(b, acquired, with_4);
    q.sums("T13bftiles4", "1024x1024, 4x4 tiles: BF r=30", {&bf, 1}, {&with_4, 1});
  }
  Queries<std::uint8_t> q(b, acquired, volume);
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
  if (b.wanted("sets")) {
    run_set(b, "sparse", 1, 0.03);
    run_set(b, "denser", 20, 1.5);
  }
  run_1024(b);
  if (const char* file = std::getenv("QUANTEM_BENCH_FILE"); file && b.wanted("T4")) LoadKernels(b, file).measure();
  b.write(argv[1]);
  return 0;
}

}  // namespace
}  // namespace quantem::bench

int main(int argc, char** argv) {
  return quantem::bench::main_with(argc, argv);
}
