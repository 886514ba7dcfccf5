#include "quantem/io/load_values.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

namespace quantem {
namespace {

// Sums of bins: exact for integers; floats in source order, in double, rounded once.
template <class S>
using Sum = std::conditional_t<std::is_floating_point_v<S>, double,
                               std::conditional_t<std::is_signed_v<S>, std::int64_t, std::uint64_t>>;

template <class S>
bool is_marker(const LoadPlan& plan, S value) {
  if constexpr (std::is_same_v<S, std::uint32_t>)
    return value == kMarker && plan.rules.flagged != Flagged::keep;
  else
    return false;
}

// The lower median: always one of the values.
template <class S>
S median_of(std::vector<S>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

Error lost_frame_error(const LoadPlan& plan, std::uint64_t crop_position, const FrameFault& fault) {
  return Error{fault.missing ? Code::missing_data : Code::corrupt_data,
               "load: " + fault.reason + "; scan position " + to_string(plan.place(crop_position)) + " of " +
                   to_string(plan.source.scan) + " has no frame; missing=\"mark\" loads the rest"};
}

Error marker_error(const LoadPlan& plan, std::uint64_t crop_position, std::uint32_t crop_pixel) {
  return Error{Code::invalid_argument, "load: 0xFFFFFFFF (no value) at scan position " +
                                           to_string(plan.place(crop_position)) + ", pixel " +
                                           to_string(plan.pixel_place(crop_pixel)) +
                                           "; flagged=\"zero\" leaves such samples out, \"keep\" counts them"};
}

// One block of frames of type S.
template <class S>
class BlockTask {
 public:
  BlockTask(const BlockReader& reader, BlockReader::Scratch& scratch, BlockReport& report, ProgressMeter& meter)
      : plan_(reader.plan_),
        source_(reader.source_),
        hot_(reader.hot_),
        scratch_(scratch),
        report_(report),
        meter_(meter) {
    scratch_.frame.resize(plan_.source.frame_pixels() * sizeof(S));
    if (!(plan_.crop.det == plan_.source.det)) scratch_.crop.resize(plan_.crop.frame_pixels() * sizeof(S));
    replacements_.resize(hot_.size());
  }

  template <class R>
  Result<Done> fill(std::uint64_t block, std::span<R> out) {
    const std::uint64_t first = block * kBlockPositions, pixels = plan_.shape.frame_pixels();
    const std::uint64_t n = out.size() / pixels;
    for (std::uint64_t i = 0; i < n; ++i) {
      if (meter_.cancelled()) return meter_.cancelled_error("load");
      auto present = plan_.binned() ? sum_position<R>(first + i, out.subspan(i * pixels, pixels))
                                    : copy_position<R>(first + i, out.subspan(i * pixels, pixels));
      if (!present) return present.take_error();
      if (!*present) report_.missing.push_back(first + i);
    }
    report_.flagged.close();
    return Done{};
  }

  // Adds the block's frames, unbinned, as the audit sees them.
  Result<Done> add_pattern(std::uint64_t block, std::span<double> sums, std::uint64_t& n_frames) {
    const std::uint64_t first = block * kBlockPositions;
    const std::uint64_t last = std::min<std::uint64_t>(first + kBlockPositions, plan_.shape.n_positions());
    for (std::uint64_t n = first; n < last; ++n) {
      const Region m = members(n);
      for (std::uint64_t r = m.row_start; r < m.row_stop; ++r)
        for (std::uint64_t c = m.col_start; c < m.col_stop; ++c) {
          if (meter_.cancelled()) return meter_.cancelled_error("load");
          QUANTEM_TRY_ASSIGN(frame, take(r * plan_.crop.scan.cols + c, n));
          if (frame.empty()) continue;
          ++n_frames;
          for (std::size_t p = 0; p < frame.size(); ++p)
            if (const auto v = static_cast<double>(frame[p]); std::isfinite(v)) sums[p] += v;
        }
    }
    return Done{};
  }

 private:
  // Positions of the crop that a position of the volume sums.
  [[nodiscard]] Region members(std::uint64_t n) const {
    const Extent b = plan_.options.scan_bin;
    const auto r = static_cast<std::uint32_t>(n / plan_.shape.scan.cols) * b.rows,
               c = static_cast<std::uint32_t>(n % plan_.shape.scan.cols) * b.cols;
    return {r, std::min(r + b.rows, plan_.crop.scan.rows), c, std::min(c + b.cols, plan_.crop.scan.cols)};
  }

  // The frame of one position of the crop, cropped, exclusions zeroed, audited, hot pixels replaced; empty when it is missing.
  Result<std::span<S>> take(std::uint64_t crop_position, std::uint64_t stored) {
    const std::uint64_t frame = source_.frame_of(plan_.source_position(crop_position));
    const auto fault = source_.read_frame(frame, scratch_.frame, scratch_.reader);
    meter_.add(1);
    if (fault) {
      if (plan_.missing == Missing::error) return lost_frame_error(plan_, crop_position, *fault);
      ++report_.n_lost;
      report_.n_corrupt += !fault->missing;
      if (report_.lost.size() < kLostKept) report_.lost.push_back({crop_position, *fault});
      return std::span<S>{};
    }
    const std::span<S> values = cropped();
    propose_replacements(values);
    const auto marker =
        take_frame<S>(plan_.rules, values, {frame, crop_position, stored}, report_.audit, report_.flagged);
    if (marker) return marker_error(plan_, crop_position, *marker);
    for (std::size_t i = 0; i < hot_.size(); ++i)
      if (replacements_[i]) values[hot_[i].pixel] = *replacements_[i];
    return values;
  }

  std::span<S> cropped() {
    auto* all = reinterpret_cast<S*>(scratch_.frame.data());
    if (plan_.crop.det == plan_.source.det) return {all, plan_.source.frame_pixels()};
    auto* to = reinterpret_cast<S*>(scratch_.crop.data());
    const std::uint64_t cols = plan_.crop.det.cols;
    for (std::uint64_t r = 0; r < plan_.crop.det.rows; ++r)
      std::memcpy(to + r * cols,
                  all + (r + plan_.det_region.row_start) * plan_.source.det.cols + plan_.det_region.col_start,
                  cols * sizeof(S));
    return {to, plan_.crop.frame_pixels()};
  }

  // From the raw frame, where a marker can still be told from a zero; a hot pixel without a value stays without one.
  void propose_replacements(std::span<const S> raw) {
    for (std::size_t i = 0; i < hot_.size(); ++i) {
      replacements_[i].reset();
      if (is_marker(plan_, raw[hot_[i].pixel])) continue;
      around_.clear();
      for (const std::uint32_t p : hot_[i].neighbours)
        if (!is_marker(plan_, raw[p])) around_.push_back(raw[p]);
      if (!around_.empty()) replacements_[i] = median_of(around_);
    }
  }

  template <class R>
  Result<bool> copy_position(std::uint64_t n, std::span<R> out) {
    QUANTEM_TRY_ASSIGN(frame, take(n, n));
    if (frame.empty()) {
      std::fill(out.begin(), out.end(), R{0});
      return false;
    }
    for (std::size_t p = 0; p < frame.size(); ++p) out[p] = static_cast<R>(frame[p]);
    return true;
  }

  template <class R>
  Result<bool> sum_position(std::uint64_t n, std::span<R> out) {
    scratch_.sums.resize(out.size() * sizeof(Sum<S>));
    const std::span<Sum<S>> sums(reinterpret_cast<Sum<S>*>(scratch_.sums.data()), out.size());
    std::fill(sums.begin(), sums.end(), Sum<S>{0});
    const Region m = members(n);
    bool present = true;
    for (std::uint64_t r = m.row_start; r < m.row_stop; ++r)
      for (std::uint64_t c = m.col_start; c < m.col_stop; ++c) {
        QUANTEM_TRY_ASSIGN(frame, take(r * plan_.crop.scan.cols + c, n));
        if (frame.empty())
          present = false;
        else if (plan_.bin_of_pixel.empty())
          for (std::size_t p = 0; p < frame.size(); ++p) sums[p] += static_cast<Sum<S>>(frame[p]);
        else
          for (std::size_t p = 0; p < frame.size(); ++p) sums[plan_.bin_of_pixel[p]] += static_cast<Sum<S>>(frame[p]);
      }
    for (std::size_t p = 0; p < out.size(); ++p) out[p] = present ? static_cast<R>(sums[p]) : R{0};
    return present;
  }

  const LoadPlan& plan_;
  const FrameSource& source_;
  const std::vector<HotPixel>& hot_;
  BlockReader::Scratch& scratch_;
  BlockReport& report_;
  ProgressMeter& meter_;
  std::vector<std::optional<S>> replacements_;
  std::vector<S> around_;
};

Result<Done> BlockReader::read(std::uint64_t block, std::span<std::byte> out, BlockReport& report, Scratch& scratch,
                               ProgressMeter& meter) const {
  return visit_count_dtype(plan_.source_dtype, [&]<class S>() {
    return visit_count_dtype(plan_.dtype, [&]<class R>() -> Result<Done> {
      BlockTask<S> task(*this, scratch, report, meter);
      return task.template fill<R>(block, {reinterpret_cast<R*>(out.data()), out.size() / sizeof(R)});
    });
  });
}

Result<Done> BlockReader::add_pattern(std::uint64_t block, std::span<double> sums, std::uint64_t& n_frames,
                                      Scratch& scratch, ProgressMeter& meter) const {
  return visit_count_dtype(plan_.source_dtype, [&]<class S>() {
    BlockReport report;
    return BlockTask<S>(*this, scratch, report, meter).add_pattern(block, sums, n_frames);
  });
}

}  // namespace quantem
