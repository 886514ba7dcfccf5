#pragma once
// Metadata of a source, kept as found.

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "quantem/io/container.h"

namespace quantem {

// Adds `value` under `key` to container.metadata_json. Text that is not UTF-8 is written with replacement characters.
void add_metadata(Container& container, const std::string& key, nlohmann::json value);

// The factor from one unit of a length, time, voltage or angle to another, or nothing when either is not known or they do not
// belong together. "m" to "mm": 1000.
std::optional<double> unit_scale(std::string_view from, std::string_view to);

}  // namespace quantem
