#pragma once
// Options as the library takes them. Every error names the option, what it expects and what was given.

#include <filesystem>
#include <optional>

#include "quantem/cli/arguments.h"
#include "quantem/core/calibration.h"
#include "quantem/core/result.h"
#include "quantem/io/container.h"
#include "quantem/io/load.h"

namespace quantem::cli {

Result<OpenOptions> open_options(const SourceArguments& source);
Result<LoadOptions> load_options(const LoadArguments& load);

// Values that the caller gave, origin `caller`; the others stay as the file has them.
Result<Done> override_calibration(const CalibrationArguments& arguments, Calibration& calibration);

// inspect(), and its readiness as an error. Overrides are those of the source: crop and bin transform them.
Result<Container> open_ready(const std::filesystem::path& file, const SourceArguments& source);

}  // namespace quantem::cli
