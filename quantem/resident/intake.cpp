#include "quantem/resident/intake.h"

#include <algorithm>
#include <type_traits>

namespace quantem {
namespace {

constexpr std::size_t kPiece = 2048;  // pixels audited at once: they stay in the nearest cache

// Integers of a piece without markers; zeros at bad pixels change nothing but the minimum.
template <class T>
void audit_piece(const IntakeRules& rules, std::span<const T> piece, std::uint32_t first, const FramePlace& place,
                 AuditPart& audit) {
  T max = piece[0], min = piece[0];
  for (const T v : piece) {
    max = std::max(max, v);
    min = std::min(min, v);
  }
  if (max != 0 || min != 0) {
    std::uint32_t nonzero = 0;
    for (const T v : piece) nonzero += v != 0;
    audit.n_nonzero += nonzero;
  }
  if (static_cast<double>(max) > 255) {
    std::uint32_t above_255 = 0, above_65535 = 0;
    for (const T v : piece) {
      above_255 += static_cast<double>(v) > 255;
      above_65535 += static_cast<double>(v) > 65535;
    }
    audit.n_above_255 += above_255;
    audit.n_above_65535 += above_65535;
  }
  if (static_cast<double>(max) >= rules.saturation)
    for (const T v : piece) audit.n_saturated += static_cast<double>(v) >= rules.saturation;

  const auto bad_from = std::lower_bound(rules.bad.begin(), rules.bad.end(), first);
  const auto bad_to = std::lower_bound(bad_from, rules.bad.end(), first + piece.size());
  const auto n_valid = piece.size() - static_cast<std::size_t>(bad_to - bad_from);
  audit.n_values += n_valid;
  if (n_valid == 0) return;
  if (n_valid < piece.size()) {  // rare: range over the valid pixels alone
    bool any = false;
    for (std::uint32_t i = 0; i < piece.size(); ++i) {
      if (!rules.valid_pixels[first + i]) continue;
      max = any ? std::max(max, piece[i]) : piece[i];
      min = any ? std::min(min, piece[i]) : piece[i];
      any = true;
    }
  }
  audit.min = std::min(audit.min, static_cast<double>(min));
  const auto top = static_cast<double>(max);
  if (top < audit.max || (top == audit.max && place.order > audit.max_order)) return;
  for (std::uint32_t i = 0; i < piece.size(); ++i)
    if (piece[i] == max && rules.valid_pixels[first + i]) {
      const std::uint32_t pixel = first + i;
      if (top > audit.max || place.order < audit.max_order || pixel < audit.max_pixel) {
        audit.max = top;
        audit.max_order = place.order;
        audit.max_position = place.position;
        audit.max_pixel = pixel;
      }
      return;
    }
}

template <class T>
void audit_one_by_one(const IntakeRules& rules, std::span<T> piece, std::uint32_t first, std::uint32_t n_pixels,
                      const FramePlace& place, AuditPart& audit, FlaggedBlock& flagged) {
  for (std::uint32_t i = 0; i < piece.size(); ++i) {
    if (!rules.valid_pixels[first + i]) continue;
    if constexpr (std::is_same_v<T, std::uint32_t>)
      if (piece[i] == kMarker && rules.flagged == Flagged::zero) {
        piece[i] = 0;
        ++audit.n_flagged;
        flagged.add(first + i, n_pixels);
        continue;
      }
    audit.add(piece[i], place.order, place.position, first + i);
  }
}

}  // namespace

IntakeRules::IntakeRules(BitMask valid_pixels_, Flagged flagged_, double saturation_)
    : valid_pixels(std::move(valid_pixels_)), flagged(flagged_), saturation(saturation_) {
  for (std::uint64_t p = 0; p < valid_pixels.count(); ++p)
    if (!valid_pixels[p]) bad.push_back(static_cast<std::uint32_t>(p));
}

void FlaggedBlock::begin_frame(std::uint64_t stored_position) {
  positions_.push_back(stored_position);
  ++n_frames_;
}

void FlaggedBlock::add(std::uint32_t pixel, std::uint32_t n_pixels) {
  if (run_.empty()) run_.resize(n_pixels);
  if (run_[pixel] + 1 == n_frames_)
    ++run_[pixel];
  else
    samples_.push_back({positions_.back(), pixel});
}

void FlaggedBlock::close() {
  for (std::uint32_t p = 0; p < run_.size(); ++p) {
    if (run_[p] == n_frames_) {
      every_frame_.push_back(p);
      continue;
    }
    for (std::uint32_t i = 0; i < run_[p]; ++i) samples_.push_back({positions_[i], p});
  }
  std::sort(samples_.begin(), samples_.end());
  samples_.shrink_to_fit();
  positions_ = {};
  run_ = {};
}

template <class T>
std::optional<std::uint32_t> take_frame(const IntakeRules& rules, std::span<T> frame, const FramePlace& place,
                                        AuditPart& audit, FlaggedBlock& flagged) {
  const auto n_pixels = static_cast<std::uint32_t>(frame.size());
  for (const std::uint32_t p : rules.bad) frame[p] = 0;
  if constexpr (std::is_same_v<T, std::uint32_t>)
    if (rules.flagged == Flagged::error)
      if (const auto marker = std::find(frame.begin(), frame.end(), kMarker); marker != frame.end())
        return static_cast<std::uint32_t>(marker - frame.begin());
  flagged.begin_frame(place.stored);
  audit.saturation = rules.saturation;
  for (std::uint32_t first = 0; first < n_pixels; first += static_cast<std::uint32_t>(kPiece)) {
    const std::span<T> piece = frame.subspan(first, std::min<std::size_t>(kPiece, n_pixels - first));
    if constexpr (std::is_floating_point_v<T>) {
      audit_one_by_one<T>(rules, piece, first, n_pixels, place, audit, flagged);
    } else {
      if constexpr (std::is_same_v<T, std::uint32_t>)
        if (rules.flagged == Flagged::zero && *std::max_element(piece.begin(), piece.end()) == kMarker) {
          audit_one_by_one<T>(rules, piece, first, n_pixels, place, audit, flagged);
          continue;
        }
      audit_piece<T>(rules, piece, first, place, audit);
    }
  }
  return std::nullopt;
}

#define QUANTEM_TAKE_FRAME(T)                                                                                       \
  template std::optional<std::uint32_t> take_frame(const IntakeRules&, std::span<T>, const FramePlace&, AuditPart&, \
                                                   FlaggedBlock&)
QUANTEM_TAKE_FRAME(std::uint8_t);
QUANTEM_TAKE_FRAME(std::uint16_t);
QUANTEM_TAKE_FRAME(std::uint32_t);
QUANTEM_TAKE_FRAME(std::int16_t);
QUANTEM_TAKE_FRAME(std::int32_t);
QUANTEM_TAKE_FRAME(float);
#undef QUANTEM_TAKE_FRAME

std::vector<FlaggedSample> resolve_flagged(std::span<const FlaggedBlock> blocks, const BitMask& valid_positions,
                                           BitMask& valid_pixels) {
  std::vector<std::uint64_t> times_flagged;
  std::uint64_t n_frames = 0;
  const auto count = [&](std::uint32_t pixel, std::uint64_t n) {
    if (times_flagged.empty()) times_flagged.resize(valid_pixels.count());
    times_flagged[pixel] += n;
  };
  for (const FlaggedBlock& b : blocks) {
    n_frames += b.n_frames();
    for (const std::uint32_t p : b.every_frame()) count(p, b.n_frames());
    for (const FlaggedSample& s : b.samples()) count(s.pixel, 1);
  }
  std::vector<FlaggedSample> left;
  if (times_flagged.empty()) return left;
  for (std::uint64_t p = 0; p < times_flagged.size(); ++p)
    if (times_flagged[p] == n_frames) valid_pixels.set(p, false);
  for (std::uint64_t b = 0; b < blocks.size(); ++b) {
    const auto from = static_cast<std::ptrdiff_t>(left.size());
    for (const FlaggedSample& s : blocks[b].samples())
      if (valid_pixels[s.pixel] && valid_positions[s.position]) left.push_back(s);
    const std::uint64_t stop = std::min<std::uint64_t>((b + 1) * kBlockPositions, valid_positions.count());
    for (const std::uint32_t p : blocks[b].every_frame())
      for (std::uint64_t n = b * kBlockPositions; valid_pixels[p] && n < stop; ++n)
        if (valid_positions[n]) left.push_back({n, p});
    std::sort(left.begin() + from, left.end());
    left.erase(std::unique(left.begin() + from, left.end()), left.end());
  }
  return left;
}

}  // namespace quantem
