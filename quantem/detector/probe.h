#pragma once
// The bright-field disc of an acquisition, found from its mean pattern, and the detectors that are named after it.
// One definition serves virtual detectors and calibration. Host, double; the same doubles on every backend.
//
// auto_probe, from the mean pattern over all valid positions:
//   1. bad pixels take the mean of those of their 8 neighbours that have a value, pass by pass, until none is left
//   2. each value is limited to the second largest of its (up to 8) neighbours, read from step 1 (lone and paired hot
//   pixels)
//   3. t = mean; t <- (mean above t + mean of the rest) / 2 until t repeats, at most 100 times; plateau = median above
//   t
//   4. {value > plateau / 2}; the 4-connected component with the largest sum; plateau <- its median; until it repeats,
//   at most 10
//   5. holes filled; A pixels; centre = unweighted centroid, R = sqrt(A / pi), never rounded
// undetermined "flat", "too_small" (A < 4), "cut_off" (touches the border), "not_a_disc" (holes above A / 5, or the
// pixels in exactly one of set and disc above A * (0.10 + 0.25 / R)), with the candidate; no circle is invented. 64x64,
// disc r = 8 at (20, 40) of 100 on 3: centre (20, 40), A = 197, R = 7.9188.

#include <cstdint>
#include <optional>
#include <string_view>

#include "quantem/core/array.h"
#include "quantem/core/calibration.h"
#include "quantem/core/result.h"
#include "quantem/detector/geometry.h"

namespace quantem {

struct Probe {
  Point center;            // detector pixels
  double radius = 0;       // detector pixels
  std::uint64_t area = 0;  // pixels of the disc; 0 when the caller gave both centre and radius
  double plateau = 0;      // counts inside the disc
  Origin center_origin = Origin::measured, radius_origin = Origin::measured;
};

Result<Probe> auto_probe(const Pattern<double>& mean, const BitMask& valid_pixels);

// A caller's centre or radius replaces that value only; the other is measured. With both, the pattern is not looked at.
struct ProbeOptions {
  std::optional<Point> center;
  std::optional<double> radius;
};
Result<Probe> find_probe(const Pattern<double>& mean, const BitMask& valid_pixels, const ProbeOptions& options);

// The named detectors, with R the probe radius: bf [0, R], abf [R/2, R], adf [R, 2R], haadf [2R, 4R], df [R, inf).
// Both edges inclusive, so a pixel at exactly R is in bf, adf and df.
enum class Band : std::uint8_t { bf, abf, adf, haadf, df };
std::string_view band_name(Band band);  // "bf"
Result<Band> parse_band(std::string_view name);
struct BandEdges {
  double inner_px, outer_px;
};
BandEdges band_edges(Band band, double radius_px);
Result<Mask> band(Band band, const Probe& probe, Extent det);

// Units of detector radii. R: probe radii.
enum class RadiusUnit : std::uint8_t { px, mrad, per_A, R };
std::string_view radius_unit_name(RadiusUnit unit);           // "px", "mrad", "A^-1", "R"
Result<RadiusUnit> parse_radius_unit(std::string_view name);  // also 1/A, A-1 and the same with the angstrom sign
// mrad: by the detector sampling (the caller's, else the file's), else mrad / semiangle_mrad * R. A^-1 also needs the
// voltage: mrad = 1e3 * wavelength * value. invalid_argument naming what is unknown; unsupported where the sampling is
// not square.
Result<double> to_pixels(double radius, RadiusUnit unit, const Calibration& calibration,
                         std::optional<double> probe_radius_px);

// Detector sampling from the probe: semiangle_mrad / R on both axes, origin derived.
Known<Pair> det_sampling_from_probe(double semiangle_mrad, const Probe& probe);

}  // namespace quantem
