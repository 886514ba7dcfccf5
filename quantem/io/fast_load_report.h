#pragma once
// What a load that was decoded on a device has to say, from what the device counted: missing frames, samples without a value, the value
// audit. As the general path says it, block by block; frames that the device refused are read again by the CPU, for the reason.

#include <span>
#include <vector>

#include "quantem/io/slab_plan.h"

namespace quantem {

struct DeviceCounted {
  const DeviceAudit& audit;
  std::span<const FlaggedSample> flagged;    // ascending
  std::span<const std::uint32_t> verdicts;   // Bslz4Decoder::Verdict, `per_slab` a slab
  std::uint64_t per_slab = kBlockPositions;  // positions of every slab but the last
};

// Fills `reports` (one a block; the audit of the load is in the first). False when the device's numbers do not settle what must be said:
// then the CPU loads. Errors: of the first lost frame, under Missing::error.
Result<bool> report_fast_load(const LoadPlan& plan, const FrameSource& source, std::span<const SlabPlan> slabs,
                              const DeviceCounted& counted, std::vector<BlockReport>& reports);

}  // namespace quantem
