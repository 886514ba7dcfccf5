#include "quantem/io/metadata.h"

#include "quantem/core/units.h"

namespace quantem {

void add_metadata(Container& c, const std::string& key, nlohmann::json value) {
  auto all = nlohmann::json::parse(c.metadata_json, nullptr, false);
  if (!all.is_object()) all = nlohmann::json::object();
  all[key] = std::move(value);
  c.metadata_json = all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string plain_unit(std::string_view text) {
  if (text.size() > 2 && text.front() == '[' && text.back() == ']') text = text.substr(1, text.size() - 2);
  std::string unit(text);
  if (unit.starts_with("n_m")) unit.erase(1, 1);
  return unit;
}

std::optional<double> unit_scale(std::string_view from, std::string_view to) {
  const auto one = convert(1, plain_unit(from), to);
  return one ? std::optional(*one) : std::nullopt;
}

}  // namespace quantem
