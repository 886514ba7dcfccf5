#include "quantem/detector/mean_pattern.h"

#include <algorithm>
#include <cmath>

#include "quantem/detector/detector_ops.h"
#include "quantem/detector/product.h"

namespace quantem {
namespace {

using detector_detail::product_provenance;

// The members of a set that have a frame; missing ones are skipped and counted.
struct Members {
  BitMask positions;
  std::uint64_t n = 0, n_missing = 0;
};

Result<Members> members_of(const Volume& volume, const ScanSet* set, const char* operation) {
  QUANTEM_TRY(volume.check_open());
  Members m{volume.valid_positions(), 0, 0};
  if (set) {
    if (!(set->scan == volume.shape().scan) || set->members.count() != m.positions.count())
      return Error{Code::invalid_argument, std::string(operation) + ": positions are of a scan " +
                                               to_string(set->scan) + ", the volume's is " +
                                               to_string(volume.shape().scan)};
    m.positions &= set->members;
  }
  m.n = m.positions.n_set();
  const std::uint64_t n_asked = set ? set->members.n_set() : volume.shape().n_positions();
  m.n_missing = n_asked - m.n;
  if (m.n == 0)
    return Error{Code::invalid_argument, std::string(operation) + ": none of the " + std::to_string(n_asked) +
                                             " positions has a frame; choose others"};
  return m;
}

// n[p]: members at which pixel p has a value, of integer counts.
std::vector<std::uint64_t> n_values(const Volume& volume, const Members& members) {
  std::vector<std::uint64_t> n(volume.shape().frame_pixels(), members.n);
  for (const FlaggedSample& f : volume.info().flagged)
    if (members.positions[f.position]) --n[f.pixel];
  return n;
}

// Pixels with a value at some member; empty when all have one.
BitMask pixels_with_values(const Volume& volume, const std::vector<std::uint64_t>& n) {
  BitMask valid = volume.valid_pixels();
  for (std::uint64_t p = 0; p < n.size(); ++p)
    if (n[p] == 0) valid.set(p, false);
  return valid.all() ? BitMask{} : valid;
}

void describe(Provenance& p, const Members& members, bool is_region) {
  p.parameters.emplace_back("n_positions", static_cast<std::int64_t>(members.n));
  if (is_region) {
    p.parameters.emplace_back("positions_sha256", members.positions.sha256());
    p.parameters.emplace_back("missing_members", static_cast<std::int64_t>(members.n_missing));
  }
}

Result<Pattern<std::uint64_t>> sum_over(const Volume& volume, const ScanSet* set, const char* operation,
                                        const Job& job) {
  QUANTEM_TRY_ASSIGN(members, members_of(volume, set, operation));
  if (!is_unsigned_count(volume.dtype()))
    return Error{Code::wrong_dtype, std::string(operation) + ": " + std::string(dtype_name(volume.dtype())) +
                                        " counts have no unsigned sum; use mean_pattern"};
  QUANTEM_TRY_ASSIGN(ops, detector_ops(volume));
  Pattern<std::uint64_t> out;
  out.extent = volume.shape().det;
  out.values.resize(out.extent.count());
  out.unit = "counts";
  QUANTEM_TRY_ASSIGN(path, ops->pattern_sum(volume, members.positions, out.values, job));
  out.valid = pixels_with_values(volume, n_values(volume, members));
  out.provenance = product_provenance(volume, operation, path, out.extent, Dtype::u64, Dtype::u64);
  describe(out.provenance, members, set != nullptr);
  return out;
}

Result<Pattern<double>> mean_over(const Volume& volume, const ScanSet* set, const char* operation, const Job& job) {
  QUANTEM_TRY_ASSIGN(members, members_of(volume, set, operation));
  QUANTEM_TRY_ASSIGN(ops, detector_ops(volume));
  Pattern<double> out;
  out.extent = volume.shape().det;
  out.values.resize(out.extent.count());
  out.unit = "counts";
  std::vector<std::uint64_t> n;
  std::string_view path;
  const bool is_signed = is_signed_count(volume.dtype());
  Dtype accumulator = is_signed ? Dtype::i64 : Dtype::u64;
  if (volume.dtype() == Dtype::f32) {
    n.resize(out.values.size());
    QUANTEM_TRY_ASSIGN(ran, ops->pattern_sum_real(volume, members.positions, out.values, n, job));
    path = ran;
    accumulator = Dtype::f64;
  } else {
    std::vector<std::uint64_t> sum(out.values.size());
    QUANTEM_TRY_ASSIGN(ran, ops->pattern_sum(volume, members.positions, sum, job));
    path = ran;
    n = n_values(volume, members);
    for (std::size_t p = 0; p < sum.size(); ++p)
      out.values[p] = is_signed ? static_cast<double>(static_cast<std::int64_t>(sum[p])) : static_cast<double>(sum[p]);
  }
  out.valid = pixels_with_values(volume, n);
  for (std::size_t p = 0; p < n.size(); ++p) {
    if (!volume.valid_pixels()[p])
      out.values[p] = 0;
    else if (n[p] == 0)
      out.values[p] = std::numeric_limits<double>::quiet_NaN();
    else
      out.values[p] /= static_cast<double>(n[p]);
  }
  out.provenance = product_provenance(volume, operation, path, out.extent, Dtype::f64, accumulator);
  describe(out.provenance, members, set != nullptr);
  return out;
}

Result<HostArray> max_over(const Volume& volume, const ScanSet* set, const char* operation, const Job& job) {
  QUANTEM_TRY_ASSIGN(members, members_of(volume, set, operation));
  QUANTEM_TRY_ASSIGN(ops, detector_ops(volume));
  const Extent det = volume.shape().det;
  HostArray out;
  out.dtype = volume.dtype();
  out.shape = {det.rows, det.cols};
  QUANTEM_TRY_ASSIGN(buffer, allocate_buffer(det.count() * item_bytes(out.dtype), operation));
  out.buffer = std::move(buffer);
  QUANTEM_TRY_ASSIGN(path, ops->pattern_max(volume, members.positions, out.as<std::byte>(), job));
  if (volume.dtype() == Dtype::f32) {
    BitMask valid = volume.valid_pixels();
    const auto values = out.as<float>();
    for (std::uint64_t p = 0; p < det.count(); ++p)
      if (std::isnan(values[p])) valid.set(p, false);
    if (!valid.all()) out.valid_pixels = valid;
  } else {
    out.valid_pixels = pixels_with_values(volume, n_values(volume, members));
  }
  out.provenance = product_provenance(volume, operation, path, det, out.dtype, out.dtype);
  describe(out.provenance, members, set != nullptr);
  return out;
}

}  // namespace

Result<Pattern<std::uint64_t>> sum_pattern(const Volume& volume, const Job& job) {
  return sum_over(volume, nullptr, "sum_pattern", job);
}
Result<Pattern<double>> mean_pattern(const Volume& volume, const Job& job) {
  return mean_over(volume, nullptr, "mean_pattern", job);
}
Result<HostArray> max_pattern(const Volume& volume, const Job& job) {
  return max_over(volume, nullptr, "max_pattern", job);
}
Result<Pattern<std::uint64_t>> region_sum(const Volume& volume, const ScanSet& positions, const Job& job) {
  return sum_over(volume, &positions, "region_sum", job);
}
Result<Pattern<double>> region_mean(const Volume& volume, const ScanSet& positions, const Job& job) {
  return mean_over(volume, &positions, "region_mean", job);
}
Result<HostArray> region_max(const Volume& volume, const ScanSet& positions, const Job& job) {
  return max_over(volume, &positions, "region_max", job);
}

Result<HostArray> frame(const Volume& volume, Position position) {
  QUANTEM_TRY(volume.check_open());
  const Extent scan = volume.shape().scan, det = volume.shape().det;
  if (position.row >= scan.rows || position.col >= scan.cols)
    return Error{Code::invalid_argument,
                 "frame: position " + to_string(position) + " is outside the scan " + to_string(scan)};
  const std::uint64_t n = std::uint64_t{position.row} * scan.cols + position.col;
  if (!volume.valid_positions()[n])
    return Error{Code::missing_data, "frame: position " + to_string(position) + " has no frame; " +
                                         std::to_string(volume.valid_positions().n_set()) + " of " +
                                         std::to_string(scan.count()) + " positions have one"};
  QUANTEM_TRY_ASSIGN(ops, detector_ops(volume));
  HostArray out;
  out.dtype = volume.dtype();
  out.shape = {det.rows, det.cols};
  QUANTEM_TRY_ASSIGN(buffer, allocate_buffer(det.count() * item_bytes(out.dtype), "frame"));
  out.buffer = std::move(buffer);
  QUANTEM_TRY_ASSIGN(path, ops->frame(volume, n, out.as<std::byte>()));
  if (!volume.valid_pixels().all()) out.valid_pixels = volume.valid_pixels();
  out.provenance = product_provenance(volume, "frame", path, det, out.dtype, out.dtype);
  out.provenance.parameters.emplace_back(
      "position", std::vector<double>{static_cast<double>(position.row), static_cast<double>(position.col)});
  return out;
}

namespace {

// The first saturated count as an integer; none: more than any count.
std::uint64_t saturation_of(const Volume& volume) {
  const double from = volume.info().saturation;
  return from < 0x1p32 ? static_cast<std::uint64_t>(std::ceil(std::max(from, 0.0))) : std::uint64_t{1} << 32;
}

void summarise(const Volume& volume, FrameStatistics& s) {
  std::uint64_t n = 0;
  double sum = 0;
  for (std::uint64_t i = 0; i < s.total.size(); ++i) {
    if (!volume.valid_positions()[i]) {
      ++s.n_missing;
      continue;
    }
    const auto total = static_cast<double>(s.total[i]);
    s.total_min = n ? std::min(s.total_min, total) : total;
    s.total_max = n ? std::max(s.total_max, total) : total;
    s.n_zero_frames += s.total[i] == 0;
    sum += total;
    ++n;
  }
  s.total_mean = n ? sum / static_cast<double>(n) : 0;
}

}  // namespace

Result<FrameStatistics> frame_statistics(const Volume& volume, const Job& job) {
  QUANTEM_TRY(volume.check_open());
  if (!is_unsigned_count(volume.dtype()))
    return Error{Code::wrong_dtype, "frame_statistics: " + std::string(dtype_name(volume.dtype())) +
                                        " counts have no unsigned total; use masked_sum and max_pattern"};
  QUANTEM_TRY_ASSIGN(ops, detector_ops(volume));
  const std::uint64_t n = volume.shape().n_positions();
  FrameStatistics out;
  out.scan = volume.shape().scan;
  out.total.resize(n);
  out.max.resize(n);
  out.argmax.resize(n);
  out.n_nonzero.resize(n);
  out.n_saturated.resize(n);
  out.valid = volume.valid_positions();
  QUANTEM_TRY_ASSIGN(path, ops->frame_statistics(volume, saturation_of(volume), out, job));
  out.path = path;
  summarise(volume, out);
  return out;
}

}  // namespace quantem
