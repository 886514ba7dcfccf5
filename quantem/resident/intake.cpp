#include "quantem/resident/intake.h"

#include <algorithm>

namespace quantem {

void FlaggedBlock::close() {
  if (!samples.empty()) {
    const auto always = [&](std::uint32_t pixel) { return per_pixel[pixel] == n_frames; };
    for (std::uint32_t p = 0; p < per_pixel.size(); ++p)
      if (always(p)) every_position.push_back(p);
    if (!every_position.empty()) std::erase_if(samples, [&](const FlaggedSample& s) { return always(s.pixel); });
    std::sort(samples.begin(), samples.end());
    samples.shrink_to_fit();
  }
  per_pixel = {};
}

template <class T>
std::optional<std::uint32_t> take_frame(const IntakeRules& rules, std::span<T> frame, std::uint64_t order,
                                        std::uint64_t position, std::uint64_t stored_position, AuditPart& audit,
                                        FlaggedBlock& flagged) {
  ++flagged.n_frames;
  for (std::uint32_t p = 0; p < frame.size(); ++p) {
    T& value = frame[p];
    if (!rules.valid_pixels[p]) {
      value = 0;
      continue;
    }
    if constexpr (std::is_same_v<T, std::uint32_t>)
      if (value == kMarker && rules.flagged != Flagged::keep) {
        if (rules.flagged == Flagged::error) return p;
        value = 0;
        ++audit.n_flagged;
        if (flagged.per_pixel.empty()) flagged.per_pixel.resize(frame.size());
        ++flagged.per_pixel[p];
        flagged.samples.push_back({stored_position, p});
        continue;
      }
    audit.add(value, order, position, p);
  }
  return std::nullopt;
}

template std::optional<std::uint32_t> take_frame(const IntakeRules&, std::span<std::uint8_t>, std::uint64_t,
                                                 std::uint64_t, std::uint64_t, AuditPart&, FlaggedBlock&);
template std::optional<std::uint32_t> take_frame(const IntakeRules&, std::span<std::uint16_t>, std::uint64_t,
                                                 std::uint64_t, std::uint64_t, AuditPart&, FlaggedBlock&);
template std::optional<std::uint32_t> take_frame(const IntakeRules&, std::span<std::uint32_t>, std::uint64_t,
                                                 std::uint64_t, std::uint64_t, AuditPart&, FlaggedBlock&);
template std::optional<std::uint32_t> take_frame(const IntakeRules&, std::span<std::int16_t>, std::uint64_t,
                                                 std::uint64_t, std::uint64_t, AuditPart&, FlaggedBlock&);
template std::optional<std::uint32_t> take_frame(const IntakeRules&, std::span<std::int32_t>, std::uint64_t,
                                                 std::uint64_t, std::uint64_t, AuditPart&, FlaggedBlock&);
template std::optional<std::uint32_t> take_frame(const IntakeRules&, std::span<float>, std::uint64_t, std::uint64_t,
                                                 std::uint64_t, AuditPart&, FlaggedBlock&);

std::vector<FlaggedSample> resolve_flagged(std::span<const FlaggedBlock> blocks, const BitMask& valid_positions,
                                           std::uint64_t n_frames, BitMask& valid_pixels) {
  std::vector<std::uint64_t> frames_flagged;  // of each pixel
  const auto count = [&](std::uint32_t pixel, std::uint64_t n) {
    if (frames_flagged.empty()) frames_flagged.resize(valid_pixels.count());
    frames_flagged[pixel] += n;
  };
  for (const FlaggedBlock& b : blocks) {
    for (const std::uint32_t p : b.every_position) count(p, b.n_frames);
    for (const FlaggedSample& s : b.samples) count(s.pixel, 1);
  }
  std::vector<FlaggedSample> left;
  if (frames_flagged.empty()) return left;
  for (std::uint64_t p = 0; p < valid_pixels.count(); ++p)
    if (n_frames && frames_flagged[p] == n_frames) valid_pixels.set(p, false);
  for (std::uint64_t b = 0; b < blocks.size(); ++b) {
    const std::size_t from = left.size();
    for (const FlaggedSample& s : blocks[b].samples)
      if (valid_pixels[s.pixel]) left.push_back(s);
    const std::uint64_t stop = std::min<std::uint64_t>((b + 1) * kBlockPositions, valid_positions.count());
    for (const std::uint32_t p : blocks[b].every_position)
      for (std::uint64_t n = b * kBlockPositions; valid_pixels[p] && n < stop; ++n)
        if (valid_positions[n]) left.push_back({n, p});
    std::sort(left.begin() + static_cast<std::ptrdiff_t>(from), left.end());
    left.erase(std::unique(left.begin() + static_cast<std::ptrdiff_t>(from), left.end()), left.end());
  }
  return left;
}

}  // namespace quantem
