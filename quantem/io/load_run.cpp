#include "quantem/io/load_run.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "quantem/io/load_cuda.h"
#include "quantem/io/load_hot_pixels.h"
#include "quantem/io/load_provenance.h"
#include "quantem/resident/dense_device.h"
#include "quantem/runtime/scratch_pool.h"
#include "quantem/runtime/thread_pool.h"

namespace quantem {
namespace {

std::string number(double v) {
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", v);
  return text;
}

// The largest magnitude that the volume's dtype holds exactly; negative: the lowest value.
struct Limits {
  double low, high;
};
Limits limits_of(const LoadPlan& plan) {
  switch (plan.dtype) {
    case Dtype::u8:
      return {0, 255};
    case Dtype::u16:
      return {0, 65535};
    case Dtype::u32:
      return {0, 4294967295.0};
    case Dtype::i16:
      return {-32768, 32767};
    case Dtype::i32:
      return {-2147483648.0, 2147483647};
    default:
      break;
  }
  if (plan.source_dtype == Dtype::f32) return {-HUGE_VAL, HUGE_VAL};
  return {-16777216, 16777216};  // every integer up to 2^24 is an f32
}

bool fits(const LoadPlan& plan, const AuditPart& a) {
  if (a.n_values == 0) return true;
  const Limits l = limits_of(plan);
  const auto n = static_cast<double>(plan.samples_per_bin);
  return a.max * n <= l.high && a.min * n >= l.low;
}

Error does_not_fit(const LoadPlan& plan, const AuditPart& a) {
  const Limits l = limits_of(plan);
  const auto n = static_cast<double>(plan.samples_per_bin);
  const bool high = a.max * n > l.high;
  std::string text = "load: dtype " + std::string(dtype_name(plan.dtype)) + " holds values from " + number(l.low) +
                     " to " + number(l.high) + ", the " +
                     (high ? "maximum is " + number(a.max) : "minimum is " + number(a.min));
  if (high)
    text += " at scan position " + to_string(plan.place(a.max_position)) + ", pixel " +
            to_string(plan.pixel_place(a.max_pixel));
  if (plan.samples_per_bin > 1)
    text += ", times " + number(n) + " samples in a bin; use a smaller bin or a detector_region";
  else
    text += "; omit dtype to keep native counts losslessly";
  return {Code::invalid_argument, text};
}

class Run {
 public:
  Run(const Device& device, const LoadPlan& plan, const FrameSource& source, BlockEncoder* fast, const Job& job)
      : device_(device),
        plan_(plan),
        source_(source),
        reader_(plan, source),
        fast_(fast),
        job_(job),
        meter_(job_, "load", plan.crop.n_positions(), "frames") {}

  Result<Done> blocks(const Container* container, const FrameReader* reader) {
    reports.resize(plan_.n_blocks);
    if (plan_.options.hot_pixels == HotPixels::median) {
      QUANTEM_TRY_ASSIGN(found, find_hot_pixels(plan_, reader_, job_));
      hot = found;
      reader_.set_hot_pixels(std::move(found));
    }
    if (device_.backend() == Backend::cuda && is_unsigned_count(plan_.dtype)) {
      QUANTEM_TRY_ASSIGN(loaded, load_on_cuda(device_, plan_, source_, reader_, container, reader, meter_));
      reports = std::move(loaded.reports);
      on_device = std::move(loaded.volume);
      fast_on_device = loaded.fast;
      QUANTEM_TRY(audited());
      if (plan_.representation == Representation::encoded) return Done{};
      QUANTEM_TRY_ASSIGN(context, CudaContext::of(device_));
      QUANTEM_TRY_ASSIGN(expanded, expand_sliced(*context, *on_device, plan_.shape, plan_.dtype));
      dense_on_device = std::move(expanded);
      on_device.reset();
      return Done{};
    }
    QUANTEM_TRY(prepare());
    std::vector<std::optional<Error>> errors(plan_.n_blocks);
    std::atomic<std::uint64_t> first_failed = plan_.n_blocks;
    parallel_for(
        plan_.n_blocks,
        [&](std::uint64_t b) {
          if (b > first_failed) return;  // the first error in scan order is the one that is reported
          auto done = take_block(b);
          if (done) return;
          errors[b] = done.take_error();
          for (std::uint64_t seen = first_failed; b < seen && !first_failed.compare_exchange_weak(seen, b);) {
          }
        },
        plan_.blocks_in_work);
    if (meter_.cancelled()) return meter_.cancelled_error("load");
    if (first_failed < plan_.n_blocks) return std::move(*errors[first_failed]);
    return audited();
  }
  void finish() { meter_.finish(); }

  std::vector<BlockReport> reports;
  std::vector<HotPixel> hot;
  AuditPart audit;
  DenseStorage dense;
  SlicedStorage sliced;
  std::shared_ptr<const SlicedDevice> on_device;
  std::shared_ptr<const DenseDevice> dense_on_device;
  bool fast_on_device = false;
  std::atomic<std::uint64_t> n_nonfinite = 0;  // stored samples of f32 volumes

 private:
  Result<Done> audited() {
    for (const BlockReport& r : reports) audit.merge(r.audit);
    if (!fits(plan_, audit)) return does_not_fit(plan_, audit);
    return Done{};
  }

  Result<Done> prepare() {
    if (device_.backend() == Backend::cuda) {
      QUANTEM_TRY_ASSIGN(context, CudaContext::of(device_));
      auto made = std::make_shared<DenseDevice>();
      QUANTEM_TRY_ASSIGN(memory, context->allocate(plan_.shape.n_values() * item_bytes(plan_.dtype), "dense volume"));
      made->counts = std::move(memory);
      dense_on_device = std::move(made);
      return Done{};
    }
    if (plan_.representation == Representation::dense) {
      QUANTEM_TRY_ASSIGN(memory, allocate_buffer(plan_.shape.n_values() * item_bytes(plan_.dtype), "load"));
      dense.counts = std::move(memory);
      return Done{};
    }
    general_ = general_block_encoder(plan_, reader_);
    sliced.layout = plan_.layout();
    sliced.n_positions = plan_.shape.n_positions();
    sliced.block_bytes.resize(plan_.n_blocks);
    sliced.blocks.resize(plan_.n_blocks);
    return Done{};
  }

  Result<Done> take_block(std::uint64_t b) {
    if (meter_.cancelled()) return meter_.cancelled_error("load");
    if (plan_.representation == Representation::dense) {
      const std::uint64_t frame = plan_.shape.frame_pixels() * item_bytes(plan_.dtype);
      const std::uint64_t first = b * kBlockPositions;
      const std::uint64_t n = std::min<std::uint64_t>(kBlockPositions, plan_.shape.n_positions() - first);
      const auto scratch = pool_.borrow();
      if (!dense_on_device) {
        const std::span<std::byte> values(dense.counts.data() + first * frame, n * frame);
        QUANTEM_TRY(reader_.read(b, values, reports[b], *scratch, meter_));
        count_nonfinite(values);
        return Done{};
      }
      const auto staging = staging_.borrow();
      staging->resize(n * frame);
      QUANTEM_TRY(reader_.read(b, *staging, reports[b], *scratch, meter_));
      count_nonfinite(*staging);
      QUANTEM_TRY_ASSIGN(context, CudaContext::of(device_));
      return context->copy_up(dense_on_device->counts.as<std::byte>() + first * frame, staging->data(), n * frame);
    }
    BlockEncoder& encoder = fast_ ? *fast_ : *general_;
    QUANTEM_TRY_ASSIGN(block, encoder.encode_block_from_source(b, reports[b], meter_));
    if (unfit_ ||
        !fits(plan_, reports[b].audit)) {  // the load will be refused: what is left is read for its maximum only
      unfit_ = true;
      return Done{};
    }
    resident_ += block.bytes.n_bytes();
    if (resident_ + plan_.estimate.work_bytes > plan_.estimate.usable_bytes)
      return Error{Code::out_of_memory,
                   "load: the encoded counts pass the " + std::to_string(plan_.estimate.usable_bytes) +
                       " usable bytes of " + device_.label() + " at block " + std::to_string(b) + " of " +
                       std::to_string(plan_.n_blocks) + "; load a scan_region or detector_region, or bin (det_bin)"};
    sliced.block_bytes[b] = std::move(block.bytes);
    sliced.blocks[b] = block.block;
    return Done{};
  }

  void count_nonfinite(std::span<const std::byte> values) {
    if (plan_.dtype != Dtype::f32 || plan_.source_dtype != Dtype::f32) return;
    std::uint64_t n = 0;
    for (std::size_t at = 0; at < values.size(); at += sizeof(float)) {
      float value;
      std::memcpy(&value, values.data() + at, sizeof value);
      n += !std::isfinite(value);
    }
    n_nonfinite += n;
  }

  const Device& device_;
  const LoadPlan& plan_;
  const FrameSource& source_;
  BlockReader reader_;
  BlockEncoder* fast_;
  const Job& job_;
  ProgressMeter meter_;
  std::unique_ptr<BlockEncoder> general_;
  ScratchPool<BlockReader::Scratch> pool_;
  ScratchPool<std::vector<std::byte>> staging_;  // blocks on their way to the device
  std::atomic<std::uint64_t> resident_ = 0;
  std::atomic<bool> unfit_ = false;
};

// Flagged samples of the crop's pixels as samples of the volume's bins.
std::vector<FlaggedSample> binned(std::vector<FlaggedSample> samples, const LoadPlan& plan) {
  if (plan.bin_of_pixel.empty()) return samples;
  for (FlaggedSample& s : samples) s.pixel = plan.bin_of_pixel[s.pixel];
  std::sort(samples.begin(), samples.end());
  samples.erase(std::unique(samples.begin(), samples.end()), samples.end());
  return samples;
}

}  // namespace

SourceFacts facts_of(const Container& c) {
  return {c.identity,      c.options.scan_order == ScanOrder::serpentine ? "serpentine" : "raster",
          c.metadata_json, c.n_ignored_frames,
          c.warnings,      c.calibration};
}

Result<Volume> run_load(const Device& device, const LoadPlan& plan, const SourceFacts& facts, const FrameSource& source,
                        BlockEncoder* fast, const std::function<Result<Done>()>& check_source, const Job& job,
                        const Container* container, const FrameReader* reader) {
  Run run(device, plan, source, fast, job);
  QUANTEM_TRY(run.blocks(container, reader));
  QUANTEM_TRY(check_source());

  VolumeInfo info;
  info.shape = plan.shape;
  info.dtype = plan.dtype;
  info.source_dtype = plan.source_dtype;
  info.calibration = transformed(facts.calibration, plan.det_region, plan.options.scan_bin, plan.options.det_bin);
  info.metadata_json = facts.metadata_json;
  info.valid_positions = BitMask(plan.shape.n_positions(), true);
  for (const BlockReport& r : run.reports)
    for (const std::uint64_t n : r.missing) info.valid_positions.set(n, false);

  BitMask valid = plan.rules.valid_pixels;  // of the crop
  std::vector<FlaggedBlock> flagged;
  std::uint64_t n_frames = 0;
  for (BlockReport& r : run.reports) {
    n_frames += r.flagged.n_frames();
    flagged.push_back(std::move(r.flagged));
  }
  info.flagged = binned(resolve_flagged(flagged, info.valid_positions, valid), plan);
  const std::uint64_t became_bad = plan.rules.valid_pixels.n_set() - valid.n_set();
  run.audit.n_flagged -= became_bad * n_frames;
  info.audit = finish_audit(run.audit, facts.identity, plan.source_dtype, valid);
  info.valid_pixels = valid;
  if (!plan.binned()) info.saturation = plan.rules.saturation;
  if (plan.binned()) {
    info.valid_count = plan.valid_count;
    for (std::uint64_t p = 0; became_bad && p < valid.count(); ++p)
      if (plan.rules.valid_pixels[p] && !valid[p])
        --info.valid_count[plan.bin_of_pixel.empty() ? p : plan.bin_of_pixel[p]];
    info.valid_pixels = BitMask(plan.shape.frame_pixels());
    for (std::uint64_t p = 0; p < info.valid_count.size(); ++p) info.valid_pixels.set(p, info.valid_count[p] > 0);
  }
  info.n_nonfinite_samples = run.n_nonfinite;
  info.provenance = load_provenance(plan, facts, info, valid, became_bad, run.hot, run.reports, fast != nullptr);
  if (run.on_device || run.dense_on_device)
    info.provenance.path = run.fast_on_device ? "cuda_load_planes" : "cuda_load_frames";
  run.finish();
  if (run.on_device) return Volume(std::move(info), device, std::move(run.on_device));
  if (run.dense_on_device)
    return Volume(std::move(info), device, std::shared_ptr<const DenseDevice>(std::move(run.dense_on_device)));
  if (plan.representation == Representation::dense) return Volume(std::move(info), device, std::move(run.dense));
  return Volume(std::move(info), device, std::move(run.sliced));
}

}  // namespace quantem
