#pragma once
// What identifies a source file: name, bytes and time of the last change, taken before the first read and compared after the last.

#include <filesystem>

#include "quantem/core/provenance.h"
#include "quantem/core/result.h"

namespace quantem {

Result<SourceFile> identify(const std::filesystem::path& path);  // io when it cannot be looked at; no hash

}  // namespace quantem
