#pragma once
// One table of units. Files spell them in many ways; a number with a unit is converted by this table or not at all.

#include <optional>
#include <string>
#include <string_view>

#include "quantem/core/result.h"

namespace quantem {

// The project's name of a unit: "A" "nm" "um" "mm" "m" "pm", "1/A" "1/nm", "rad" "mrad" "deg", "V" "kV", "s" "ms" "us" "ns", "px".
// Understands "A^-1", "1/A", "A-1", both angstrom signs of Unicode in UTF-8 (and the lone Latin-1 byte C5), superscript minus one,
// "Angstrom", micro as u or mu, singular and plural words. Anything else comes back as it is; nothing ("") stays nothing.
std::string canonical_unit(std::string_view text);
bool is_known_unit(std::string_view text);

struct Quantity {
  double value = 0;
  std::string unit;
  bool operator==(const Quantity&) const = default;
};

// In the unit that this project computes with: lengths in A, reciprocal lengths in 1/A, angles in mrad, voltages in kV, times in us.
// A unit that is not in the table is kept as text and its value is not touched.
Quantity to_base(double value, std::string_view unit);

// Between units of the same kind, and between angles and reciprocal lengths where the wavelength is known (k = angle / lambda,
// small angles): 20 mrad at 300 kV is 1.0159 1/A. invalid_argument otherwise, with both units.
Result<double> convert(double value, std::string_view from, std::string_view to,
                       std::optional<double> voltage_kV = std::nullopt);

}  // namespace quantem
