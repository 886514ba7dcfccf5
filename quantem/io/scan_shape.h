#pragma once
// From frames to scan positions (C5 to C8): which shape the scan has and where that is known from, which frames are ignored,
// which positions are missing. Frames are never cropped away or reshaped to fit.

#include <optional>
#include <string>

#include "quantem/io/container.h"

namespace quantem {

struct ScanHints {
  std::optional<Extent> side_file, attribute;  // what the side file and a scan_shape attribute say
  std::optional<Extent> array;                 // four-dimensional input: its first two axes, taken as they stand
  std::string side_file_name;
};

// Reads parts, n_stored, n_expected and options; sets shape.scan, scan_shape_origin, n_ignored_frames and n_missing; adds to
// warnings; sets not_ready when it is not set yet and something is undetermined, extra, or missing under Missing::error.
// The order of belief: the caller, the array itself, the side file, the attribute, an exact square (guessed, with a warning).
void resolve_scan_shape(Container& container, const ScanHints& hints);

}  // namespace quantem
