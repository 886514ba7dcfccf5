#pragma once
// One volume, looked at interactively: what many queries share is computed once (total image, patterns, probe), and a mask
// that moves changes the last image by the difference of the two masks. Equal to the direct sums, bit for bit, after any
// number of moves. A session is a cheap handle; it takes one call at a time and queues the rest.

#include <cstdint>
#include <memory>

#include "quantem/core/job.h"
#include "quantem/detector/masked_sum.h"
#include "quantem/detector/mean_pattern.h"
#include "quantem/detector/probe.h"

namespace quantem {

struct SessionOptions {
  ProbeOptions probe;  // replaces the measured centre or radius
};

class DetectorSession {
 public:
  [[nodiscard]] const Volume& volume() const;

  // Computed at the first call; later ones carry the evidence `cached`.
  Result<Probe> probe(const Job& job = {});  // undetermined where there is no disc
  Result<Pattern<double>> mean_pattern(const Job& job = {});
  Result<Pattern<std::uint64_t>> sum_pattern(const Job& job = {});  // unsigned counts
  Result<Image<std::uint64_t>> total(const Job& job = {});          // sum over all valid pixels; unsigned counts

  // The sum over `mask`, which becomes the session's mask. Starts from the last image or from the total image, whichever has
  // fewer pixels to change, or anew where that is cheaper; provenance's `path` says which. Errors as masked_sum; a failed or cancelled move changes nothing.
  Result<Image<float>> move(const Mask& mask, const Job& job = {});
  Result<Image<std::uint64_t>> move_exact(const Mask& mask, const Job& job = {});  // unsigned counts
  // move() to a named detector of the session's probe.
  Result<Image<float>> band(Band band, const Job& job = {});

 private:
  DetectorSession() = default;  // only prepare() makes one
  friend Result<DetectorSession> prepare(const Volume&, const SessionOptions&);
  struct State;
  std::shared_ptr<State> state_;
};

// Computes nothing yet.
Result<DetectorSession> prepare(const Volume& volume, const SessionOptions& options = {});

}  // namespace quantem
