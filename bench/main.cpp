// quantem-bench: makes the acquisition that speeds are quoted for, and times the engine on it. bench/bench.py (./run bench) runs it, checks
// its answers against NumPy in the same run, and prints ratios.

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "bench/acquisition.h"
#include "quantem/detector/geometry.h"
#include "quantem/detector/masked_sum.h"
#include "quantem/detector/mean_pattern.h"
#include "quantem/io/load.h"
#include "quantem/io/npy.h"
#include "quantem/io/save.h"

namespace quantem::bench {
namespace {

constexpr const char* kUsage =
    "usage: quantem-bench generate MASTER.h5 [--scan RxC] [--detector RxC] [--disc MEAN] [--tail MEAN] [--hot N]\n"
    "       quantem-bench run MASTER.h5 --out DIR [--backend cpu|cuda] [--repeat N]\n"
    "       quantem-bench load MASTER.h5 [--backend cpu|cuda] [--repeat N] [--work MIB]     the load alone\n";

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// A field of /proc/self/status ("VmHWM:", "VmRSS:"), in bytes.
std::uint64_t process_bytes(std::string_view key) {
  std::ifstream in("/proc/self/status");
  std::string word;
  std::uint64_t value = 0;
  while (in >> word)
    if (word == key && in >> value) return value * 1024;
  return 0;
}
void reset_peak() {
  std::ofstream("/proc/self/clear_refs") << "5";
}

[[noreturn]] void fail(const Error& error) {
  fmt::print(stderr, "quantem-bench: {}: {}\n", code_info(error.code).name, error.message);
  std::exit(code_info(error.code).exit_status);
}
template <class T>
T must(Result<T> result) {
  if (!result) fail(result.error());
  return *std::move(result);
}

Extent parse_extent(const std::string& text) {
  Extent e;
  if (std::sscanf(text.c_str(), "%ux%u", &e.rows, &e.cols) != 2)
    fail(Error{Code::invalid_argument, "'" + text + "' is not ROWSxCOLS"});
  return e;
}

int generate(const std::string& master, const Acquisition& acquisition) {
  const AcquisitionFrames frames(acquisition);
  ArinaSpec spec;
  spec.shape = acquisition.shape;
  spec.dtype = Dtype::u16;
  spec.overwrite = true;
  if (!acquisition.hot_pixels.empty()) {
    spec.pixel_mask.assign(spec.shape.frame_pixels(), 0);
    for (const std::uint32_t p : acquisition.hot_pixels) spec.pixel_mask[p] = 1;
  }
  const FrameProvider provider = [&](std::uint64_t position, std::span<std::byte> out) -> Result<Done> {
    frames.fill(position, {reinterpret_cast<std::uint16_t*>(out.data()), out.size() / 2});
    return Done{};
  };
  must(write_arina(master, spec, provider, {}));
  return 0;
}

// Times a call `repeat` times after one warm-up.
template <class F>
nlohmann::ordered_json timed(const char* what, int repeat, F&& call) {
  call();
  std::vector<double> ms;
  for (int i = 0; i < repeat; ++i) {
    const auto start = std::chrono::steady_clock::now();
    call();
    ms.push_back(1e3 * seconds_since(start));
  }
  std::sort(ms.begin(), ms.end());
  fmt::print("{:34s} {:10.3f} ms  (min {:.3f}, max {:.3f})\n", what, ms[ms.size() / 2], ms.front(), ms.back());
  return {{"what", what}, {"median_ms", ms[ms.size() / 2]}, {"min_ms", ms.front()}, {"max_ms", ms.back()}};
}

template <class T>
void save(const std::string& path, const std::vector<T>& values, Extent extent) {
  must(write_npy(path, {dtype_of<T>(), {extent.rows, extent.cols}, values.data()}, true));
}

struct Loaded {
  Volume volume;
  std::uint64_t file_bytes;
  std::uint64_t memory_bytes;         // the process's peak above what it held before and the volume, of the first load
  std::uint64_t device_memory_bytes;  // the same on a CUDA device, of a load before those that are timed
  nlohmann::ordered_json row;
};

// The least memory that was free on the first CUDA device since this was made, seen every millisecond.
class LeastFree {
 public:
  LeastFree()
      : first_(free_now()), least_(first_), thread_([this](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            least_ = std::min<std::uint64_t>(least_, free_now());
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          }
        }) {}
  // Bytes taken at the worst moment; ends the watching.
  std::uint64_t most_taken() {
    thread_.request_stop();
    thread_.join();
    return first_ - std::min(first_, least_.load());
  }

 private:
  static std::uint64_t free_now() {
    const DeviceList list = list_cuda_devices();
    return list.devices.empty() ? 0 : list.devices.front().free_bytes;
  }
  std::uint64_t first_;
  std::atomic<std::uint64_t> least_;
  std::jthread thread_;
};

// From the file (in the page cache once the first load has read it) to a volume with tile sums, moments, mean pattern and totals.
Loaded timed_load(const Device& device, const std::string& master, int repeat) {
  std::uint64_t device_above = 0;
  if (device.backend() == Backend::cuda) {  // watching it slows a load down
    LeastFree watch;
    const Volume watched = must(load(device, must(inspect(master))));
    const std::uint64_t taken = watch.most_taken();
    device_above = taken - std::min(taken, watched.resident_bytes());
  }
  const std::uint64_t before = process_bytes("VmRSS:");
  reset_peak();
  std::optional<Volume> volume;
  std::vector<double> ms;
  std::uint64_t file_bytes = 0, peak_above = 0;
  for (int i = 0; i < repeat; ++i) {
    volume.reset();
    const auto start = std::chrono::steady_clock::now();
    const Container container = must(inspect(master));
    volume = must(load(device, container));
    must(mean_pattern(*volume));
    must(masked_sum(*volume, all_pixels(volume->shape().det)));
    ms.push_back(1e3 * seconds_since(start));
    if (i == 0) {
      const std::uint64_t held = before + volume->resident_bytes(), peak = process_bytes("VmHWM:");
      peak_above = peak > held ? peak - held : 0;
      for (const SourceFile& f : container.identity) file_bytes += f.bytes;
    }
  }
  std::sort(ms.begin(), ms.end());
  const double median = ms[ms.size() / 2], dense = static_cast<double>(volume->logical_bytes());
  fmt::print(
      "{:34s} {:10.3f} ms  (min {:.3f}, max {:.3f}); {:.2f} GB/s dense-equivalent; volume {:.1f} MB, files {:.1f} MB\n",
      "load", median, ms.front(), ms.back(), dense / 1e6 / median, static_cast<double>(volume->resident_bytes()) / 1e6,
      static_cast<double>(file_bytes) / 1e6);
  nlohmann::ordered_json row = {{"what", "load"},
                                {"shape", to_string(volume->shape())},
                                {"dtype", dtype_name(volume->dtype())},
                                {"dense_bytes", volume->logical_bytes()},
                                {"volume_bytes", volume->resident_bytes()},
                                {"file_bytes", file_bytes},
                                {"median_ms", median},
                                {"min_ms", ms.front()},
                                {"max_ms", ms.back()}};
  return {*std::move(volume), file_bytes, peak_above, device_above, std::move(row)};
}

std::vector<std::uint8_t> bytes_of(const Mask& mask) {
  std::vector<std::uint8_t> bytes(mask.det.count());
  for (std::uint64_t i = 0; i < bytes.size(); ++i) bytes[i] = mask.bits[i];
  return bytes;
}

// Times the images of the table, a row each; the answers and their masks go to `out` as .npy files, for bench.py to check.
void run_queries(const Volume& volume, const std::string& out, int repeat, nlohmann::ordered_json& rows) {
  const Extent det = volume.shape().det, scan = volume.shape().scan;
  const Point center = geometric_center(det);
  const struct {
    const char* name;
    double inner, outer;
  } bands[] = {{"bf", 0, 30}, {"adf", 30, 60}, {"adf_40_80", 40, 80}, {"df", 30, INFINITY}};
  for (const auto& band : bands) {
    const Mask mask =
        must(band.inner > 0 ? annulus(center, band.inner, band.outer, det) : disk(center, band.outer, det));
    rows.push_back(timed(band.name, repeat, [&] { must(masked_sum_exact(volume, mask)); }));
    save(out + "/" + band.name + ".npy", must(masked_sum_exact(volume, mask)).values, scan);
    save(out + "/" + band.name + "_mask.npy", bytes_of(mask), det);
  }
  const Mask r60 = must(disk(center, 60, det));
  for (const Mask* mask : {static_cast<const Mask*>(nullptr), &r60}) {
    const char* name = mask ? "masked_com" : "com";
    rows.push_back(timed(name, repeat, [&] { must(moment_sums(volume, mask)); }));
    const MomentSums sums = must(moment_sums(volume, mask));
    save(out + "/" + name + "_total.npy", sums.total, scan);
    save(out + "/" + name + "_row.npy", sums.row, scan);
    save(out + "/" + name + "_col.npy", sums.col, scan);
  }
  save(out + "/masked_com_mask.npy", bytes_of(r60), det);
  rows.push_back(timed("mean", repeat, [&] { must(mean_pattern(volume)); }));
  save(out + "/mean.npy", must(mean_pattern(volume)).values, det);
  save(out + "/sum_pattern.npy", must(sum_pattern(volume)).values, det);
  rows.push_back(timed("one frame", repeat, [&] { must(frame(volume, {scan.rows / 2, scan.cols / 3})); }));
}

int run(const std::string& master, const std::string& out, Backend backend, int repeat) {
  const Device device = must(open_device(backend));
  const Loaded loaded = timed_load(device, master, std::max(3, repeat / 7));
  nlohmann::ordered_json rows = nlohmann::ordered_json::array({loaded.row});
  run_queries(loaded.volume, out, repeat, rows);
  nlohmann::ordered_json record;
  record["device"] = device.info().name;
  record["runtime"] = device.info().runtime;
  record["threads"] = std::getenv("QUANTEM_GPU_THREADS") ? std::getenv("QUANTEM_GPU_THREADS") : "all";
  record["logical_bytes"] = loaded.volume.logical_bytes();
  record["resident_bytes"] = loaded.volume.resident_bytes();
  record["file_bytes"] = loaded.file_bytes;
  record["load_memory_bytes"] = loaded.memory_bytes;
  record["device_memory_bytes"] = loaded.device_memory_bytes;
  record["rows"] = rows;
  std::ofstream written(out + "/run.json");
  written << record.dump(1) << "\n";
  written.close();
  if (!written) fail(Error{Code::io, "cannot write " + out + "/run.json"});
  return 0;
}

// The load alone, from the file in the page cache: what bounds it on a device is the link.
int run_load(const std::string& master, Backend backend, int repeat, std::uint64_t work_mib) {
  DeviceOptions options;
  if (work_mib) options.work_bytes = work_mib << 20;
  const Device device = must(open_device(backend, 0, options));
  std::vector<double> inspect_ms, load_ms;
  std::uint64_t resident = 0, dense = 0, files = 0;
  std::string path;
  for (int i = 0; i < repeat + 1; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const Container container = must(inspect(master));
    const double inspected = seconds_since(start);
    const Volume volume = must(load(device, container));
    const double loaded = seconds_since(start);
    if (i == 0)
      fmt::print("first load {:.1f} ms (inspect {:.1f})\n", 1e3 * loaded, 1e3 * inspected);
    else
      inspect_ms.push_back(1e3 * inspected), load_ms.push_back(1e3 * loaded);
    resident = volume.resident_bytes();
    dense = volume.logical_bytes();
    path = volume.provenance().path;
    files = 0;
    for (const SourceFile& f : container.identity) files += f.bytes;
  }
  std::sort(load_ms.begin(), load_ms.end());
  std::sort(inspect_ms.begin(), inspect_ms.end());
  const double median = load_ms[load_ms.size() / 2];
  fmt::print(
      "{}: {:.1f} ms median (min {:.1f}, max {:.1f}), of it inspect {:.1f}; {:.1f} GB/s of file, {:.0f} GB/s "
      "dense-equivalent; "
      "volume {:.4f} GB, files {:.4f} GB\n",
      path, median, load_ms.front(), load_ms.back(), inspect_ms[inspect_ms.size() / 2],
      static_cast<double>(files) / 1e6 / median, static_cast<double>(dense) / 1e6 / median,
      static_cast<double>(resident) / 1e9, static_cast<double>(files) / 1e9);
  return 0;
}

int main_with(const std::vector<std::string>& words) {
  if (words.size() < 2 || words.size() % 2) {  // a verb, a file, then options with a value each
    fmt::print(stderr, "{}", kUsage);
    return 2;
  }
  Acquisition acquisition;
  std::string out = ".";
  Backend backend = Backend::cpu;
  int repeat = 21, hot = 0;
  std::uint64_t work_mib = 0;
  for (std::size_t i = 2; i + 1 < words.size(); i += 2) {
    const std::string &key = words[i], &value = words[i + 1];
    if (key == "--scan")
      acquisition.shape.scan = parse_extent(value);
    else if (key == "--detector")
      acquisition.shape.det = parse_extent(value);
    else if (key == "--disc")
      acquisition.disc_mean = std::atof(value.c_str());
    else if (key == "--tail")
      acquisition.tail_mean = std::atof(value.c_str());
    else if (key == "--hot")
      hot = std::atoi(value.c_str());
    else if (key == "--out")
      out = value;
    else if (key == "--backend")
      backend = must(parse_backend(value));
    else if (key == "--work")
      work_mib = std::strtoull(value.c_str(), nullptr, 10);
    else if (key == "--repeat")
      repeat = std::max(1, std::atoi(value.c_str()));
    else
      fail(Error{Code::invalid_argument, "unknown option " + key});
  }
  for (int i = 0; i < hot; ++i)
    acquisition.hot_pixels.push_back(static_cast<std::uint32_t>(
        acquisition.shape.frame_pixels() * (2 * static_cast<unsigned>(i) + 1) / (2 * static_cast<unsigned>(hot))));
  if (words[0] == "generate") return generate(words[1], acquisition);
  if (words[0] == "load") return run_load(words[1], backend, repeat, work_mib);
  if (words[0] == "run") return run(words[1], out, backend, repeat);
  fmt::print(stderr, "{}", kUsage);
  return 2;
}

}  // namespace
}  // namespace quantem::bench

int main(int argc, char** argv) {
  return quantem::bench::main_with({argv + 1, argv + argc});
}
