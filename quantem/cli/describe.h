#pragma once
// Library values as JSON and as lines for people, the same everywhere in the program.

#include <nlohmann/json.hpp>
#include <string>

#include "quantem/core/calibration.h"
#include "quantem/core/provenance.h"
#include "quantem/core/shape.h"
#include "quantem/io/container.h"
#include "quantem/resident/volume.h"

namespace quantem::cli {

using Json = nlohmann::ordered_json;

Json to_json_array(Extent extent);  // [rows, cols]
Json to_json_array(Point point);
Json to_json_array(Pair pair);
Json shape_json(const Shape4& shape);                   // {"scan": [..], "detector": [..]}
Json calibration_json(const Calibration& calibration);  // each {value, unit, origin, note}; unknown values are null
Json audit_json(const Volume& volume);
Json provenance_json(const Provenance& provenance);

// "voltage 300 kV (file), scan step 0.2 A (caller)"; "not calibrated" when nothing is known.
std::string calibration_text(const Calibration& calibration);

}  // namespace quantem::cli
