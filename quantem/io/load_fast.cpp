#include "quantem/io/load_fast.h"

namespace quantem {

std::unique_ptr<BlockEncoder> fast_block_encoder(const LoadPlan&, const Container&, const FrameReader&) {
  return nullptr;
}

}  // namespace quantem
