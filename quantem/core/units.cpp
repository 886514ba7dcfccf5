#include "quantem/core/units.h"

#include <array>
#include <cctype>
#include <numbers>

#include "quantem/core/calibration.h"

namespace quantem {
namespace {

enum class Kind : std::uint8_t { length, reciprocal, angle, voltage, time, pixel };

struct Row {
  std::string_view name;  // canonical
  Kind kind;
  double in_base;  // one of it, in the base unit of its kind
};
constexpr Row kRows[] = {
    {"A", Kind::length, 1},
    {"pm", Kind::length, 0.01},
    {"nm", Kind::length, 10},
    {"um", Kind::length, 1e4},
    {"mm", Kind::length, 1e7},
    {"m", Kind::length, 1e10},
    {"1/A", Kind::reciprocal, 1},
    {"1/pm", Kind::reciprocal, 100},
    {"1/nm", Kind::reciprocal, 0.1},
    {"1/um", Kind::reciprocal, 1e-4},
    {"1/m", Kind::reciprocal, 1e-10},
    {"mrad", Kind::angle, 1},
    {"rad", Kind::angle, 1000},
    {"urad", Kind::angle, 1e-3},
    {"deg", Kind::angle, 1000 * std::numbers::pi / 180},
    {"kV", Kind::voltage, 1},
    {"V", Kind::voltage, 1e-3},
    {"us", Kind::time, 1},
    {"ns", Kind::time, 1e-3},
    {"ms", Kind::time, 1e3},
    {"s", Kind::time, 1e6},
    {"px", Kind::pixel, 1},
};
constexpr std::string_view kBase[] = {"A", "1/A", "mrad", "kV", "us", "px"};  // by Kind

// Spellings of plain units, after the signs below were put into ASCII.
constexpr std::pair<std::string_view, std::string_view> kSpellings[] = {
    {"Angstrom", "A"},
    {"angstrom", "A"},
    {"Angstroms", "A"},
    {"angstroms", "A"},
    {"Ang", "A"},
    {"picometer", "pm"},
    {"picometers", "pm"},
    {"nanometer", "nm"},
    {"nanometers", "nm"},
    {"micrometer", "um"},
    {"micrometers", "um"},
    {"millimeter", "mm"},
    {"millimeters", "mm"},
    {"meter", "m"},
    {"meters", "m"},
    {"micron", "um"},
    {"microns", "um"},
    {"radian", "rad"},
    {"radians", "rad"},
    {"milliradian", "mrad"},
    {"milliradians", "mrad"},
    {"degree", "deg"},
    {"degrees", "deg"},
    {"keV", "kV"},
    {"kilovolt", "kV"},
    {"kilovolts", "kV"},
    {"eV", "V"},
    {"volt", "V"},
    {"volts", "V"},
    {"second", "s"},
    {"seconds", "s"},
    {"sec", "s"},
    {"millisecond", "ms"},
    {"milliseconds", "ms"},
    {"microsecond", "us"},
    {"microseconds", "us"},
    {"nanosecond", "ns"},
    {"nanoseconds", "ns"},
    {"pixel", "px"},
    {"pixels", "px"},
};

// UTF-8 and Latin-1 signs that mean something in a unit.
constexpr std::pair<std::string_view, std::string_view> kSigns[] = {
    {"\xC3\x85", "A"},      // A with ring
    {"\xE2\x84\xAB", "A"},  // angstrom sign
    {"A\xCC\x8A", "A"},     // A and a combining ring
    {"\xC2\xB5", "u"},      // micro sign
    {"\xCE\xBC", "u"},      // mu
    {"\xC2\xB0", "deg"},    // degree sign
    {"\xE2\x81\xBB", "-"},  // superscript minus
    {"\xE2\x88\x92", "-"},  // minus
    {"\xC2\xB9", "1"},      // superscript one
    {"\xC5", "A"},          // Latin-1, last: its byte also begins UTF-8 sequences above 0x7F
    {"\xB5", "u"},
};

std::string in_ascii(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    bool found = false;
    for (const auto& [sign, ascii] : kSigns)
      if (text.starts_with(sign)) {
        out += ascii;
        text.remove_prefix(sign.size());
        found = true;
        break;
      }
    if (found) continue;
    if (!std::isspace(static_cast<unsigned char>(text[0]))) out += text[0];
    text.remove_prefix(1);
  }
  return out;
}

const Row* row_of(std::string_view name) {
  for (const Row& row : kRows)
    if (row.name == name) return &row;
  return nullptr;
}

// "A^-1", "A^{-1}", "A-1", "A**-1", "1/A" -> "1/A"; plain names to their canonical form.
std::string normal_form(std::string text) {
  bool reciprocal = false;
  if (text.starts_with("1/")) {
    reciprocal = true;
    text.erase(0, 2);
  } else {
    for (const std::string_view ending : {"**-1", "^{-1}", "^(-1)", "^-1", "-1"})
      if (text.size() > ending.size() && text.ends_with(ending)) {
        reciprocal = true;
        text.erase(text.size() - ending.size());
        break;
      }
  }
  for (const auto& [spelling, name] : kSpellings)
    if (text == spelling) {
      text = name;
      break;
    }
  return reciprocal ? "1/" + text : text;
}

const Row* find(std::string_view text) {
  return row_of(normal_form(in_ascii(text)));
}

}  // namespace

std::string canonical_unit(std::string_view text) {
  const Row* row = find(text);
  return row ? std::string(row->name) : std::string(text);
}

bool is_known_unit(std::string_view text) {
  return find(text) != nullptr;
}

Quantity to_base(double value, std::string_view unit) {
  const Row* row = find(unit);
  if (!row) return {value, std::string(unit)};
  return {value * row->in_base, std::string(kBase[static_cast<std::size_t>(row->kind)])};
}

Result<double> convert(double value, std::string_view from, std::string_view to, std::optional<double> voltage_kV) {
  const Row *a = find(from), *b = find(to);
  const std::string both = "'" + std::string(from) + "' to '" + std::string(to) + "'";
  if (!a || !b)
    return Error{Code::invalid_argument,
                 "convert: " + both + ": " + (a ? "the second" : "the first") + " is not a known unit"};
  if (a->kind == b->kind) return value * (a->in_base / b->in_base);
  const bool to_angle = a->kind == Kind::reciprocal && b->kind == Kind::angle;
  if (!to_angle && !(a->kind == Kind::angle && b->kind == Kind::reciprocal))
    return Error{Code::invalid_argument, "convert: " + both + ": not the same kind of quantity"};
  if (!voltage_kV || !(*voltage_kV > 0))
    return Error{Code::invalid_argument, "convert: " + both + " needs voltage_kV, which is not known; pass it"};
  const double lambda = electron_wavelength_A(*voltage_kV), base = value * a->in_base;
  return (to_angle ? base * lambda * 1e3 : base * 1e-3 / lambda) / b->in_base;
}

}  // namespace quantem
