#include "quantem/io/metadata.h"

#include <numbers>

namespace quantem {
namespace {

enum class Quantity : std::uint8_t { length, time, voltage, angle };
struct Unit {
  std::string_view name;
  Quantity quantity;
  double in_base;  // m, s, V, rad
};
constexpr Unit kUnits[] = {
    {"m", Quantity::length, 1},
    {"mm", Quantity::length, 1e-3},
    {"um", Quantity::length, 1e-6},
    {"µm", Quantity::length, 1e-6},
    {"nm", Quantity::length, 1e-9},
    {"n_m", Quantity::length, 1e-9},
    {"A", Quantity::length, 1e-10},
    {"Å", Quantity::length, 1e-10},
    {"\xe2\x84\xab", Quantity::length, 1e-10},
    {"Ang", Quantity::length, 1e-10},
    {"angstrom", Quantity::length, 1e-10},
    {"pm", Quantity::length, 1e-12},
    {"s", Quantity::time, 1},
    {"ms", Quantity::time, 1e-3},
    {"us", Quantity::time, 1e-6},
    {"µs", Quantity::time, 1e-6},
    {"ns", Quantity::time, 1e-9},
    {"V", Quantity::voltage, 1},
    {"kV", Quantity::voltage, 1e3},
    {"eV", Quantity::voltage, 1},
    {"keV", Quantity::voltage, 1e3},
    {"rad", Quantity::angle, 1},
    {"mrad", Quantity::angle, 1e-3},
    {"deg", Quantity::angle, std::numbers::pi / 180},
    {"degree", Quantity::angle, std::numbers::pi / 180},
    {"degrees", Quantity::angle, std::numbers::pi / 180},
};

const Unit* find(std::string_view name) {
  if (name.size() > 2 && name.front() == '[' && name.back() == ']') name = name.substr(1, name.size() - 2);
  for (const Unit& unit : kUnits)
    if (unit.name == name) return &unit;
  return nullptr;
}

}  // namespace

void add_metadata(Container& c, const std::string& key, nlohmann::json value) {
  auto all = nlohmann::json::parse(c.metadata_json, nullptr, false);
  if (!all.is_object()) all = nlohmann::json::object();
  all[key] = std::move(value);
  c.metadata_json = all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::optional<double> unit_scale(std::string_view from, std::string_view to) {
  const Unit *a = find(from), *b = find(to);
  if (!a || !b || a->quantity != b->quantity) return std::nullopt;
  return a->in_base / b->in_base;
}

}  // namespace quantem
