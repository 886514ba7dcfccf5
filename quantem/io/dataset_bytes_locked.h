#pragma once
// dataset_bytes.h for callers that already hold an hdf5::Lock and an open file.

#include "quantem/io/dataset_bytes.h"
#include "quantem/io/hdf5_file.h"

namespace quantem {

Result<DatasetBytes> read_dataset_bytes_locked(const hdf5::Object& dataset, std::uint64_t most_bytes);
Result<std::vector<std::string>> list_datasets_locked(const std::shared_ptr<const hdf5::File>& file, std::size_t limit);

}  // namespace quantem
