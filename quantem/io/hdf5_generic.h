#pragma once
// HDF5 files that are no detector's: a dataset named by its path, EMD and py4DSTEM, and otherwise the only dataset that can be
// meant. Callers hold an hdf5::Lock.

#include <memory>
#include <string>

#include "quantem/io/container.h"
#include "quantem/io/hdf5_file.h"

namespace quantem {

// Fails only when there is no such dataset or it can be no frames; whatever else is wrong goes to container.not_ready.
Result<Done> inspect_dataset(Container& container, const std::shared_ptr<const hdf5::File>& file,
                             const std::string& path);
Result<Done> inspect_any_hdf5(Container& container, const std::shared_ptr<const hdf5::File>& file);

}  // namespace quantem
