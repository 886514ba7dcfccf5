#pragma once
// Ways to fill blocks without dense frames.

#include "quantem/io/load_values.h"

namespace quantem {

// An encoder for a plan that is plain() and has u8, u16 or u32 counts, or null where it does not apply. One-frame bitshuffle
// chunks are taken as bit planes; frames of any other kind are read as values first. The bytes it makes and what it reports are
// those of the general path.
std::unique_ptr<BlockEncoder> fast_block_encoder(const LoadPlan& plan, const Container& container,
                                                 const FrameReader& reader);

}  // namespace quantem
