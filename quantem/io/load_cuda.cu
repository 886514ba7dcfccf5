// The two ways of a load onto a CUDA device (load_cuda.h): what is queued where, and in which order memory may be used again.
//
// The short way, slab i: read into pinned slot i % n_slots (slab_readers.cuh) -> copied to input i % 3 on the copy stream -> decoded and encoded
// on lane i % 2. Events keep a slot until it is copied and an input until it is decoded. Bound by the link: 2.6 GB take 47 ms, the kernels
// of a slab hide behind the copies of the next.

#include "quantem/io/load_cuda.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>

#include "quantem/io/bslz4_cuda.h"
#include "quantem/io/fast_load_report.h"
#include "quantem/io/slab_readers.cuh"
#include "quantem/resident/sliced_device_encode.h"
#include "quantem/runtime/cuda_load_area.h"
#include "quantem/runtime/current_device.cuh"
#include "quantem/runtime/scratch_pool.h"
#include "quantem/runtime/thread_pool.h"

namespace quantem {
namespace {

constexpr std::uint32_t kLanesOfLoad = 2;  // CUDA streams that work on different slabs
constexpr std::uint32_t kInputRing = 3;    // device buffers of compressed slabs

cudaStream_t as_cuda(CudaStream* s) {
  return reinterpret_cast<cudaStream_t>(s);
}

std::uint32_t item_bits_of(const LoadPlan& plan) {
  return static_cast<std::uint32_t>(8 * item_bytes(plan.dtype));
}

SlicedDeviceBuilder::Options builder_options(const LoadPlan& plan, std::uint32_t slab_blocks, bool fast) {
  SlicedDeviceBuilder::Options o;
  o.layout = plan.layout();
  o.n_positions = plan.shape.n_positions();
  o.item_bits = item_bits_of(plan);
  o.slab_blocks = slab_blocks;
  o.n_lanes = kLanesOfLoad;
  o.valid_pixels =
      fast ? plan.rules.valid_pixels : BitMask(plan.shape.frame_pixels(), true);  // the general path has cleared them
  o.saturation = plan.rules.saturation;
  return o;
}
Bslz4Decoder::Options decoder_options(const LoadPlan& plan, std::uint32_t slab_blocks) {
  Bslz4Decoder::Options o;
  o.n_pixels = static_cast<std::uint32_t>(plan.shape.frame_pixels());
  o.item_bits = item_bits_of(plan);
  o.max_frames = slab_blocks * kBlockPositions;
  o.n_lanes = kLanesOfLoad;
  o.valid_pixels = plan.rules.valid_pixels;
  return o;
}
std::uint64_t work_bytes_of(const LoadPlan& plan, std::uint32_t slab_blocks) {
  return SlicedDeviceBuilder::work_bytes(builder_options(plan, slab_blocks, true)) +
         Bslz4Decoder::work_bytes(decoder_options(plan, slab_blocks));
}
// As many blocks a slab as the work area allows: short slabs leave the device idle, long ones only cost memory.
std::uint32_t slab_blocks_of(const Device& device, const LoadPlan& plan) {
  std::uint32_t blocks = 1;
  while (blocks < 8 && blocks < plan.n_blocks && work_bytes_of(plan, blocks + 1) <= device.options().work_bytes)
    ++blocks;
  return blocks;
}

class CudaLoad {
 public:
  CudaLoad(const Device& device, CudaContext& context, CudaLoadArea& area, const LoadPlan& plan,
           const FrameSource& source, const BlockReader& blocks, const Container* container, const FrameReader* reader,
           ProgressMeter& meter)
      : device_(device),
        context_(context),
        area_(area),
        plan_(plan),
        source_(source),
        blocks_(blocks),
        container_(container),
        reader_(reader),
        meter_(meter) {}

  Result<CudaLoaded> run() {
    if (plan_fast()) {
      QUANTEM_TRY_ASSIGN(done, run_fast());
      if (done) return Result<CudaLoaded>(std::move(loaded_));
      loaded_ = {};  // the device could not say everything that the contract wants said: the CPU can
    }
    QUANTEM_TRY(run_general());
    return Result<CudaLoaded>(std::move(loaded_));
  }

 private:
  // Slabs of the short way, as long as the work area and the pinned slots allow.
  bool plan_fast() {
    if (!container_ || !reader_ || !plan_.plain() || plan_.options.flagged == Flagged::error ||
        !Bslz4Decoder::supports(static_cast<std::uint32_t>(plan_.shape.frame_pixels()), item_bits_of(plan_)))
      return false;
    for (slab_blocks_ = slab_blocks_of(device_, plan_);; slab_blocks_ = (slab_blocks_ + 1) / 2) {
      slabs_ = plan_slabs(plan_, *container_, source_, slab_blocks_);
      slab_bytes_ = 16;
      for (const SlabPlan& s : slabs_) slab_bytes_ = std::max(slab_bytes_, s.bytes);
      if (slab_blocks_ == 1) return !slabs_.empty();
      if (!slabs_.empty() && 2 * slab_bytes_ <= device_.options().pinned_bytes) return true;
    }
  }
  [[nodiscard]] std::uint64_t positions_per_slab() const { return std::uint64_t{slab_blocks_} * kBlockPositions; }

  // Chunk tables, presence and verdicts of all slabs, pinned, so that their copies need not wait.
  struct Tables {
    ChunkPlace* chunks = nullptr;      // [slab][position]
    std::uint32_t* present = nullptr;  // [slab][position / 32]
    std::uint32_t* verdicts = nullptr;
  };
  Result<Tables> fill_tables() {
    const std::uint64_t n = slabs_.size() * positions_per_slab();
    const std::uint64_t parts[] = {n * sizeof(ChunkPlace), n / 8, n * 4};
    std::uint64_t n_bytes = 0;
    for (const std::uint64_t part : parts) n_bytes += AreaPieces::rounded(part);
    QUANTEM_TRY_ASSIGN(pinned, area_.pinned_bytes(n_bytes));
    AreaPieces pieces(pinned);
    Tables t;
    pieces.take(t.chunks, parts[0]);
    pieces.take(t.present, parts[1]);
    pieces.take(t.verdicts, parts[2]);
    for (std::size_t i = 0; i < slabs_.size(); ++i) {
      const SlabPlan& slab = slabs_[i];
      std::copy(slab.chunks.begin(), slab.chunks.end(), t.chunks + i * positions_per_slab());
      std::copy(slab.present.begin(), slab.present.end(), t.present + i * positions_per_slab() / 32);
    }
    return t;
  }

  // How much larger than in the first slab with frames the largest chunk of all slabs is.
  [[nodiscard]] double growth_of_chunks() const {
    std::uint32_t first = 0, largest = 0;
    for (const SlabPlan& slab : slabs_) {
      for (const ChunkPlace& chunk : slab.chunks) largest = std::max(largest, chunk.bytes);
      if (first == 0) first = largest;
    }
    return first ? static_cast<double>(largest) / first : 1;
  }

  struct Input {  // of the ring, in device memory
    std::byte* bytes = nullptr;
    ChunkPlace* chunks = nullptr;
  };
  // Encoder, decoder and inputs share the work area. Nothing in it outlives this; each waits for its stream when it goes.
  struct Fast {
    Input inputs[kInputRing];
    Event arrived[kInputRing], taken[kInputRing];
    std::unique_ptr<Bslz4Decoder> decoder;
    std::unique_ptr<SlicedDeviceBuilder> builder;
    CopyStream copies;
  };
  Result<Done> prepare_fast(Fast& fast) {
    SlicedDeviceBuilder::Options encoding = builder_options(plan_, slab_blocks_, true);
    Bslz4Decoder::Options decoding = decoder_options(plan_, slab_blocks_);
    decoding.growth = growth_of_chunks();
    const std::uint64_t encoder_bytes = SlicedDeviceBuilder::work_bytes(encoding),
                        decoder_bytes = Bslz4Decoder::work_bytes(decoding),
                        input_bytes = slab_bytes_ + 64,  // readable behind the last chunk
        table_bytes = positions_per_slab() * sizeof(ChunkPlace);
    QUANTEM_TRY_ASSIGN(
        work, area_.device_bytes(AreaPieces::rounded(encoder_bytes) + AreaPieces::rounded(decoder_bytes) +
                                 kInputRing * (AreaPieces::rounded(input_bytes) + AreaPieces::rounded(table_bytes))));
    AreaPieces pieces(work);
    pieces.take(encoding.work, encoder_bytes);
    pieces.take(decoding.work, decoder_bytes);
    for (Input& input : fast.inputs) {
      pieces.take(input.bytes, input_bytes);
      pieces.take(input.chunks, table_bytes);
    }
    QUANTEM_TRY_ASSIGN(builder, SlicedDeviceBuilder::make(context_, encoding));
    QUANTEM_TRY_ASSIGN(decoder, Bslz4Decoder::make(context_, decoding));
    fast.builder = std::move(builder);
    fast.decoder = std::move(decoder);
    return Done{};
  }

  // False: take the general path instead.
  Result<bool> run_fast() {
    const std::size_t n_slots = std::min<std::size_t>(
        slabs_.size(), std::clamp<std::uint64_t>(device_.options().pinned_bytes / (slab_bytes_ + 1), 2, 8));
    QUANTEM_TRY_ASSIGN(slots, context_.pinned_slabs(n_slots, slab_bytes_));
    QUANTEM_TRY_ASSIGN(tables, fill_tables());
    Fast fast;
    QUANTEM_TRY(prepare_fast(fast));
    {
      Readers readers(slabs_, *reader_, slots, std::max(1, std::min(plan_threads(), 32)), context_.device());
      for (std::size_t i = 0; i < slabs_.size(); ++i) {
        if (meter_.cancelled()) return meter_.cancelled_error("load");
        QUANTEM_TRY_ASSIGN(bytes, readers.wait(i));
        QUANTEM_TRY(copy_slab(fast, i, bytes, tables));
        QUANTEM_TRY(readers.queued(i, fast.copies.stream, context_));
        QUANTEM_TRY(encode_slab(fast, i, tables));
        meter_.add(slabs_[i].n_frames);
      }
    }
    DeviceAudit audit;
    std::vector<FlaggedSample> flagged;
    auto volume = fast.builder->finish(audit, flagged);
    if (!volume) {
      if (volume.error().code == Code::unsupported) return false;  // more samples without a value than the device lists
      return volume.take_error();
    }
    loaded_.volume = std::move(*volume);
    loaded_.fast = true;
    const DeviceCounted counted{
        audit, flagged, {tables.verdicts, slabs_.size() * positions_per_slab()}, positions_per_slab()};
    return report_fast_load(plan_, source_, slabs_, counted, loaded_.reports);
  }

  // Queues the copies of slab i, behind the decoding of the slab that had its input before.
  Result<Done> copy_slab(Fast& fast, std::size_t i, const void* bytes, const Tables& tables) {
    const SlabPlan& slab = slabs_[i];
    const std::size_t ring = i % kInputRing;
    const cudaStream_t up = fast.copies.stream;
    const auto check = [&](cudaError_t status) { return context_.check(status, "load"); };
    if (i >= kInputRing) QUANTEM_TRY(check(cudaStreamWaitEvent(up, fast.taken[ring].event)));
    if (slab.bytes)
      QUANTEM_TRY(check(cudaMemcpyAsync(fast.inputs[ring].bytes, bytes, slab.bytes, cudaMemcpyHostToDevice, up)));
    QUANTEM_TRY(check(cudaMemcpyAsync(fast.inputs[ring].chunks, tables.chunks + i * positions_per_slab(),
                                      slab.n_frames * sizeof(ChunkPlace), cudaMemcpyHostToDevice, up)));
    return check(cudaEventRecord(fast.arrived[ring].event, up));
  }

  // Queues all that happens to slab i on its lane; first the slab that the lane had before is placed.
  Result<Done> encode_slab(Fast& fast, std::size_t i, const Tables& tables) {
    const SlabPlan& slab = slabs_[i];
    const std::size_t ring = i % kInputRing;
    const auto lane = static_cast<std::uint32_t>(i % kLanesOfLoad);
    SlicedDeviceBuilder& builder = *fast.builder;
    const cudaStream_t stream = as_cuda(builder.stream(lane));
    const PlaneRows rows = builder.rows(lane);
    const auto check = [&](cudaError_t status) { return context_.check(status, "load"); };
    QUANTEM_TRY(builder.place(lane));
    QUANTEM_TRY(check(cudaStreamWaitEvent(stream, fast.arrived[ring].event)));
    QUANTEM_TRY(check(cudaMemcpyAsync(rows.present, tables.present + i * positions_per_slab() / 32,
                                      slab.present.size() * 4, cudaMemcpyHostToDevice, stream)));
    QUANTEM_TRY(fast.decoder->decode(lane, builder.stream(lane), fast.inputs[ring].bytes, fast.inputs[ring].chunks,
                                     slab.n_frames, rows, tables.verdicts + i * positions_per_slab()));
    QUANTEM_TRY(check(cudaEventRecord(fast.taken[ring].event, stream)));
    const std::uint64_t first_block = i * slab_blocks_;
    if (plan_.options.flagged == Flagged::zero) QUANTEM_TRY(builder.clear_flagged(lane, first_block, slab.n_blocks));
    return builder.encode(lane, first_block, slab.n_blocks);
  }

  int plan_threads() const {
    return device_.options().threads > 0 ? device_.options().threads : default_thread_count();
  }

  // Blocks read and made dense by the CPU, in parallel, encoded on the device as they come.
  Result<Done> run_general() {
    const std::uint64_t frame_bytes = plan_.shape.frame_pixels() * item_bytes(plan_.dtype),
                        block_bytes = frame_bytes * kBlockPositions;
    SlicedDeviceBuilder::Options encoding = builder_options(plan_, 1, false);
    const std::uint64_t encoder_bytes = SlicedDeviceBuilder::work_bytes(encoding);
    QUANTEM_TRY_ASSIGN(
        work, area_.device_bytes(AreaPieces::rounded(encoder_bytes) + kLanesOfLoad * AreaPieces::rounded(block_bytes)));
    AreaPieces pieces(work);
    pieces.take(encoding.work, encoder_bytes);
    std::vector<void*> values(kLanesOfLoad);  // frames of a block, in device memory
    for (void*& v : values) pieces.take(v, block_bytes);
    QUANTEM_TRY_ASSIGN(builder, SlicedDeviceBuilder::make(context_, encoding));
    loaded_.reports.resize(plan_.n_blocks);
    // A wave of blocks at a time: read by all threads, then encoded in order.
    const std::uint64_t wave =
        std::max<std::uint64_t>(1, std::min<std::uint64_t>(static_cast<std::uint64_t>(plan_threads()),
                                                           device_.options().pinned_bytes / block_bytes));
    QUANTEM_TRY_ASSIGN(slots, context_.pinned_slabs(std::min(wave, plan_.n_blocks), block_bytes));
    ScratchPool<BlockReader::Scratch> pool;
    for (std::uint64_t first = 0; first < plan_.n_blocks; first += wave) {
      const std::uint64_t n = std::min(wave, plan_.n_blocks - first);
      for (std::uint32_t lane = 0; lane < kLanesOfLoad; ++lane) {  // the slots of the wave before have been copied
        QUANTEM_TRY(builder->place(lane));
        QUANTEM_TRY(context_.check(cudaStreamSynchronize(as_cuda(builder->stream(lane))), "load"));
      }
      std::vector<std::optional<Error>> errors(n);
      parallel_for(
          n,
          [&](std::uint64_t i) {
            if (meter_.cancelled()) return;
            const auto scratch = pool.borrow();
            auto done = blocks_.read(first + i, {static_cast<std::byte*>(slots[i]), frames_in(first + i) * frame_bytes},
                                     loaded_.reports[first + i], *scratch, meter_);
            if (!done) errors[i] = done.take_error();
          },
          plan_threads());
      if (meter_.cancelled()) return meter_.cancelled_error("load");
      for (std::uint64_t i = 0; i < n; ++i) {
        if (errors[i]) return *errors[i];
        QUANTEM_TRY(encode_values(*builder, first + i, slots[i], values));
      }
    }
    DeviceAudit audit;
    std::vector<FlaggedSample> flagged;
    QUANTEM_TRY_ASSIGN(volume, builder->finish(audit, flagged));
    loaded_.volume = std::move(volume);
    return Done{};
  }

  [[nodiscard]] std::uint64_t frames_in(std::uint64_t block) const {
    return std::min<std::uint64_t>(kBlockPositions, plan_.shape.n_positions() - block * kBlockPositions);
  }

  Result<Done> encode_values(SlicedDeviceBuilder& builder, std::uint64_t block, const void* frames,
                             const std::vector<void*>& values) {
    const auto lane = static_cast<std::uint32_t>(block % kLanesOfLoad);
    const cudaStream_t stream = as_cuda(builder.stream(lane));
    QUANTEM_TRY(builder.place(lane));
    const std::uint64_t n = frames_in(block), n_bytes = n * plan_.shape.frame_pixels() * item_bytes(plan_.dtype);
    std::uint32_t present[kBlockPositions / 32] = {};
    for (std::uint32_t i = 0; i < n; ++i) present[i / 32] |= 1u << i % 32;
    for (const std::uint64_t m : loaded_.reports[block].missing) present[m % kBlockPositions / 32] &= ~(1u << m % 32);
    QUANTEM_TRY(context_.check(cudaMemcpyAsync(values[lane], frames, n_bytes, cudaMemcpyHostToDevice, stream), "load"));
    QUANTEM_TRY(context_.check(
        cudaMemcpyAsync(builder.rows(lane).present, present, sizeof present, cudaMemcpyHostToDevice, stream), "load"));
    QUANTEM_TRY(builder.rows_from_values(lane, values[lane], static_cast<std::uint32_t>(n)));
    return builder.encode(lane, block, 1);
  }

  const Device& device_;
  CudaContext& context_;
  CudaLoadArea& area_;
  const LoadPlan& plan_;
  const FrameSource& source_;
  const BlockReader& blocks_;
  const Container* container_;
  const FrameReader* reader_;
  ProgressMeter& meter_;
  std::uint32_t slab_blocks_ = 1;
  std::uint64_t slab_bytes_ = 0;  // of the largest
  std::vector<SlabPlan> slabs_;
  CudaLoaded loaded_;
};

}  // namespace

std::uint64_t cuda_work_bytes(const Device& device, const LoadPlan& plan) {
  if (!is_unsigned_count(plan.dtype)) return 0;
  return work_bytes_of(plan, slab_blocks_of(device, plan));
}

Result<CudaLoaded> load_on_cuda(const Device& device, const LoadPlan& plan, const FrameSource& source,
                                const BlockReader& blocks, const Container* container, const FrameReader* reader,
                                ProgressMeter& meter) {
  QUANTEM_TRY_ASSIGN(context, CudaContext::of(device));
  const CurrentDevice current(context->device());
  CudaLoadArea area(*context);  // until everything that is queued on it is done
  return CudaLoad(device, *context, area, plan, source, blocks, container, reader, meter).run();
}

}  // namespace quantem
