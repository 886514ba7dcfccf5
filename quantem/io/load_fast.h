#pragma once
// Ways to fill blocks without dense frames.

#include "quantem/io/load_values.h"

namespace quantem {

// An encoder for one-frame bitshuffle-LZ4 chunks of a plan that is plain(), or null where it does not apply. The bytes it makes
// and what it reports are those of the general path.
std::unique_ptr<BlockEncoder> fast_block_encoder(const LoadPlan& plan, const Container& container,
                                                 const FrameReader& reader);

}  // namespace quantem
