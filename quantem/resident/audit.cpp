#include "quantem/resident/audit.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "quantem/core/sha256.h"

namespace quantem {
namespace {

using Json = nlohmann::ordered_json;

// Integers print as integers.
Json number(double v) {
  if (v == std::floor(v) && std::abs(v) < 9007199254740992.0) return static_cast<std::int64_t>(v);
  return v;
}

}  // namespace

void AuditPart::merge(const AuditPart& o) {
  min = std::min(min, o.min);
  if (o.n_values &&
      (!n_values || o.max > max ||
       (o.max == max && (o.max_order < max_order || (o.max_order == max_order && o.max_pixel < max_pixel))))) {
    max = o.max;
    max_order = o.max_order;
    max_position = o.max_position;
    max_pixel = o.max_pixel;
  }
  n_values += o.n_values;
  n_nonzero += o.n_nonzero;
  n_above_255 += o.n_above_255;
  n_above_65535 += o.n_above_65535;
  n_saturated += o.n_saturated;
  n_flagged += o.n_flagged;
  n_nonfinite += o.n_nonfinite;
}

double saturation_of(Dtype dtype, std::optional<std::uint64_t> file_value) {
  double limit = std::numeric_limits<double>::infinity();
  if (dtype == Dtype::u8) limit = 255;
  if (dtype == Dtype::u16) limit = 65535;
  return file_value ? std::min(limit, static_cast<double>(*file_value)) : limit;
}

Audit finish_audit(const AuditPart& part, const std::vector<SourceFile>& identity, Dtype dtype,
                   const BitMask& valid_pixels) {
  Audit a;
  if (part.n_values) a.count_min = part.min, a.count_max = part.max;
  a.max_position = part.max_position;
  a.max_pixel = part.max_pixel;
  a.n_values = part.n_values;
  a.n_nonzero = part.n_nonzero;
  a.n_above_255 = part.n_above_255;
  a.n_above_65535 = part.n_above_65535;
  a.n_saturated = part.n_saturated;
  a.n_flagged = part.n_flagged;
  a.n_nonfinite = part.n_nonfinite;
  Json input;
  input["source_identity"] = Json::array();
  for (const SourceFile& f : identity) input["source_identity"].push_back(Json::array({f.name, f.bytes, f.mtime_ns}));
  input["dtype"] = dtype_name(dtype);
  Json bad = Json::array();
  for (std::uint64_t p = 0; p < valid_pixels.count(); ++p)
    if (!valid_pixels[p]) bad.push_back(p);
  input["bad_pixels"] = std::move(bad);
  input["count_max"] = number(a.count_max);
  input["n_above_255"] = a.n_above_255;
  const std::string text = input.dump(-1, ' ', false, Json::error_handler_t::replace);
  a.digest = sha256_hex(text.data(), text.size());
  return a;
}

std::string to_json(const Audit& a) {
  const Json out = {{"schema", "quantem.gpu.value-range-audit/v1"},
                    {"count_min", number(a.count_min)},
                    {"count_max", number(a.count_max)},
                    {"max_position", a.max_position},
                    {"max_pixel", a.max_pixel},
                    {"n_values", a.n_values},
                    {"n_nonzero", a.n_nonzero},
                    {"n_above_255", a.n_above_255},
                    {"n_above_65535", a.n_above_65535},
                    {"n_saturated", a.n_saturated},
                    {"n_flagged", a.n_flagged},
                    {"n_nonfinite", a.n_nonfinite},
                    {"digest", a.digest}};
  return out.dump();
}

}  // namespace quantem
