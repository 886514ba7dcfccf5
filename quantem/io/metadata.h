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

// A unit without the marks of EMD 0.x: "[n_m^-1]" is "nm^-1".
std::string plain_unit(std::string_view text);
// The factor from one unit to another of the same kind (core/units.h), or nothing. "m" to "mm": 1000.
std::optional<double> unit_scale(std::string_view from, std::string_view to);

}  // namespace quantem
