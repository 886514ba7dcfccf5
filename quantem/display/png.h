#pragma once
// PNG files, 8 bits per channel. The same picture gives the same bytes: no time stamp, fixed filter and compression
// level.

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "quantem/core/result.h"
#include "quantem/display/rgba.h"

namespace quantem {

struct PngOptions {
  // Key (1-79 Latin letters) and UTF-8 text, written as iTXt: {"quantem.provenance", to_json(provenance)}.
  std::vector<std::pair<std::string, std::string>> texts;
};

// RGB when every alpha is 255, else RGBA. Errors: invalid_argument for an empty picture or one whose bytes disagree
// with its extent; unsupported for a side over 2^31 - 1.
Result<std::vector<std::uint8_t>> encode_png(const Rgba& picture, const PngOptions& options = {});

// The file appears whole or not at all (written beside it, then renamed). Errors: io, with the path and the system's
// reason.
Result<Done> write_png(const std::filesystem::path& path, const Rgba& picture, const PngOptions& options = {});

}  // namespace quantem
