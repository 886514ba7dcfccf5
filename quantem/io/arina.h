#pragma once
// Dectris Arina and Eiger masters: which datasets hold the frames, in which order, and what else the master says.
// Callers hold an hdf5::Lock.

#include <memory>
#include <optional>
#include <vector>

#include "quantem/io/container.h"
#include "quantem/io/hdf5_file.h"
#include "quantem/io/scan_shape.h"

namespace quantem {

// True when /entry/data has members `data` or `data_` + digits (also links to files that are not there).
bool is_arina(const std::shared_ptr<const hdf5::File>& file);

// Fills parts, shape, dtype, n_stored, n_expected, mask, saturation, calibration and metadata of a container whose path, options
// and first file are set; scan shape and missing positions included. What is wrong goes to not_ready.
void inspect_arina(Container& container, const std::shared_ptr<const hdf5::File>& file);

// One data file as the master lists it, before it has a place on the frame axis.
struct ListedPart {
  std::string link;  // "data_000003"
  std::uint64_t link_number = 0;
  std::vector<Part> parts;  // several for a virtual dataset; first_frame counts from 0; empty when absent
  std::string absent_reason;
  std::optional<std::uint64_t> n_frames;  // unknown when absent
  std::optional<std::uint64_t> image_nr_low, image_nr_high;
};
// Places the listed parts one after another (formats.md 1.4): by image numbers when these are whole, else by link number. Frames of
// absent parts are inferred from their neighbours and the expected number; what cannot be told goes to not_ready.
void place_parts(Container& container, std::vector<ListedPart> listed);

// Takes a `scan_shape` attribute (two integers) of an object into the hints; two different values are corrupt_data.
void note_scan_shape(Container& container, ScanHints& hints, const hdf5::Object& object);

// Metadata of the master (and of the side file `x.h5` and others beside it).
void read_master_metadata(Container& container, const std::shared_ptr<const hdf5::File>& file);
// ANDs a pixel mask dataset into valid_pixels; corrupt_data when its shape is not the detector's.
Result<Done> apply_pixel_mask(Container& container, const hdf5::Object& mask);

}  // namespace quantem
