#pragma once
// A 4D-STEM acquisition with known truth. phase.md 13, `sim_full`:
//   I(k; R) = | sum over q of T(q) psi(k - q) exp(2 pi i q.R) |^2 / sum over k of |psi(k)|^2,    T = FFT(exp(i phi)) / N
// by reciprocity, one inverse scan transform per detector pixel, k any real vector. Exact for a periodic band-limited specimen,
// whatever the detector step, rotation, handedness, centre and shape; strong phases included. Frames sum to 1 as far as the
// detector collects.
//   k_scan = R(rotation) P^transpose ((i - i0) dk_r, (j - j0) dk_c),  R = [[cos, -sin], [sin, cos]]
// dose > 0: Poisson counts of mean dose * I, seeded, independent of threads. dose = 0: intensities in float32.
// Memory: counts wait bit-packed (see packed_counts.h); intensities take 4 bytes a value. Time: scan 64x64, detector 96x96 about
// 1 s, scan 256x256, detector 192x192 a minute or two on two cores.
// Errors: invalid_argument for sizes, samplings, doses that are not positive and counts that pass the dtype, by name.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "quantem/core/array.h"
#include "quantem/core/calibration.h"
#include "quantem/core/job.h"
#include "quantem/simulate/optics.h"
#include "quantem/simulate/packed_counts.h"
#include "quantem/simulate/specimen.h"

namespace quantem {

struct SimulateOptions {
  Extent scan{64, 64}, det{96, 96};
  Pair scan_step_A{0.25, 0.25};
  Pair det_step_mrad{1.0, 1.0};
  std::optional<Point> center_px;  // optical axis; unset: (rows / 2, cols / 2) of integer division
  double voltage_kV = 300, semiangle_mrad = 20;
  bool soft_edge = true;  // the aperture's edge is one detector pixel wide (geometric mean of its sides)
  Aberrations aberrations;
  double rotation_deg = 0;
  bool transpose = false;
  std::optional<Specimen> specimen;  // unset: crystal()
  std::vector<double> phase_rad;     // instead of a specimen, scan.count()
  double dose = 0;                   // electrons a frame
  std::uint64_t seed = 1;
  Dtype dtype = Dtype::u16;  // of counts: u8, u16, u32
  int threads = 0;
};

struct Simulation {
  SimulateOptions options;
  Shape4 shape;
  Dtype dtype = Dtype::u16;         // f32 when dose is 0
  std::vector<double> phase_rad;    // truth
  std::vector<double> blurred_rad;  // phase convolved with the probe's intensity: what a full-detector iDPC shows
  Calibration calibration;          // of everything that was chosen
  PackedCounts counts;              // dose > 0
  Buffer intensities;               // dose = 0: f32, shape, C order

  // Frame of flat scan position n, C order, in `dtype`; from any number of threads. invalid_argument for a wrong size.
  [[nodiscard]] Result<Done> frame(std::uint64_t position, std::span<std::byte> out) const;
  [[nodiscard]] Result<HostArray> to_array() const;  // all of it, dense
};

Result<Simulation> simulate(const SimulateOptions& options, const Job& job = {});

// The same without keeping anything: take(pixel, I over the scan) for every detector pixel, in double, from many threads at once, each
// pixel once. For counts of one's own making and for sums that need no volume.
using TakePixel = std::function<void(std::uint32_t pixel, std::span<const double> intensity)>;
Result<Done> simulate_pixels(const SimulateOptions& options, const std::vector<double>& phase_rad,
                             const TakePixel& take, const Job& job = {});

// phi convolved with |P|^2, through the sum that the detector's pixels make: OTF(q) = sum over k of psi*(k) psi(k - q) / sum |psi|^2.
Result<std::vector<double>> blur_by_probe(const std::vector<double>& phase_rad, const SimulateOptions& options);

}  // namespace quantem
