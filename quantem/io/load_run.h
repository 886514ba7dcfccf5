#pragma once
// A planned load, run: blocks in parallel, then the volume with its audit, masks and provenance.

#include "quantem/io/load_values.h"

namespace quantem {

struct SourceFacts {  // of the container, for the volume
  std::vector<SourceFile> identity;
  std::string scan_order = "raster", metadata_json = "{}";
  std::uint64_t n_ignored_frames = 0;
  std::vector<std::string> warnings;
  Calibration calibration;
};
SourceFacts facts_of(const Container& container);

// `fast`, when there is one, fills blocks of encoded volumes instead of the general path. `check_source` runs after the last read.
// On a CUDA device `container` and `reader`, when given, are what its own way reads from.
Result<Volume> run_load(const Device& device, const LoadPlan& plan, const SourceFacts& facts, const FrameSource& source,
                        BlockEncoder* fast, const std::function<Result<Done>()>& check_source, const Job& job,
                        const Container* container = nullptr, const FrameReader* reader = nullptr);

}  // namespace quantem
