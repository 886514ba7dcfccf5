#pragma once
// Virtual datasets: what their sources hold, as parts. hdf5_part.cpp and hdf5_virtual.cpp call each other, since a source may be virtual
// again (at most four deep).

#include <cstdint>
#include <vector>

#include "quantem/io/hdf5_index.h"
#include "quantem/io/hdf5_part.h"

namespace quantem::hdf5 {

// Chunks and sources that may be read for one dataset: four times the frames of a 4096 x 4096 scan.
inline constexpr std::uint64_t kMostIndexEntries = std::uint64_t{1} << 26;

// As make_parts() says. `depth` counts virtual datasets above this one; `entries` adds up chunks and sources that were read for the
// dataset that was asked for, each time they are read: too many are refused, so that a list that names its sources in turn ends.
Result<std::vector<Part>> make_parts_at(Container& container, const Object& dataset, const PartRequest& request,
                                        int depth, std::uint64_t& entries);
// The parts of a dataset whose `index` is virtual.
Result<std::vector<Part>> virtual_parts(Container& container, const Object& dataset, const DatasetIndex& index,
                                        const PartRequest& request, int depth, std::uint64_t& entries);

}  // namespace quantem::hdf5
