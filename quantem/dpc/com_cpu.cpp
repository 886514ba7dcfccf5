#include <cmath>
#include <utility>
#include <vector>

#include "quantem/detector/detector_ops.h"
#include "quantem/detector/masked_sum.h"
#include "quantem/dpc/com.h"
#include "quantem/dpc/steps.h"
#include "quantem/runtime/thread_pool.h"

namespace quantem {
namespace {

using dpc_detail::described_field, dpc_detail::record_selection;

// Signed sums are exact in 64 bits (2^24 pixels * 2^31 * 2^24 rows would not be, but 2^24 pixels are 4096 rows: 2^67 is
// refused).
template <class T>
using SumOf = std::conditional_t<std::is_floating_point_v<T>, double, std::int64_t>;

struct Sums {
  double total = 0, row = 0, col = 0;
  bool finite = true, negative_count = false;
};

template <class T>
Sums sum_frame(const T* counts, Extent det, const std::vector<std::uint32_t>& pixels) {
  SumOf<T> total = 0, row = 0, col = 0;
  Sums out;
  for (const std::uint32_t p : pixels) {
    const T value = counts[p];
    if constexpr (std::is_floating_point_v<T>) {
      if (!std::isfinite(value)) {
        out.finite = false;
        return out;
      }
    }
    const auto v = static_cast<SumOf<T>>(value);
    out.negative_count |= value < 0;
    total += v;
    row += static_cast<SumOf<T>>(p / det.cols) * v;
    col += static_cast<SumOf<T>>(p % det.cols) * v;
  }
  out.total = static_cast<double>(total);
  out.row = static_cast<double>(row);
  out.col = static_cast<double>(col);
  return out;
}

struct Tally {
  std::uint64_t n_negative_total = 0, n_not_finite = 0, n_negative_counts = 0;
};

// i16, i32, f32: kept dense, summed here. Order of pixels fixed, one frame a thread: no result depends on threads.
template <class T>
Tally divide_dense(const Volume& volume, const std::vector<std::uint32_t>& pixels, ComField& field,
                   ProgressMeter& meter) {
  const Extent det = volume.shape().det, scan = volume.shape().scan;
  const T* counts = reinterpret_cast<const T*>(volume.dense()->counts.data());
  std::vector<Sums> rows_of_sums(scan.count());
  parallel_for(
      scan.rows,
      [&](std::uint64_t r) {
        if (meter.cancelled()) return;
        for (std::uint64_t i = r * scan.cols; i < (r + 1) * scan.cols; ++i)
          if (volume.valid_positions()[i]) rows_of_sums[i] = sum_frame(counts + i * det.count(), det, pixels);
        meter.add(scan.cols);
      },
      volume.device().options().threads);
  Tally tally;
  for (std::uint64_t i = 0; i < scan.count(); ++i) {
    const Sums& s = rows_of_sums[i];
    tally.n_not_finite += !s.finite;
    tally.n_negative_total += s.total < 0;
    tally.n_negative_counts += s.finite && s.negative_count;
    if (!s.finite || !(s.total > 0)) continue;
    field.valid.set(i);
    field.row[i] = s.row / s.total;
    field.col[i] = s.col / s.total;
  }
  return tally;
}

std::vector<std::uint32_t> selected_pixels(const Volume& volume, const Mask* mask) {
  std::vector<std::uint32_t> pixels;
  for (std::uint32_t p = 0; p < volume.shape().frame_pixels(); ++p)
    if (volume.valid_pixels()[p] && (!mask || mask->bits[p])) pixels.push_back(p);
  return pixels;
}

void report(const Tally& tally, Provenance& p) {
  const auto warn = [&](std::uint64_t n, const char* text) {
    if (n) p.warn("center_of_mass: " + std::to_string(n) + text);
  };
  warn(tally.n_negative_total, " positions without value: negative_total");
  warn(tally.n_not_finite, " positions without value: a selected sample is not finite");
  warn(tally.n_negative_counts, " positions hold negative counts: negative_weights");
}

// The same where the counts are not in host memory.
Result<Tally> divide_elsewhere(const Volume& volume, const Mask* mask, ComField& field, const DetectorOps& ops,
                               const Job& job) {
  std::vector<std::uint8_t> states(field.scan.count());
  BitMask selected = mask ? mask->bits : volume.valid_pixels();
  selected &= volume.valid_pixels();
  QUANTEM_TRY(ops.sample_states(volume, selected, states, job));
  Tally tally;
  const auto divide = [&](const auto& sums) {
    for (std::uint64_t i = 0; i < field.scan.count(); ++i) {
      const bool finite = !(states[i] & 1);
      tally.n_not_finite += !finite;
      tally.n_negative_total += finite && sums.total[i] < 0;
      tally.n_negative_counts += finite && states[i] >> 1;
      if (!finite || !(sums.total[i] > 0)) continue;
      field.valid.set(i);
      const auto total = static_cast<double>(sums.total[i]);
      field.row[i] = static_cast<double>(sums.row[i]) / total;
      field.col[i] = static_cast<double>(sums.col[i]) / total;
    }
    field.provenance.path = sums.path;
  };
  if (volume.dtype() == Dtype::f32) {
    QUANTEM_TRY_ASSIGN(sums, moment_sums_real(volume, mask, job));
    divide(sums);
  } else {
    QUANTEM_TRY_ASSIGN(sums, moment_sums_signed(volume, mask, job));
    divide(sums);
  }
  return tally;
}

Result<Done> divide_signed(const Volume& volume, const Mask* mask, ComField& field, const Job& job) {
  QUANTEM_TRY_ASSIGN(ops, detector_ops(volume));
  if (!volume.dense() && !ops->sample_states)
    return Error{Code::unsupported, "center_of_mass: " + std::string(dtype_name(volume.dtype())) +
                                        " counts are read from dense storage only, this volume is encoded"};
  // |sum of dr I| <= 2^31 * rows * pixels has to stay below 2^63.
  const Extent det = volume.shape().det;
  if (volume.dtype() == Dtype::i32 && std::max(det.rows, det.cols) * det.count() >= std::uint64_t{1} << 32)
    return Error{Code::invalid_argument, "center_of_mass: first moments of int32 counts on a detector of " +
                                             to_string(det) + " could pass 2^63; crop or bin the detector"};
  field.provenance.accumulator_dtype = volume.dtype() == Dtype::f32 ? "float64" : "int64";
  if (!volume.dense()) {
    QUANTEM_TRY_ASSIGN(tally, divide_elsewhere(volume, mask, field, *ops, job));
    report(tally, field.provenance);
    return Done{};
  }
  const std::vector<std::uint32_t> pixels = selected_pixels(volume, mask);
  ProgressMeter meter(job, "center_of_mass", volume.shape().n_positions(), "positions");
  Tally tally;
  if (volume.dtype() == Dtype::i16)
    tally = divide_dense<std::int16_t>(volume, pixels, field, meter);
  else if (volume.dtype() == Dtype::i32)
    tally = divide_dense<std::int32_t>(volume, pixels, field, meter);
  else
    tally = divide_dense<float>(volume, pixels, field, meter);
  if (meter.cancelled()) return meter.cancelled_error("center_of_mass");
  meter.finish();
  report(tally, field.provenance);
  field.provenance.path = "cpu_dense_com";
  return Done{};
}

Result<Done> divide_unsigned(const Volume& volume, const Mask* mask, ComField& field, const Job& job) {
  QUANTEM_TRY_ASSIGN(sums, moment_sums(volume, mask, job));
  for (std::uint64_t i = 0; i < field.scan.count(); ++i) {
    if (!volume.valid_positions()[i] || sums.total[i] == 0) continue;
    field.valid.set(i);
    const auto total = static_cast<double>(sums.total[i]);
    field.row[i] = static_cast<double>(sums.row[i]) / total;
    field.col[i] = static_cast<double>(sums.col[i]) / total;
  }
  field.provenance.path = sums.path;
  field.provenance.accumulator_dtype = "uint64";
  return Done{};
}

// Weights in units of their step, which cancels in the quotient. Exact sums in 64 bits signed.
Result<Done> divide_weighted(const Volume& volume, const Weights& weights, ComField& field, const Job& job) {
  QUANTEM_TRY_ASSIGN(sums, moment_sums_weighted(volume, weights, job));
  Tally tally;
  for (std::uint64_t i = 0; i < field.scan.count(); ++i) {
    if (!volume.valid_positions()[i]) continue;
    tally.n_negative_total += sums.total[i] < 0;
    if (sums.total[i] <= 0) continue;
    field.valid.set(i);
    const auto total = static_cast<double>(sums.total[i]);
    field.row[i] = static_cast<double>(sums.row[i]) / total;
    field.col[i] = static_cast<double>(sums.col[i]) / total;
  }
  report(tally, field.provenance);
  field.provenance.path = sums.path;
  field.provenance.accumulator_dtype = "int64";
  return Done{};
}

// No value anywhere yet; provenance of the volume.
ComField empty_field(const Volume& volume) {
  ComField field = described_field(volume);
  field.row.resize(field.scan.count());
  field.col.resize(field.scan.count());
  return field;
}

}  // namespace

ComField dpc_detail::described_field(const Volume& volume) {
  ComField field;
  field.scan = volume.shape().scan;
  field.valid = BitMask(volume.shape().n_positions());
  Provenance& p = field.provenance = volume.provenance();
  p.operation = "center_of_mass";
  p.backend = backend_name(volume.device().backend());
  p.device = volume.device().label();
  return field;
}

void dpc_detail::record_selection(const Volume& volume, BitMask selected, const Parameters& parameters, Provenance& p) {
  selected &= volume.valid_pixels();
  p.mask = {selected.sha256(), selected.n_set()};
  p.parameters.insert(p.parameters.end(), parameters.begin(), parameters.end());
  if (selected.none()) p.warn("empty_mask");
  if (!volume.valid_positions().all()) p.add_evidence("incomplete");
}

Result<ComField> com_field(const Volume& volume, const Mask* mask, const Job& job) {
  QUANTEM_TRY(volume.check_open());
  const Shape4& shape = volume.shape();
  if (mask && (mask->det != shape.det || mask->bits.count() != shape.frame_pixels()))
    return Error{Code::invalid_argument,
                 "center_of_mass: mask is " + to_string(mask->det) + ", detector is " + to_string(shape.det)};
  ComField field = empty_field(volume);
  if (is_unsigned_count(volume.dtype()))
    QUANTEM_TRY(divide_unsigned(volume, mask, field, job));
  else
    QUANTEM_TRY(divide_signed(volume, mask, field, job));
  record_selection(volume, mask ? mask->bits : BitMask(shape.frame_pixels(), true),
                   mask ? mask->parameters : Parameters{}, field.provenance);
  return field;
}

Result<ComField> com_field(const Volume& volume, const Weights& weights, const Job& job) {
  QUANTEM_TRY(volume.check_open());
  const Shape4& shape = volume.shape();
  if (weights.det != shape.det || weights.q.size() != shape.frame_pixels())
    return Error{Code::invalid_argument,
                 "center_of_mass: weights are " + to_string(weights.det) + ", detector is " + to_string(shape.det)};
  ComField field = empty_field(volume);
  QUANTEM_TRY(divide_weighted(volume, weights, field, job));
  BitMask selected(shape.frame_pixels());
  for (std::uint64_t p = 0; p < selected.count(); ++p)
    if (weights.q[p] != 0) selected.set(p);
  record_selection(volume, std::move(selected),
                   {{"shape", std::string("weights")}, {"step", weights.step}, {"weights_exact", weights.exact}},
                   field.provenance);
  return field;
}

Result<ComMaps> center_of_mass(const Volume& volume, const Mask* mask, const Job& job) {
  QUANTEM_TRY_ASSIGN(field, com_field(volume, mask, job));
  return to_maps(field);
}

}  // namespace quantem
