#pragma once
// EMD 1.0 as py4DSTEM writes it, EMD 0.x as Prismatic does, Velox. Callers hold an hdf5::Lock.

#include <memory>
#include <string>
#include <vector>

#include "quantem/io/container.h"
#include "quantem/io/hdf5_file.h"

namespace quantem {

// Paths of the four-dimensional datasets of EMD groups (emd_group_type 1 or "array"), in name order.
std::vector<std::string> emd_datacubes(const std::shared_ptr<const hdf5::File>& file);
// True for files of Velox, which hold images and not diffraction.
bool is_velox(const std::shared_ptr<const hdf5::File>& file);

// When `dataset` lies in an EMD group: format "emd", steps from the axis vectors (whole, or their first two values) or from py4DSTEM's
// calibration, and that calibration as metadata. Their x is our row. Unknown units are kept as text and not converted.
void read_emd_calibration(Container& container, const std::shared_ptr<const hdf5::File>& file,
                          const std::string& dataset);

// A Velox file beside a master: voltage, field of view, camera length, semi-angle of the same acquisition.
void read_velox_metadata(Container& container, const std::shared_ptr<const hdf5::File>& file);

}  // namespace quantem
