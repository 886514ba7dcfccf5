// Detectors named after the probe, and radii in its units.

#include <cmath>
#include <iterator>
#include <limits>

#include "quantem/detector/message.h"
#include "quantem/detector/probe.h"

namespace quantem {
namespace {
constexpr std::string_view kBandNames[] = {"bf", "abf", "adf", "haadf", "df"};
constexpr std::string_view kUnitNames[] = {"px", "mrad", "A^-1", "R"};
}  // namespace

std::string_view band_name(Band b) {
  return kBandNames[static_cast<std::size_t>(b)];
}

Result<Band> parse_band(std::string_view name) {
  for (std::size_t i = 0; i < std::size(kBandNames); ++i)
    if (name == kBandNames[i]) return static_cast<Band>(i);
  return Error{Code::invalid_argument, "detector '" + std::string(name) + "' is not one of bf abf adf haadf df"};
}

BandEdges band_edges(Band b, double radius_px) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  switch (b) {
    case Band::bf:
      return {0, radius_px};
    case Band::abf:
      return {radius_px / 2, radius_px};
    case Band::adf:
      return {radius_px, 2 * radius_px};
    case Band::haadf:
      return {2 * radius_px, 4 * radius_px};
    case Band::df:
      break;
  }
  return {radius_px, kInf};
}

Result<Mask> band(Band b, const Probe& probe, Extent det) {
  const BandEdges edges = band_edges(b, probe.radius);
  QUANTEM_TRY_ASSIGN(mask, annulus(probe.center, edges.inner_px, edges.outer_px, det));
  mask.parameters.insert(mask.parameters.begin(), {"band", std::string(band_name(b))});
  return mask;
}

std::string_view radius_unit_name(RadiusUnit unit) {
  return kUnitNames[static_cast<std::size_t>(unit)];
}

Result<RadiusUnit> parse_radius_unit(std::string_view name) {
  if (name == "px" || name == "pixel" || name == "pixels") return RadiusUnit::px;
  if (name == "mrad") return RadiusUnit::mrad;
  if (name == "R") return RadiusUnit::R;
  // U+00C5 and U+212B are both written for the angstrom.
  for (const std::string_view angstrom : {"A", "\xc3\x85", "\xe2\x84\xab"}) {
    const std::string a(angstrom);
    if (name == a + "^-1" || name == "1/" + a || name == a + "-1" || name == a + "\xe2\x81\xbb\xc2\xb9")
      return RadiusUnit::per_A;
  }
  return Error{Code::invalid_argument, "unit '" + std::string(name) + "' is not one of px mrad A^-1 R"};
}

namespace {

Result<double> mrad_to_pixels(double mrad, const Calibration& calibration, std::optional<double> probe_radius_px) {
  const Known<Pair>& sampling = calibration.det_sampling_mrad;
  if (sampling && sampling.origin != Origin::guessed) {
    if (std::abs(sampling.value->row - sampling.value->col) > 1e-6 * std::abs(sampling.value->row))
      return Error{Code::unsupported, "radius: detector sampling is " +
                                          detector_detail::point(sampling.value->row, sampling.value->col) +
                                          " mrad per pixel, a circle needs square pixels; use unit='px'"};
    return mrad / sampling.value->row;
  }
  if (!calibration.semiangle_mrad)
    return Error{Code::invalid_argument,
                 "semiangle_mrad is unknown: pass it, set calibration.semiangle_mrad, or use unit='px'"};
  if (!probe_radius_px) return Error{Code::invalid_argument, "probe radius is unknown: pass radius=, or use unit='px'"};
  return mrad / *calibration.semiangle_mrad.value * *probe_radius_px;
}

}  // namespace

Result<double> to_pixels(double radius, RadiusUnit unit, const Calibration& calibration,
                         std::optional<double> probe_radius_px) {
  switch (unit) {
    case RadiusUnit::px:
      return radius;
    case RadiusUnit::R:
      if (!probe_radius_px)
        return Error{Code::invalid_argument, "probe radius is unknown: pass radius=, or use unit='px'"};
      return radius * *probe_radius_px;
    case RadiusUnit::per_A:
      if (!calibration.voltage_kV)
        return Error{Code::invalid_argument,
                     "voltage_kV is unknown: pass it, set calibration.voltage_kV, or use unit='px'"};
      return mrad_to_pixels(1e3 * electron_wavelength_A(*calibration.voltage_kV.value) * radius, calibration,
                            probe_radius_px);
    case RadiusUnit::mrad:
      break;
  }
  return mrad_to_pixels(radius, calibration, probe_radius_px);
}

Known<Pair> det_sampling_from_probe(double semiangle_mrad, const Probe& probe) {
  const double step = semiangle_mrad / probe.radius;
  return {Pair{step, step}, "mrad", Origin::derived, "semiangle_mrad / probe radius"};
}

}  // namespace quantem
