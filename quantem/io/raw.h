#pragma once
// Raw binary: frames back to back, everything about them given by the caller (OpenOptions::raw). Frames = (file size - offset) /
// (frame bytes + gap) without remainder, or the layout is refused with the numbers.

#include <filesystem>

#include "quantem/io/container.h"

namespace quantem {

// Fails when the file cannot be read or no layout is given (invalid_argument); a layout that does not fit is in not_ready.
// The scan shape is not resolved yet (resolve_scan_shape follows).
Result<Container> inspect_raw(const std::filesystem::path& path, const OpenOptions& options);

}  // namespace quantem
