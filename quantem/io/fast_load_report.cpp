#include "quantem/io/fast_load_report.h"

#include <cstring>

namespace quantem {
namespace {

class Reporter {
 public:
  Reporter(const LoadPlan& plan, const FrameSource& source, std::span<const SlabPlan> slabs,
           const DeviceCounted& counted, std::vector<BlockReport>& reports)
      : plan_(plan),
        source_(source),
        slabs_(slabs),
        counted_(counted),
        reports_(reports),
        frame_(plan.source.frame_pixels() * item_bytes(plan.source_dtype)) {}

  Result<bool> run() {
    reports_.resize(plan_.n_blocks);
    for (std::uint64_t n = 0; n < plan_.shape.n_positions(); ++n) {
      if (has_frame(n)) {
        take_flagged(n);
        continue;
      }
      QUANTEM_TRY_ASSIGN(said, lose(n));
      if (!said) return false;
    }
    for (BlockReport& r : reports_) r.flagged.close();
    return reports_.empty() || take_audit();
  }

 private:
  [[nodiscard]] bool stored(std::uint64_t n) const {
    const std::uint64_t i = n % counted_.per_slab;
    return slabs_[n / counted_.per_slab].present[i / 32] >> i % 32 & 1;
  }
  [[nodiscard]] bool refused(std::uint64_t n) const { return counted_.verdicts[n] == Bslz4Decoder::kRefused; }
  [[nodiscard]] bool has_frame(std::uint64_t n) const { return stored(n) && !refused(n); }
  [[nodiscard]] std::uint64_t order_of(std::uint64_t n) const { return source_.frame_of(plan_.source_position(n)); }

  void take_flagged(std::uint64_t n) {
    FlaggedBlock& block = reports_[n / kBlockPositions].flagged;
    ++n_frames_;
    block.begin_frame(n);
    const std::span<const FlaggedSample> all = counted_.flagged;
    for (; next_flagged_ < all.size() && all[next_flagged_].position == n; ++next_flagged_)
      block.add(all[next_flagged_].pixel, static_cast<std::uint32_t>(plan_.shape.frame_pixels()));
  }

  // False: the CPU reads this frame (LZ4 blocks of another size), so the CPU reads all.
  Result<bool> lose(std::uint64_t n) {
    BlockReport& r = reports_[n / kBlockPositions];
    if (r.lost.size() < kLostKept || refused(n)) {
      const auto fault = source_.read_frame(order_of(n), frame_, scratch_);
      if (!fault) return false;
      if (plan_.missing == Missing::error) return lost_frame_error(plan_, n, *fault);
      if (r.lost.size() < kLostKept) r.lost.push_back({n, *fault});
    }
    r.missing.push_back(n);
    ++r.n_lost;
    r.n_corrupt += refused(n);
    return true;
  }

  bool take_audit() {
    const DeviceAudit& device = counted_.audit;
    AuditPart& audit = reports_[0].audit;
    audit.saturation = plan_.rules.saturation;
    audit.n_flagged = counted_.flagged.size();
    audit.n_values = n_frames_ * plan_.rules.valid_pixels.n_set() - counted_.flagged.size();
    // A cleared sample looks like a zero to the device: the smallest count is known unless all zeros are such samples.
    if (audit.n_flagged > 0 && audit.n_values == device.n_nonzero) return false;
    if (audit.n_values == 0) return true;
    device.write_to(audit);
    audit.max_order = order_of(audit.max_position);
    find_first_maximum(audit);
    return true;
  }

  // The device names the first maximum in scan order, the audit the first that was acquired: another one only in a scan row that was
  // acquired backwards, and there the last of the row.
  void find_first_maximum(AuditPart& audit) {
    const std::uint64_t cols = plan_.shape.scan.cols, last = (audit.max_position / cols + 1) * cols - 1;
    if (order_of(last) >= audit.max_order) return;
    for (std::uint64_t n = last; n > audit.max_position; --n) {
      if (!has_frame(n) || source_.read_frame(order_of(n), frame_, scratch_)) continue;
      const auto pixel = first_pixel_with(static_cast<std::uint32_t>(audit.max));
      if (!pixel) continue;
      audit.max_position = n;
      audit.max_order = order_of(n);
      audit.max_pixel = *pixel;
      return;
    }
  }
  [[nodiscard]] std::optional<std::uint32_t> first_pixel_with(std::uint32_t count) const {
    const std::size_t item = item_bytes(plan_.source_dtype);
    for (std::uint32_t p = 0; p < plan_.source.frame_pixels(); ++p) {
      std::uint32_t value = 0;
      std::memcpy(&value, frame_.data() + p * item, item);  // little endian
      if (value == count && plan_.rules.valid_pixels[p]) return p;
    }
    return std::nullopt;
  }

  const LoadPlan& plan_;
  const FrameSource& source_;
  std::span<const SlabPlan> slabs_;
  const DeviceCounted& counted_;
  std::vector<BlockReport>& reports_;
  std::vector<std::byte> frame_;
  FrameReader::Scratch scratch_;
  std::uint64_t n_frames_ = 0;
  std::size_t next_flagged_ = 0;
};

}  // namespace

Result<bool> report_fast_load(const LoadPlan& plan, const FrameSource& source, std::span<const SlabPlan> slabs,
                              const DeviceCounted& counted, std::vector<BlockReport>& reports) {
  return Reporter(plan, source, slabs, counted, reports).run();
}

}  // namespace quantem
