#pragma once
// What lies beside a master `x_master.h5`: `x.h5` (scan size, calibration), `x_em_metadata.h5`, a Velox `x.emd`. Read when they
// exist, never required. Callers hold an hdf5::Lock.

#include <memory>
#include <optional>
#include <string>

#include "quantem/io/container.h"
#include "quantem/io/hdf5_file.h"

namespace quantem {

struct SideFile {
  std::string name;            // of the file that gave the scan size
  std::optional<Extent> scan;  // rows x columns
};
// Adds calibration (origin side_file; what the master already said stays) and the attributes to metadata_json.
SideFile read_side_files(Container& container);
// Whether a file is one of these rather than an acquisition.
bool is_side_file(const std::shared_ptr<const hdf5::File>& file);

}  // namespace quantem
