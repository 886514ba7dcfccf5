#include <algorithm>
#include <atomic>
#include <cstring>

#include "quantem/resident/dense_device.h"
#include "quantem/resident/intake.h"
#include "quantem/resident/sliced_encode.h"
#include "quantem/resident/volume.h"
#include "quantem/runtime/scratch_pool.h"
#include "quantem/runtime/thread_pool.h"

namespace quantem {
namespace {

std::string shape_text(const std::vector<std::uint64_t>& shape) {
  std::string out = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) out += (i ? ", " : "") + std::to_string(shape[i]);
  return out + ")";
}

Result<Shape4> shape_of(const ArrayView& a, const std::optional<Extent>& scan) {
  const std::string found = "from_array: shape " + shape_text(a.shape);
  if (a.shape.size() < 2 || a.shape.size() > 4)
    return Error{Code::invalid_argument, found + " has " + std::to_string(a.shape.size()) +
                                             " axes; expected (scan_rows, scan_cols, det_rows, det_cols), (frames, "
                                             "det_rows, det_cols) with scan_shape, or (det_rows, det_cols)"};
  for (const std::uint64_t n : a.shape)
    if (n == 0 || n > 0xFFFFFFFFu)
      return Error{Code::invalid_argument, found + ": every axis must have 1 to 4294967295 elements"};
  const std::size_t d = a.shape.size() - 2;
  const auto at = [&](std::size_t i) { return static_cast<std::uint32_t>(a.shape[i]); };
  Shape4 shape{{1, 1}, {at(d), at(d + 1)}};
  if (a.shape.size() == 4) shape.scan = {at(0), at(1)};
  if (a.shape.size() == 3) {
    if (!scan)
      return Error{Code::undetermined, found +
                                           " says nothing of the scan: give scan_shape=(rows, cols) with rows * "
                                           "cols = " +
                                           std::to_string(a.shape[0])};
    shape.scan = *scan;
  }
  const std::uint64_t n_frames = a.shape.size() == 4 ? shape.scan.count() : a.shape.size() == 3 ? a.shape[0] : 1;
  if (scan && (scan->count() != n_frames || (a.shape.size() == 4 && !(*scan == shape.scan))))
    return Error{Code::invalid_argument, found + " holds " + std::to_string(n_frames) + " frames, scan_shape " +
                                             to_string(*scan) + " has " + std::to_string(scan->count()) + " positions"};
  if (shape.frame_pixels() > kMaxFramePixels)
    return Error{Code::unsupported, found + ": a frame has at most " + std::to_string(kMaxFramePixels) + " pixels"};
  return shape;
}

bool encodes(const ArrayView& a, const FromArrayOptions& o) {
  return o.representation.value_or(is_unsigned_count(a.dtype) ? Representation::encoded : Representation::dense) ==
         Representation::encoded;
}

Result<Done> check(const ArrayView& a, const Shape4& shape, const FromArrayOptions& o) {
  if (!is_count_dtype(a.dtype))
    return Error{Code::wrong_dtype, "from_array: " + std::string(dtype_name(a.dtype)) +
                                        " is not a dtype of counts; convert to uint8, uint16, uint32, int16, int32 or "
                                        "float32"};
  if (!a.data) return Error{Code::invalid_argument, "from_array: the array has no data"};
  if (o.valid_pixels.count() && o.valid_pixels.count() != shape.frame_pixels())
    return Error{Code::invalid_argument, "from_array: valid_pixels has " + std::to_string(o.valid_pixels.count()) +
                                             " pixels, the detector " + to_string(shape.det) + " has " +
                                             std::to_string(shape.frame_pixels())};
  if (o.valid_positions.count() && o.valid_positions.count() != shape.n_positions())
    return Error{Code::invalid_argument, "from_array: valid_positions has " +
                                             std::to_string(o.valid_positions.count()) + " positions, the scan " +
                                             to_string(shape.scan) + " has " + std::to_string(shape.n_positions())};
  if (o.representation == Representation::encoded && !is_unsigned_count(a.dtype))
    return Error{Code::unsupported, "from_array: bit-sliced-v1 holds uint8, uint16 and uint32, not " +
                                        std::string(dtype_name(a.dtype)) + "; use representation=\"dense\""};
  return check_tiles_4("from_array", o.tiles_4, encodes(a, o));
}

// Frames of the array, block by block: excluded samples zeroed, audited, then stored.
template <class T>
class Intake {
 public:
  Intake(const Shape4& shape, const T* counts, IntakeRules rules, const BitMask& valid_positions, bool encode,
         bool tiles_4)
      : shape_(shape),
        counts_(counts),
        rules_(std::move(rules)),
        valid_positions_(valid_positions),
        encode_(encode),
        tiles_4_(tiles_4),
        n_blocks_((shape.n_positions() + kBlockPositions - 1) / kBlockPositions) {}

  // Blocks in work at once hold their counts twice: as many as `device` has a work area for, at least one.
  Result<Done> run(const Device& device) {
    const std::uint64_t pixels = shape_.frame_pixels();
    usable_ = device.usable_bytes();
    const std::uint64_t need = encode_ ? 2 * block_bytes() : shape_.n_values() * sizeof(T);
    if (need > usable_)
      return Error{Code::out_of_memory, "from_array: " + to_string(shape_) + " " +
                                            std::string(dtype_name(dtype_of<T>())) + " needs " + std::to_string(need) +
                                            " bytes, " + device.label() + " has " + std::to_string(usable_) +
                                            " usable; pass fewer positions or pixels" +
                                            (encode_ ? "" : ", or keep encoded storage (representation=\"encoded\")")};
    const int cores = device.options().threads > 0 ? device.options().threads : default_thread_count();
    const std::uint64_t fit = std::max<std::uint64_t>(1, device.options().work_bytes / (2 * block_bytes()));
    const int threads = static_cast<int>(std::min<std::uint64_t>(fit, static_cast<std::uint64_t>(cores)));
    audits.resize(n_blocks_);
    flagged.resize(n_blocks_);
    if (encode_) {
      sliced.layout = SlicedLayout(shape_.det, tiles_4_);
      sliced.n_positions = shape_.n_positions();
      sliced.block_bytes.resize(n_blocks_);
      sliced.blocks.resize(n_blocks_);
    } else {
      QUANTEM_TRY_ASSIGN(memory, allocate_buffer(shape_.n_values() * sizeof(T), "from_array"));
      dense.counts = std::move(memory);
    }
    std::vector<std::optional<Error>> errors(n_blocks_);
    std::atomic<std::uint64_t> first_failed = n_blocks_;
    parallel_for(
        n_blocks_,
        [&](std::uint64_t b) {
          if (b > first_failed) return;  // the first error in scan order is the one that is reported
          auto done = take_block(b, pixels);
          if (done) return;
          errors[b] = done.take_error();
          for (std::uint64_t seen = first_failed; b < seen && !first_failed.compare_exchange_weak(seen, b);) {
          }
        },
        threads);
    if (first_failed < n_blocks_) return std::move(*errors[first_failed]);
    return Done{};
  }

  std::vector<AuditPart> audits;
  std::vector<FlaggedBlock> flagged;
  DenseStorage dense;
  SlicedStorage sliced;

 private:
  struct Scratch {
    std::vector<T> values;
    BlockWriter writer;
  };

  [[nodiscard]] std::uint64_t block_bytes() const {
    return std::min<std::uint64_t>(kBlockPositions, shape_.n_positions()) * shape_.frame_pixels() * sizeof(T);
  }

  Result<Done> take_block(std::uint64_t b, std::uint64_t pixels) {
    const std::uint64_t first = b * kBlockPositions;
    const std::uint64_t n = std::min<std::uint64_t>(kBlockPositions, shape_.n_positions() - first);
    const auto scratch = pool_.borrow();
    T* to = nullptr;
    if (encode_) {
      scratch->values.resize(n * pixels);
      to = scratch->values.data();
    } else {
      to = dense.counts.template as<T>().data() + first * pixels;
    }
    for (std::uint64_t i = 0; i < n; ++i) {
      const std::span<T> frame(to + i * pixels, pixels);
      if (!valid_positions_[first + i]) {
        std::fill(frame.begin(), frame.end(), T{0});
        continue;
      }
      std::memcpy(frame.data(), counts_ + (first + i) * pixels, pixels * sizeof(T));
      if (const auto marker = take_frame<T>(rules_, frame, {first + i, first + i, first + i}, audits[b], flagged[b]))
        return Error{Code::invalid_argument,
                     "from_array: 0xFFFFFFFF (no value) at position " +
                         to_string(Position{static_cast<std::uint32_t>((first + i) / shape_.scan.cols),
                                            static_cast<std::uint32_t>((first + i) % shape_.scan.cols)}) +
                         ", pixel " + to_string(Position{*marker / shape_.det.cols, *marker % shape_.det.cols}) +
                         "; flagged=\"zero\" leaves such samples out, \"keep\" counts them"};
    }
    flagged[b].close();
    if constexpr (std::is_unsigned_v<T>)
      if (encode_) {
        QUANTEM_TRY_ASSIGN(
            block, encode_block<T>(sliced.layout, scratch->values, static_cast<std::uint32_t>(n), scratch->writer));
        sliced.block_bytes[b] = std::move(block.bytes);
        sliced.blocks[b] = block.block;
        // What a block needs is known when it is encoded, not before.
        const std::uint64_t held = held_bytes_ += sliced.block_bytes[b].n_bytes();
        if (held > usable_)
          return Error{Code::out_of_memory, "from_array: the encoded counts pass the " + std::to_string(usable_) +
                                                " usable bytes at position " + std::to_string(first + n) + " of " +
                                                std::to_string(shape_.n_positions()) +
                                                "; pass fewer positions or pixels"};
      }
    return Done{};
  }

  Shape4 shape_;
  const T* counts_;
  IntakeRules rules_;
  const BitMask& valid_positions_;
  bool encode_, tiles_4_;
  std::uint64_t n_blocks_, usable_ = 0;
  std::atomic<std::uint64_t> held_bytes_ = 0;
  ScratchPool<Scratch> pool_;
};

template <class T>
Result<Volume> take(const Device& device, const ArrayView& a, const Shape4& shape, const FromArrayOptions& o) {
  VolumeInfo info;
  info.shape = shape;
  info.dtype = info.source_dtype = a.dtype;
  info.calibration = o.calibration;
  info.valid_pixels = o.valid_pixels.count() ? o.valid_pixels : BitMask(shape.frame_pixels(), true);
  info.valid_positions = o.valid_positions.count() ? o.valid_positions : BitMask(shape.n_positions(), true);
  const bool encode = encodes(a, o);
  Intake<T> intake(shape, static_cast<const T*>(a.data),
                   IntakeRules(info.valid_pixels, o.flagged, saturation_of(a.dtype, std::nullopt)),
                   info.valid_positions, encode, o.tiles_4);
  QUANTEM_TRY(intake.run(device));

  AuditPart audit;
  for (const AuditPart& part : intake.audits) audit.merge(part);
  const bool had_mask = !info.valid_pixels.all();
  const std::uint64_t n_frames = info.valid_positions.n_set();
  info.flagged = resolve_flagged(intake.flagged, info.valid_positions, info.valid_pixels);
  audit.n_flagged = info.flagged.size();
  info.n_nonfinite_samples = audit.n_nonfinite;
  Provenance& p = info.provenance;
  p.source_shape = shape;
  p.source_dtype = dtype_name(a.dtype);
  p.scan_region = whole(shape.scan);
  p.detector_region = whole(shape.det);
  p.bad_pixels = {shape.frame_pixels() - info.valid_pixels.n_set(), info.valid_pixels.sha256(),
                  had_mask ? "zeroed" : "no mask in source"};
  p.missing_positions = shape.n_positions() - n_frames;
  p.flagged_samples = info.flagged.size();
  p.operation = "from_array";
  p.path = "cpu_from_array";
  if (p.bad_pixels.count)
    p.steps.push_back({"bad_pixel_zeroing", true, {{"n_pixels", static_cast<std::int64_t>(p.bad_pixels.count)}}});
  if (p.flagged_samples)
    p.steps.push_back({"flagged_marker_zeroing", true, {{"n_samples", static_cast<std::int64_t>(p.flagged_samples)}}});
  if (p.missing_positions) {
    p.steps.push_back({"missing_frame_fill", false, {{"n_positions", static_cast<std::int64_t>(p.missing_positions)}}});
    p.add_evidence("incomplete");
  }
  info.audit = finish_audit(audit, p.source_identity, a.dtype, info.valid_pixels);
  info.saturation = saturation_of(a.dtype, std::nullopt);
  if (encode) {
    p.steps.push_back(storage_step(o.tiles_4));
    if (device.backend() == Backend::cuda) {
      QUANTEM_TRY_ASSIGN(context, CudaContext::of(device));
      QUANTEM_TRY_ASSIGN(uploaded, upload_sliced(*context, intake.sliced));
      return Volume(std::move(info), device, std::move(uploaded));
    }
    return Volume(std::move(info), device, std::move(intake.sliced));
  }
  if (device.backend() == Backend::cuda) {
    QUANTEM_TRY_ASSIGN(context, CudaContext::of(device));
    QUANTEM_TRY_ASSIGN(uploaded, upload_dense(*context, intake.dense));
    return Volume(std::move(info), device, std::move(uploaded));
  }
  return Volume(std::move(info), device, std::move(intake.dense));
}

}  // namespace

Result<Volume> from_array(const Device& device, const ArrayView& counts, const FromArrayOptions& options) {
  QUANTEM_TRY_ASSIGN(shape, shape_of(counts, options.scan_shape));
  QUANTEM_TRY(check(counts, shape, options));
  return visit_count_dtype(counts.dtype, [&]<class T>() { return take<T>(device, counts, shape, options); });
}

}  // namespace quantem
