#pragma once
// Filling an encoded volume on a CUDA device. Plain loads of one-frame bitshuffle-LZ4 chunks go the short way:
//   disk -> pinned slabs (many readers) -> one copy per slab -> decoder -> encoder, all overlapped; nothing is ever dense.
// Everything else (other filters, crops, bins, hot pixels) is read by the general path on the CPU, block by block, and encoded on the
// device from dense frames. Both give the same volume; provenance says which ran.

#include <memory>
#include <vector>

#include "quantem/io/container.h"
#include "quantem/io/load_values.h"
#include "quantem/resident/sliced_device.h"

namespace quantem {

struct CudaLoaded {
  std::shared_ptr<const SlicedDevice> volume;
  std::vector<BlockReport> reports;  // one a block; the audit of a fast load is in the first
  bool fast = false;
};

// `container` and `reader` are null when the frames come from elsewhere: then only the general path applies.
Result<CudaLoaded> load_on_cuda(const Device& device, const LoadPlan& plan, const FrameSource& source,
                                const BlockReader& blocks, const Container* container, const FrameReader* reader,
                                ProgressMeter& meter);

// Device bytes that such a load works in, besides the volume.
std::uint64_t cuda_work_bytes(const Device& device, const LoadPlan& plan);

}  // namespace quantem
