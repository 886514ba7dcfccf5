#pragma once
// Memory of a load, before anything is allocated.

#include "quantem/io/load_plan.h"

namespace quantem {

// Fills estimate, block_bytes and blocks_in_work.
//   resident  dense: n_values * item bytes; encoded: stored bytes of the crop * 1.1 + 5 bytes per stream of 512 positions,
//             at most what the counts take dense
//   work      blocks in work at once, each with its counts and encoder scratch: as many as options.work_bytes holds, at least one
//   staging   stored and decoded chunks, one pair a thread (part of the host's memory, small)
void plan_memory(const Device& device, const Container& container, LoadPlan& plan);

}  // namespace quantem
