#pragma once
// T4: what the kernels of a load take where neither disk nor link is in the way. All chunks of a file lie in device memory; then the slabs go
// through decoder and encoder on two lanes, as in a load (io/load_cuda.cu), up to the finished volume: LZ4, planes, slices, tile
// sums, moments, directory, and the host's waits for the sizes of each slab. The clock is the host's.

#include <cstring>

#include "bench/cuda_bench.cuh"
#include "quantem/detector/masked_sum.h"
#include "quantem/detector/mean_pattern.h"
#include "quantem/io/frame_reader.h"
#include "quantem/io/load.h"
#include "quantem/io/load_plan.h"
#include "quantem/io/slab_plan.h"

namespace quantem::bench {

class LoadKernels {
 public:
  LoadKernels(Bench& bench, const std::string& master)
      : b(bench), container(must(inspect(master))), plan(must(plan_load(b.device, container, {}))) {
    const FrameReader reader = must(FrameReader::open(container));
    slabs = plan_slabs(plan, container, Frames(container), kSlabBlocks);
    if (slabs.empty()) fail(Error{Code::unsupported, master + ": its chunks do not go through the device decoder"});
    u64 n_bytes = 0, largest = 0;
    for (const SlabPlan& s : slabs) {
      places.push_back(n_bytes);
      n_bytes += (s.bytes + 64 + 255) / 256 * 256;  // readable behind the last chunk
      largest = std::max(largest, s.bytes);
    }
    chunks = must(b.context.allocate(n_bytes, "chunks"));
    tables = must(b.context.allocate(slabs.size() * kFrames * sizeof(ChunkPlace), "chunk tables"));
    std::vector<std::byte> slab_bytes(largest);
    for (std::size_t i = 0; i < slabs.size(); ++i) {
      const SlabPlan& s = slabs[i];
      for (const Piece& p : s.pieces) must(reader.read_bytes(p.file, p.offset, {slab_bytes.data() + p.to, p.bytes}));
      if (s.bytes) must(b.context.copy_up(chunks.as<std::byte>() + places[i], slab_bytes.data(), s.bytes));
      must(b.context.copy_up(tables.as<ChunkPlace>() + i * kFrames, s.chunks.data(), s.n_frames * sizeof(ChunkPlace)));
    }
    must(cudaMallocHost(reinterpret_cast<void**>(&pinned), slabs.size() * kFrames * 4 + slabs.size() * kFrames / 8),
         "pinned tables");
    present = pinned + slabs.size() * kFrames;
    for (std::size_t i = 0; i < slabs.size(); ++i)
      std::copy(slabs[i].present.begin(), slabs[i].present.end(), present + i * kFrames / 32);
  }
  ~LoadKernels() { cudaFreeHost(pinned); }
  LoadKernels(const LoadKernels&) = delete;
  LoadKernels& operator=(const LoadKernels&) = delete;

  void measure() {
    SlicedDeviceBuilder::Options encoding;
    encoding.layout = SlicedLayout(plan.shape.det);
    encoding.n_positions = plan.shape.n_positions();
    encoding.item_bits = static_cast<u32>(8 * item_bytes(plan.dtype));
    encoding.slab_blocks = kSlabBlocks, encoding.n_lanes = kLanes;
    encoding.valid_pixels = plan.rules.valid_pixels, encoding.saturation = plan.rules.saturation;
    Bslz4Decoder::Options decoding;
    decoding.n_pixels = static_cast<u32>(plan.shape.frame_pixels());
    decoding.item_bits = encoding.item_bits, decoding.max_frames = kFrames, decoding.n_lanes = kLanes;
    decoding.valid_pixels = plan.rules.valid_pixels, decoding.growth = growth_of_chunks();
    std::vector<double> ms;
    bool exact = true;
    for (int i = 0; i < 21; ++i) {
      // Work areas as a load finds them: there already.
      auto builder = must(SlicedDeviceBuilder::make(b.context, encoding));
      auto decoder = must(Bslz4Decoder::make(b.context, decoding));
      must(cudaDeviceSynchronize(), "T4");
      const auto start = std::chrono::steady_clock::now();
      for (std::size_t s = 0; s < slabs.size(); ++s) queue(*builder, *decoder, s);
      DeviceAudit audit;
      std::vector<FlaggedSample> flagged;
      auto volume = must(builder->finish(audit, flagged));
      ms.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
      if (i == 0) {
        exact = equal(std::move(volume), audit);
        ms.clear();  // the warm-up
      }
    }
    const double dense = static_cast<double>(plan.shape.n_values() * item_bytes(plan.dtype));
    std::sort(ms.begin(), ms.end());
    const std::string what =
        fmt::format("chunks on the device -> volume, {:.3f} TB/s dense-equivalent", dense / ms[ms.size() / 2] / 1e9);
    b.add("T4", what, ms, 0, exact);
  }

 private:
  static constexpr u32 kSlabBlocks = 8, kLanes = 2, kFrames = kSlabBlocks * kBlockPositions;

  struct Frames : FrameSource {
    explicit Frames(const Container& c) : container(c) {}
    [[nodiscard]] u64 frame_of(u64 position) const override { return container.frame_of(position); }
    std::optional<FrameFault> read_frame(u64, std::span<std::byte>, FrameReader::Scratch&) const override {
      return std::nullopt;  // only places are asked for
    }
    const Container& container;
  };

  // As a load has it: how much longer than in its first slab chunks get.
  [[nodiscard]] double growth_of_chunks() const {
    u32 first = 0, largest = 0;
    for (const SlabPlan& slab : slabs) {
      for (const ChunkPlace& chunk : slab.chunks) largest = std::max(largest, chunk.bytes);
      if (first == 0) first = largest;
    }
    return first ? static_cast<double>(largest) / first : 1;
  }

  void queue(SlicedDeviceBuilder& builder, Bslz4Decoder& decoder, std::size_t i) {
    const SlabPlan& slab = slabs[i];
    const auto lane = static_cast<u32>(i % kLanes);
    must(builder.place(lane));
    const PlaneRows rows = builder.rows(lane);
    CudaStream* const stream = builder.stream(lane);
    must(cudaMemcpyAsync(rows.present, present + i * kFrames / 32, slab.present.size() * 4, cudaMemcpyHostToDevice,
                         reinterpret_cast<cudaStream_t>(stream)),
         "T4");
    must(decoder.decode(lane, stream, chunks.as<std::byte>() + places[i], tables.as<ChunkPlace>() + i * kFrames,
                        slab.n_frames, rows, pinned + i * kFrames));
    must(builder.encode(lane, i * kSlabBlocks, slab.n_blocks));
  }

  // Whether the volume answers as the one that load() makes, and no frame was refused.
  bool equal(std::shared_ptr<const SlicedDevice> sliced, const DeviceAudit& audit) {
    bool fine = true;
    for (std::size_t i = 0; i < slabs.size(); ++i)
      for (u32 f = 0; f < slabs[i].n_frames; ++f) fine = fine && pinned[i * kFrames + f] == Bslz4Decoder::kFine;
    VolumeInfo info;
    info.shape = plan.shape, info.dtype = info.source_dtype = plan.dtype;
    info.audit.count_max = audit.count_max;
    info.valid_pixels = plan.rules.valid_pixels;
    info.valid_positions = BitMask(plan.shape.n_positions(), true);
    const Volume made(std::move(info), b.device, std::move(sliced));
    const Volume loaded = must(load(b.device, container));
    const Mask all = all_pixels(plan.shape.det);
    return fine && must(masked_sum_exact(made, all)).values == must(masked_sum_exact(loaded, all)).values &&
           must(sum_pattern(made)).values == must(sum_pattern(loaded)).values;
  }

  Bench& b;
  Container container;
  LoadPlan plan;
  std::vector<SlabPlan> slabs;
  std::vector<u64> places;
  DeviceMemory chunks, tables;
  u32 *pinned = nullptr, *present = nullptr;  // verdicts, presence
};

}  // namespace quantem::bench
