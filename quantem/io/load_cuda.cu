#include "quantem/io/load_cuda.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

#include "quantem/io/bslz4_cuda.h"
#include "quantem/resident/sliced_device_encode.h"
#include "quantem/runtime/scratch_pool.h"
#include "quantem/runtime/thread_pool.h"

namespace quantem {
namespace {

constexpr std::uint32_t kLanesOfLoad = 2;                      // CUDA streams that work on different slabs
constexpr std::uint32_t kInputRing = 3;                        // device buffers of compressed slabs
constexpr std::uint64_t kPieceBytes = std::uint64_t{2} << 20;  // of one read
constexpr std::uint64_t kJoinGap = 64 << 10;                   // chunks closer than this are read together

cudaStream_t as_cuda(CudaStream* s) {
  return reinterpret_cast<cudaStream_t>(s);
}

std::uint32_t item_bits_of(const LoadPlan& plan) {
  return static_cast<std::uint32_t>(8 * item_bytes(plan.dtype));
}

SlicedDeviceBuilder::Options builder_options(const LoadPlan& plan, std::uint32_t slab_blocks, bool fast) {
  SlicedDeviceBuilder::Options o;
  o.layout = SlicedLayout(plan.shape.det);
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
  return {static_cast<std::uint32_t>(plan.shape.frame_pixels()), item_bits_of(plan), slab_blocks * kBlockPositions,
          kLanesOfLoad, plan.rules.valid_pixels};
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

// Events and streams that go when the load does.
struct Event {
  cudaEvent_t event = nullptr;
  explicit Event(unsigned flags = cudaEventDisableTiming) { cudaEventCreateWithFlags(&event, flags); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() {
    if (event) cudaEventDestroy(event);
  }
};

// -------------------------------------------------------------------------------------------------- the short way: where bytes lie
bool is_bitshuffle_lz4(const Part& part, const Container& container) {
  return part.one_frame_per_chunk() && !part.big_endian && part.dtype == container.dtype && part.filters.size() == 1 &&
         part.filters[0].id == 32008 && part.filters[0].client.size() > 4 && part.filters[0].client[4] == 2;
}

struct Piece {  // one read: bytes of a file to a place in a slab
  std::uint32_t file;
  std::uint64_t offset, bytes, to;
};
struct SlabPlan {
  std::uint64_t first_position = 0;
  std::uint32_t n_frames = 0, n_blocks = 0;
  std::uint64_t bytes = 0;  // of the slab, gaps included
  std::vector<Piece> pieces;
  std::vector<ChunkPlace> chunks;      // of each frame
  std::vector<std::uint32_t> present;  // a bit a frame
};

// Chunks of the slab's positions, joined into few large reads. False when a chunk needs the CPU (a filter was left out, another codec).
bool plan_slab(const LoadPlan& plan, const Container& container, const FrameSource& source, SlabPlan& slab) {
  struct Chunk {
    std::uint32_t file, frame;
    std::uint64_t offset, bytes;
  };
  std::vector<Chunk> chunks;
  slab.chunks.assign(slab.n_frames, {0, 0});
  slab.present.assign(std::size_t{slab.n_blocks} * (kBlockPositions / 32), 0);
  for (std::uint32_t i = 0; i < slab.n_frames; ++i) {
    const std::uint64_t frame = source.frame_of(plan.source_position(slab.first_position + i));
    const Part* part = container.part_of(frame);
    if (!part || !part->absent_reason.empty()) continue;
    if (!is_bitshuffle_lz4(*part, container)) return false;
    const ByteRange& range = part->chunks[frame - part->first_frame];
    if (!range.present()) continue;
    if (range.filter_mask != 0 || range.bytes > 0x7fffffffu) return false;
    chunks.push_back({part->file, i, range.offset, range.bytes});
  }
  std::sort(chunks.begin(), chunks.end(),
            [](const Chunk& a, const Chunk& b) { return a.file != b.file ? a.file < b.file : a.offset < b.offset; });
  std::uint64_t at = 0;  // where the next byte goes
  for (const Chunk& c : chunks) {
    Piece* last = slab.pieces.empty() ? nullptr : &slab.pieces.back();
    const bool joins = last && last->file == c.file && c.offset >= last->offset &&
                       c.offset <= last->offset + last->bytes + kJoinGap && last->bytes < kPieceBytes;
    if (!joins) {
      at = (at + 15) / 16 * 16;
      slab.pieces.push_back({c.file, c.offset, 0, at});
      last = &slab.pieces.back();
    }
    slab.chunks[c.frame] = {static_cast<std::uint32_t>(last->to + (c.offset - last->offset)),
                            static_cast<std::uint32_t>(c.bytes)};
    slab.present[c.frame / 32] |= 1u << c.frame % 32;
    last->bytes = std::max(last->bytes, c.offset + c.bytes - last->offset);
    at = std::max(at, last->to + last->bytes);
  }
  slab.bytes = at;
  return at < 0x7fffffffu;
}

// ------------------------------------------------------------------------------------------------- the short way: reading
// Threads that read pieces in order into a ring of pinned slots. A slot is free again when its copy to the device is done.
class Readers {
 public:
  Readers(const std::vector<SlabPlan>& slabs, const FrameReader& reader, std::vector<void*> slots, int n_threads,
          int device)
      : slabs_(slabs),
        reader_(reader),
        slots_(std::move(slots)),
        device_(device),
        left_(slabs.size()),
        copied_(slots_.size()) {
    for (std::size_t s = 0; s < slabs.size(); ++s) {
      left_[s] = slabs[s].pieces.size();
      for (std::size_t p = 0; p < slabs[s].pieces.size(); ++p) jobs_.push_back({s, p});
    }
    for (int t = 0; t < n_threads; ++t) threads_.emplace_back([this] { work(); });
  }
  ~Readers() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    for (std::thread& t : threads_) t.join();
  }
  // Waits until all bytes of a slab are in its slot.
  Result<const void*> wait(std::size_t slab) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return left_[slab] == 0 || error_; });
    if (error_) return *error_;
    return static_cast<const void*>(slots_[slab % slots_.size()]);
  }
  // The copy of this slab is queued on `stream`: its slot is free when the copy is done.
  Result<Done> queued(std::size_t slab, cudaStream_t stream, CudaContext& context) {
    QUANTEM_TRY(context.check(cudaEventRecord(copied_[slab % slots_.size()].event, stream), "load"));
    {
      const std::lock_guard lock(mutex_);
      n_queued_ = slab + 1;
    }
    changed_.notify_all();
    return Done{};
  }

 private:
  struct Job {
    std::size_t slab, piece;
  };
  void work() {
    cudaSetDevice(device_);
    for (;;) {
      const std::size_t i = next_++;
      if (i >= jobs_.size()) return;
      const Job job = jobs_[i];
      const std::size_t slot = job.slab % slots_.size();
      if (job.slab >= slots_.size()) {  // the slab that used this slot before must have been copied
        {
          std::unique_lock lock(mutex_);
          changed_.wait(lock, [&] { return stop_ || n_queued_ > job.slab - slots_.size(); });
          if (stop_) return;
        }
        cudaEventSynchronize(copied_[slot].event);
      }
      const Piece& piece = slabs_[job.slab].pieces[job.piece];
      auto done =
          reader_.read_bytes(piece.file, piece.offset, {static_cast<std::byte*>(slots_[slot]) + piece.to, piece.bytes});
      bool last = false;
      {
        const std::lock_guard lock(mutex_);
        if (!done && !error_) error_ = done.error();
        last = --left_[job.slab] == 0 || error_;
      }
      if (last) changed_.notify_all();
    }
  }

  const std::vector<SlabPlan>& slabs_;
  const FrameReader& reader_;
  std::vector<void*> slots_;
  int device_;
  std::vector<Job> jobs_;
  std::vector<std::size_t> left_;
  std::vector<Event> copied_;
  std::atomic<std::size_t> next_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t n_queued_ = 0;
  bool stop_ = false;
  std::optional<Error> error_;
  std::vector<std::thread> threads_;
};

// ----------------------------------------------------------------------------------------------------------------- a load
class CudaLoad {
 public:
  CudaLoad(const Device& device, CudaContext& context, const LoadPlan& plan, const FrameSource& source,
           const BlockReader& blocks, const Container* container, const FrameReader* reader, ProgressMeter& meter)
      : device_(device),
        context_(context),
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
  bool plan_fast() {
    const auto n_pixels = static_cast<std::uint32_t>(plan_.shape.frame_pixels());
    if (!container_ || !reader_ || !plan_.plain() || plan_.options.flagged == Flagged::error ||
        !Bslz4Decoder::supports(n_pixels, item_bits_of(plan_)))
      return false;
    slab_blocks_ = slab_blocks_of(device_, plan_);
    slabs_.resize((plan_.n_blocks + slab_blocks_ - 1) / slab_blocks_);
    std::atomic<bool> good = true;
    parallel_for(slabs_.size(), [&](std::uint64_t i) {
      SlabPlan& slab = slabs_[i];
      const std::uint64_t first_block = i * slab_blocks_;
      slab.first_position = first_block * kBlockPositions;
      slab.n_blocks = static_cast<std::uint32_t>(std::min<std::uint64_t>(slab_blocks_, plan_.n_blocks - first_block));
      slab.n_frames = static_cast<std::uint32_t>(std::min<std::uint64_t>(
          std::uint64_t{slab.n_blocks} * kBlockPositions, plan_.shape.n_positions() - slab.first_position));
      if (!plan_slab(plan_, *container_, source_, slab)) good = false;
    });
    return good;
  }

  // False: take the general path instead.
  Result<bool> run_fast() {
    QUANTEM_TRY_ASSIGN(builder, SlicedDeviceBuilder::make(context_, builder_options(plan_, slab_blocks_, true)));
    QUANTEM_TRY_ASSIGN(decoder, Bslz4Decoder::make(context_, decoder_options(plan_, slab_blocks_)));
    std::uint64_t slab_bytes = 16;
    for (const SlabPlan& s : slabs_) slab_bytes = std::max(slab_bytes, s.bytes);
    const std::size_t n_slots = std::min<std::size_t>(
        slabs_.size(), std::clamp<std::uint64_t>(device_.options().pinned_bytes / (slab_bytes + 1), 2, 8));
    QUANTEM_TRY_ASSIGN(slots, context_.pinned_slabs(n_slots, slab_bytes));
    // Chunk tables and presence of all slabs, one copy each way: pinned, so that copies need not wait.
    const std::uint64_t n_frames = slabs_.size() * slab_blocks_ * std::uint64_t{kBlockPositions};
    const std::uint64_t table_bytes = n_frames * sizeof(ChunkPlace), present_bytes = n_frames / 8;
    auto lock = context_.query_lock();  // the pinned areas below are shared with queries
    QUANTEM_TRY_ASSIGN(upload, context_.pinned_upload(table_bytes + present_bytes));
    QUANTEM_TRY_ASSIGN(verdicts_memory, context_.pinned_result(n_frames * 4));
    auto* tables = static_cast<ChunkPlace*>(upload);
    auto* present = reinterpret_cast<std::uint32_t*>(static_cast<std::byte*>(upload) + table_bytes);
    auto* verdicts = static_cast<std::uint32_t*>(verdicts_memory);
    const std::uint64_t per_slab = std::uint64_t{slab_blocks_} * kBlockPositions;
    for (std::size_t i = 0; i < slabs_.size(); ++i) {
      std::memcpy(tables + i * per_slab, slabs_[i].chunks.data(), slabs_[i].chunks.size() * sizeof(ChunkPlace));
      std::memcpy(present + i * per_slab / 32, slabs_[i].present.data(), slabs_[i].present.size() * 4);
    }
    std::vector<DeviceMemory> input, table_memory;
    for (std::uint32_t r = 0; r < kInputRing; ++r) {
      QUANTEM_TRY_ASSIGN(bytes, context_.allocate(slab_bytes, "compressed slab"));
      QUANTEM_TRY_ASSIGN(table, context_.allocate(per_slab * sizeof(ChunkPlace), "chunk table"));
      input.push_back(std::move(bytes));
      table_memory.push_back(std::move(table));
    }
    std::vector<Event> arrived(kInputRing), taken(kInputRing);
    const auto check = [&](cudaError_t status) { return context_.check(status, "load"); };
    const cudaStream_t up = as_cuda(context_.query_stream());
    {
      Readers readers(slabs_, *reader_, slots, std::max(1, std::min(plan_threads(), 32)), context_.device());
      for (std::size_t i = 0; i < slabs_.size(); ++i) {
        if (meter_.cancelled()) return meter_.cancelled_error("load");
        const SlabPlan& slab = slabs_[i];
        const auto lane = static_cast<std::uint32_t>(i % kLanesOfLoad),
                   ring = static_cast<std::uint32_t>(i % kInputRing);
        const cudaStream_t stream = as_cuda(builder->stream(lane));
        QUANTEM_TRY_ASSIGN(bytes, readers.wait(i));
        if (i >= kInputRing) QUANTEM_TRY(check(cudaStreamWaitEvent(up, taken[ring].event)));
        if (slab.bytes)
          QUANTEM_TRY(check(cudaMemcpyAsync(input[ring].data(), bytes, slab.bytes, cudaMemcpyHostToDevice, up)));
        QUANTEM_TRY(check(cudaMemcpyAsync(table_memory[ring].data(), tables + i * per_slab,
                                          slab.n_frames * sizeof(ChunkPlace), cudaMemcpyHostToDevice, up)));
        QUANTEM_TRY(check(cudaEventRecord(arrived[ring].event, up)));
        QUANTEM_TRY(readers.queued(i, up, context_));
        QUANTEM_TRY(builder->place(lane));  // the slab that this lane had before
        QUANTEM_TRY(check(cudaStreamWaitEvent(stream, arrived[ring].event)));
        QUANTEM_TRY(check(cudaMemcpyAsync(builder->rows(lane).present, present + i * per_slab / 32,
                                          slab.present.size() * 4, cudaMemcpyHostToDevice, stream)));
        QUANTEM_TRY(decoder->decode(lane, builder->stream(lane), input[ring].data(),
                                    table_memory[ring].as<ChunkPlace>(), slab.n_frames, builder->rows(lane),
                                    verdicts + i * per_slab));
        QUANTEM_TRY(check(cudaEventRecord(taken[ring].event, stream)));
        const std::uint64_t first_block = i * slab_blocks_;
        if (plan_.options.flagged == Flagged::zero)
          QUANTEM_TRY(builder->clear_flagged(lane, first_block, slab.n_blocks));
        QUANTEM_TRY(builder->encode(lane, first_block, slab.n_blocks));
        meter_.add(slab.n_frames);
      }
    }
    DeviceAudit audit;
    std::vector<FlaggedSample> flagged;
    auto volume = builder->finish(audit, flagged);
    if (!volume) {
      if (volume.error().code == Code::unsupported) return false;  // more samples without a value than the device lists
      return volume.take_error();
    }
    loaded_.volume = std::move(*volume);
    loaded_.fast = true;
    return report(audit, flagged, verdicts, per_slab);
  }

  int plan_threads() const {
    return device_.options().threads > 0 ? device_.options().threads : default_thread_count();
  }

  // Missing frames, flagged samples and the audit, as the general path reports them. False when the device's numbers do not settle it.
  Result<bool> report(const DeviceAudit& a, const std::vector<FlaggedSample>& flagged, const std::uint32_t* verdicts,
                      std::uint64_t per_slab) {
    std::vector<BlockReport>& reports = loaded_.reports;
    reports.resize(plan_.n_blocks);
    std::vector<std::byte> frame(plan_.source.frame_pixels() * item_bytes(plan_.source_dtype));
    FrameReader::Scratch scratch;
    std::uint64_t n_frames = 0;
    std::size_t next_flagged = 0;
    for (std::uint64_t n = 0; n < plan_.shape.n_positions(); ++n) {
      BlockReport& r = reports[n / kBlockPositions];
      const std::uint64_t slab = n / per_slab, in_slab = n % per_slab;
      const bool stored = slabs_[slab].present[in_slab / 32] >> in_slab % 32 & 1,
                 refused = verdicts[slab * per_slab + in_slab] == Bslz4Decoder::kRefused;
      if (stored && !refused) {
        ++n_frames;
        r.flagged.begin_frame(n);
        for (; next_flagged < flagged.size() && flagged[next_flagged].position == n; ++next_flagged)
          r.flagged.add(flagged[next_flagged].pixel, static_cast<std::uint32_t>(plan_.shape.frame_pixels()));
        continue;
      }
      const std::uint64_t k = source_.frame_of(plan_.source_position(n));
      if (r.lost.size() < kLostKept || refused) {
        const auto fault = source_.read_frame(k, frame, scratch);
        if (!fault) return false;  // the CPU reads it (blocks of another size): then the CPU reads all
        if (plan_.missing == Missing::error) return lost_frame_error(plan_, n, *fault);
        if (r.lost.size() < kLostKept) r.lost.push_back({n, *fault});
      }
      r.missing.push_back(n);
      ++r.n_lost;
      r.n_corrupt += refused;
    }
    for (BlockReport& r : reports) r.flagged.close();
    if (reports.empty()) return true;
    AuditPart& audit = reports[0].audit;
    audit.saturation = plan_.rules.saturation;
    audit.n_flagged = flagged.size();
    audit.n_values = n_frames * plan_.rules.valid_pixels.n_set() - flagged.size();
    // A cleared sample looks like a zero to the device: the smallest count is known unless all zeros are such samples.
    if (!flagged.empty() && audit.n_values == a.n_nonzero) return false;
    if (audit.n_values == 0) return true;
    audit.n_nonzero = a.n_nonzero;
    audit.n_above_255 = a.n_above_255;
    audit.n_above_65535 = a.n_above_65535;
    audit.n_saturated = a.n_saturated;
    audit.min = a.count_min;
    audit.max = a.count_max;
    audit.max_position = a.max_position;
    audit.max_order = source_.frame_of(plan_.source_position(a.max_position));
    audit.max_pixel = a.max_pixel;
    return true;
  }

  // Blocks read and made dense by the CPU, in parallel, encoded on the device as they come.
  Result<Done> run_general() {
    QUANTEM_TRY_ASSIGN(builder, SlicedDeviceBuilder::make(context_, builder_options(plan_, 1, false)));
    const std::uint64_t frame_bytes = plan_.shape.frame_pixels() * item_bytes(plan_.dtype),
                        block_bytes = frame_bytes * kBlockPositions;
    std::vector<DeviceMemory> values;
    for (std::uint32_t lane = 0; lane < kLanesOfLoad; ++lane) {
      QUANTEM_TRY_ASSIGN(memory, context_.allocate(block_bytes, "frames of a block"));
      values.push_back(std::move(memory));
    }
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
                             const std::vector<DeviceMemory>& values) {
    const auto lane = static_cast<std::uint32_t>(block % kLanesOfLoad);
    const cudaStream_t stream = as_cuda(builder.stream(lane));
    QUANTEM_TRY(builder.place(lane));
    const std::uint64_t n = frames_in(block), n_bytes = n * plan_.shape.frame_pixels() * item_bytes(plan_.dtype);
    std::uint32_t present[kBlockPositions / 32] = {};
    for (std::uint32_t i = 0; i < n; ++i) present[i / 32] |= 1u << i % 32;
    for (const std::uint64_t m : loaded_.reports[block].missing) present[m % kBlockPositions / 32] &= ~(1u << m % 32);
    QUANTEM_TRY(
        context_.check(cudaMemcpyAsync(values[lane].data(), frames, n_bytes, cudaMemcpyHostToDevice, stream), "load"));
    QUANTEM_TRY(context_.check(
        cudaMemcpyAsync(builder.rows(lane).present, present, sizeof present, cudaMemcpyHostToDevice, stream), "load"));
    QUANTEM_TRY(builder.rows_from_values(lane, values[lane].data(), static_cast<std::uint32_t>(n)));
    return builder.encode(lane, block, 1);
  }

  const Device& device_;
  CudaContext& context_;
  const LoadPlan& plan_;
  const FrameSource& source_;
  const BlockReader& blocks_;
  const Container* container_;
  const FrameReader* reader_;
  ProgressMeter& meter_;
  std::uint32_t slab_blocks_ = 1;
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
  cudaSetDevice(context->device());
  return CudaLoad(device, *context, plan, source, blocks, container, reader, meter).run();
}

}  // namespace quantem
