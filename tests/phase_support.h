#pragma once
// For the phase oracles: the fixture geometries of the contract, their specimens, and the figures of merit.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "quantem/detector/masked_sum.h"
#include "quantem/dpc/dpc.h"
#include "quantem/runtime/thread_pool.h"
#include "quantem/simulate/random.h"
#include "quantem/simulate/simulate.h"

namespace quantem::phase_testing {

// Positions and weights of the oracle's random specimens (14 and 30 atoms of one seed), fractions of the field.
inline const std::vector<Atom> kFourteen = {{0.62509546660466697, 0.89721380096957548, 0.77753575269460629},
                                            {0.77568569024519352, 0.22520718999059186, 0.70847058795970841},
                                            {0.30016628491122543, 0.8735534453962619, 0.6981240612361026},
                                            {0.0052653045655747244, 0.82122841838276628, 0.54850895321639848},
                                            {0.79706942875204623, 0.46793495284372078, 0.40707641532550354},
                                            {0.30303242681931353, 0.27842561210077332, 0.51544128639118636},
                                            {0.2548695876541246, 0.44507630588264657, 0.81521927252910353},
                                            {0.5045482589579533, 0.55349735207449247, 0.52036403439219714},
                                            {0.99550028343439267, 0.79266191921375306, 0.62172178636132402},
                                            {0.62217922944116266, 0.98896014768188489, 0.40224054523124558},
                                            {0.21530869823559895, 0.16021203385784455, 0.89802863788104736},
                                            {0.61253960427303078, 0.043942007961383367, 0.49267664863686395},
                                            {0.035680278773596141, 0.51488882027137028, 0.56055958273827122},
                                            {0.4662060253252891, 0.91716777319285225, 0.92819929238849719}};
inline const std::vector<Atom> kThirty = {{0.62509546660466697, 0.89721380096957548, 0.76303375229791071},
                                          {0.77568569024519352, 0.22520718999059186, 0.78279794847299933},
                                          {0.30016628491122543, 0.8735534453962619, 0.80587014628767295},
                                          {0.0052653045655747244, 0.82122841838276628, 0.49047281150102123},
                                          {0.79706942875204623, 0.46793495284372078, 0.66418808031291254},
                                          {0.30303242681931353, 0.27842561210077332, 0.543738377097714},
                                          {0.2548695876541246, 0.44507630588264657, 0.64149897886238905},
                                          {0.5045482589579533, 0.55349735207449247, 0.45802245635904737},
                                          {0.99550028343439267, 0.79266191921375306, 0.9806968306292928},
                                          {0.62217922944116266, 0.98896014768188489, 0.52900242241352802},
                                          {0.21530869823559895, 0.16021203385784455, 0.80305909756677096},
                                          {0.61253960427303078, 0.043942007961383367, 0.5802520488874422},
                                          {0.035680278773596141, 0.51488882027137028, 0.92444621568970264},
                                          {0.4662060253252891, 0.91716777319285225, 0.79732884300307227},
                                          {0.62922625449101044, 0.51411764659951387, 0.47896948948498347},
                                          {0.49687343539350426, 0.24751492202733083, 0.9070445925247318},
                                          {0.011794025542505859, 0.19240214398531064, 0.96696890268698776},
                                          {0.69203212088183919, 0.20060672398699519, 0.94235007291755613},
                                          {0.36953631060220671, 0.0037342420520759534, 0.74183148871556637},
                                          {0.83004772980174557, 0.15446108106143985, 0.48727597225655617},
                                          {0.26759930456378545, 0.88033215398082865, 0.51547809698099945},
                                          {0.50979080986842318, 0.84715024636586933, 0.95674341084671466},
                                          {0.63971716694252623, 0.74177094736185711, 0.73139589260035831},
                                          {0.09149560506304566, 0.54114382137648875, 0.50833149906934705},
                                          {0.50777223630034996, 0.87133937669288064, 0.93043413651788198},
                                          {0.36126405901415759, 0.59818406720721307, 0.7849430231334884},
                                          {0.059251642345503619, 0.3876318011107287, 0.7418165646842847},
                                          {0.32303634625820665, 0.15019972907045187, 0.62577270167795207},
                                          {0.81633810381907568, 0.37944617155031246, 0.64657316929427788},
                                          {0.97874788441122162, 0.58999169301061027, 0.54369352760910694}};
// The fixtures' specimen: fractional positions without a seed.
inline const std::vector<Atom> kSeven = {{0.31, 0.22, 1.0}, {0.62, 0.15, 0.7}, {0.18, 0.58, 0.5}, {0.77, 0.49, 0.9},
                                         {0.45, 0.83, 0.6}, {0.88, 0.91, 0.8}, {0.52, 0.47, 0.4}};

inline Specimen random_atoms(double peak_rad, const std::vector<Atom>& atoms = kFourteen) {
  return {atoms, 0.35, peak_rad, 0.95};
}
inline Specimen fixture_atoms() {
  return {kSeven, 0.35, 0.05, 1.0};
}

inline SimulateOptions square_geometry() {
  SimulateOptions o;
  o.scan = {64, 64};
  o.scan_step_A = {0.2, 0.2};
  o.det = {48, 48};
  o.det_step_mrad = {5.0 / 3, 5.0 / 3};
  return o;
}
inline SimulateOptions rectangular_geometry() {
  SimulateOptions o;
  o.scan = {48, 80};
  o.scan_step_A = {0.24, 0.18};
  o.det = {44, 52};
  o.det_step_mrad = {1.7, 1.5};
  o.center_px = Point{20.3, 26.6};
  return o;
}
inline SimulateOptions odd_geometry() {
  SimulateOptions o;
  o.scan = {45, 63};
  o.scan_step_A = {0.22, 0.2};
  o.det = {47, 45};
  o.det_step_mrad = {5.0 / 3, 5.0 / 3};
  o.center_px = Point{23, 22};
  return o;
}
inline const Aberrations kAberrated{{1, 0, -60, 0}, {1, 2, 18, -11}};

inline std::vector<double> phase_for(const SimulateOptions& o, const Specimen& s) {
  return phase_of(s, o.scan, o.scan_step_A);
}

// Centre of mass of intensities that are never stored: every pixel's map adds to the three sums.
class ComSums {
 public:
  explicit ComSums(const SimulateOptions& o) : options_(o), total_(o.scan.count()), row_(total_), col_(total_) {}
  void add(std::uint32_t pixel, std::span<const double> intensity) {
    const std::lock_guard lock(mutex_);
    const double r = pixel / options_.det.cols, c = pixel % options_.det.cols;
    for (std::size_t i = 0; i < intensity.size(); ++i) {
      total_[i] += intensity[i];
      row_[i] += r * intensity[i];
      col_[i] += c * intensity[i];
    }
  }
  [[nodiscard]] ComField field() const {
    ComField f;
    f.scan = options_.scan;
    f.valid = BitMask(f.scan.count(), true);
    f.row.resize(f.scan.count());
    f.col.resize(f.scan.count());
    for (std::size_t i = 0; i < total_.size(); ++i) {
      f.row[i] = row_[i] / total_[i];
      f.col[i] = col_[i] / total_[i];
    }
    return f;
  }

 private:
  const SimulateOptions& options_;
  std::vector<double> total_, row_, col_;
  std::mutex mutex_;
};

inline ComField com_of(const SimulateOptions& o, const std::vector<double>& phase) {
  ComSums sums(o);
  const auto done = simulate_pixels(o, phase, [&](std::uint32_t p, std::span<const double> x) { sums.add(p, x); });
  return done ? sums.field() : ComField{};
}

// Mean-free, in 1/A, detector axes.
inline ComField in_inverse_A(const ComField& com, const SimulateOptions& o) {
  const double per_mrad = 1e-3 / electron_wavelength_A(o.voltage_kV);
  return scale_components(*descan(com), {o.det_step_mrad.row * per_mrad, o.det_step_mrad.col * per_mrad}, "1/A");
}

inline std::vector<double> periodic_phase(const ComField& aligned, const SimulateOptions& o,
                                          Boundary boundary = Boundary::periodic) {
  IntegrateOptions how;
  how.units = IdpcUnits::rad;
  how.boundary = boundary;
  how.scan_sampling_A = o.scan_step_A;
  const auto phase = integrate(aligned, how);
  return phase ? phase->values : std::vector<double>{};
}

inline RotationOptions calibrated(const SimulateOptions& o, RotationMethod method) {
  RotationOptions r;
  r.method = method;
  r.polarity = Polarity::skewness;
  r.scan_sampling_A = o.scan_step_A;
  r.voltage_kV = o.voltage_kV;
  r.semiangle_mrad = o.semiangle_mrad;
  return r;
}

// Of mean-free values: correlation, |a - b| / |b|, slope of a over b.
struct Merit {
  double corr = 0, rmse = 0, slope = 0;
};
inline Merit merit(const std::vector<double>& a, const std::vector<double>& b) {
  const auto n = static_cast<double>(a.size());
  const double ma = std::accumulate(a.begin(), a.end(), 0.0) / n, mb = std::accumulate(b.begin(), b.end(), 0.0) / n;
  double aa = 0, bb = 0, ab = 0, dd = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double x = a[i] - ma, y = b[i] - mb;
    aa += x * x;
    bb += y * y;
    ab += x * y;
    dd += (x - y) * (x - y);
  }
  return {ab / std::sqrt(aa * bb), std::sqrt(dd / bb), ab / bb};
}

// A .npy of the test vectors: values only. Nothing when QUANTEM_VECTORS is not set or the file is not there.
template <class T>
std::optional<std::vector<T>> vectors_npy(const std::string& name) {
  const char* folder = std::getenv("QUANTEM_VECTORS");
  if (!folder) return std::nullopt;
  std::ifstream file(std::string(folder) + "/" + name, std::ios::binary);
  std::array<unsigned char, 10> head{};
  if (!file.read(reinterpret_cast<char*>(head.data()), head.size())) return std::nullopt;
  file.seekg(10 + head[8] + 256 * head[9]);  // version 1: magic, version, length of the header, header
  std::vector<char> bytes((std::istreambuf_iterator<char>(file)), {});
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

inline double angle_between(double a, double b) {
  return std::abs(std::remainder(a - b, 360.0));
}

}  // namespace quantem::phase_testing
