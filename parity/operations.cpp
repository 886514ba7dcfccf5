// Operations of the parity table: how to call each, and the plain loops that say what is right.

#include <cmath>
#include <limits>
#include <numeric>

#include "parity/guarded.h"
#include "parity/idpc.h"
#include "parity/table.h"
#include "quantem/detector/detector_ops.h"
#include "quantem/detector/geometry.h"
#include "quantem/detector/masked_sum.h"
#include "quantem/detector/mean_pattern.h"
#include "quantem/detector/scan_set.h"
#include "quantem/detector/series.h"
#include "quantem/dpc/com.h"

namespace quantem::parity {
namespace {

using U64 = std::vector<std::uint64_t>;
using I64 = std::vector<std::int64_t>;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Masks of a detector shape: a disc off the centre, an annulus that is cut by the edge, a half-plane, all, none.
std::vector<Mask> masks_of(Extent det) {
  const Point center{0.41 * det.rows, 0.57 * det.cols};
  const double span = std::max(det.rows, det.cols);
  std::vector<Mask> masks;
  masks.push_back(*disk(center, 0.21 * span + 0.5, det));
  masks.push_back(*annulus(center, 0.3 * span, 0.62 * span + 1, det));
  masks.push_back(*half_plane(center, 20, det));
  masks.push_back(all_pixels(det));
  masks.push_back(*disk({-10.0 * span, 0}, 1, det));
  return masks;
}
ScanSet positions_of(const Truth& t) {  // about half of the positions; always the first valid one
  BitMask members(t.shape.n_positions());
  bool any = false;
  for (std::uint64_t n = 0; n < members.count(); ++n)
    if ((n * 2654435761u >> 7 & 1) || (!any && t.valid_positions[n])) members.set(n), any |= t.valid_positions[n];
  return *scan_set(members, t.shape.scan);
}

bool is_selected(const Truth& t, const Mask& mask, std::uint64_t p) {
  return mask.bits[p] && t.valid_pixels[p];
}
double sum_over(const Truth& t, std::uint64_t n, const Mask& mask) {
  double sum = 0;  // counts below 2^32 and fewer than 2^20 pixels in every row: exact
  for (std::uint64_t p = 0; p < t.shape.frame_pixels(); ++p)
    if (is_selected(t, mask, p)) sum += t.at(n, p);
  return sum;
}

// --- masked sums -----------------------------------------------------------------------------------------------------------
std::vector<Output> oracle_masked_sum_exact(const Truth& t) {
  std::vector<Output> out;
  for (const Mask& mask : masks_of(t.shape.det)) {
    U64 image;
    for (std::uint64_t n = 0; n < t.shape.n_positions(); ++n)
      image.push_back(t.valid_positions[n] ? static_cast<std::uint64_t>(sum_over(t, n, mask)) : ~std::uint64_t{0});
    out.emplace_back(image);
  }
  return out;
}
std::vector<Output> oracle_masked_sum_signed(const Truth& t) {
  std::vector<Output> out;
  for (const Mask& mask : masks_of(t.shape.det)) {
    I64 image;
    for (std::uint64_t n = 0; n < t.shape.n_positions(); ++n)
      image.push_back(t.valid_positions[n] ? static_cast<std::int64_t>(sum_over(t, n, mask))
                                           : std::numeric_limits<std::int64_t>::max());
    out.emplace_back(image);
  }
  return out;
}
std::vector<Output> oracle_masked_sum(const Truth& t) {
  std::vector<Output> out;
  for (const Mask& mask : masks_of(t.shape.det)) {
    std::vector<float> image;
    for (std::uint64_t n = 0; n < t.shape.n_positions(); ++n)
      image.push_back(t.valid_positions[n] ? static_cast<float>(sum_over(t, n, mask)) : kNan);
    out.emplace_back(image);
  }
  return out;
}
template <class Call>
Result<Outcome> each_mask(const Volume& v, Call call) {
  Outcome outcome;
  for (const Mask& mask : masks_of(v.shape().det)) {
    QUANTEM_TRY_ASSIGN(image, call(v, mask, Job{}));
    outcome.path = image.provenance.path;
    outcome.outputs.emplace_back(std::move(image.values));
  }
  return outcome;
}
Result<Outcome> run_masked_sum_exact(const Volume& v, const Truth&) {
  return each_mask(v, masked_sum_exact);
}
Result<Outcome> run_masked_sum_signed(const Volume& v, const Truth&) {
  return each_mask(v, masked_sum_signed);
}
Result<Outcome> run_masked_sum(const Volume& v, const Truth&) {
  return each_mask(
      v, [](const Volume& volume, const Mask& mask, const Job& job) { return masked_sum(volume, mask, job); });
}
Result<Outcome> run_masked_sums(const Volume& v, const Truth&) {
  const std::vector<Mask> masks = masks_of(v.shape().det);
  QUANTEM_TRY_ASSIGN(images, masked_sums(v, masks));
  Outcome outcome;
  for (Image<float>& image : images) {
    outcome.path = image.provenance.path;
    outcome.outputs.emplace_back(std::move(image.values));
  }
  return outcome;
}

// --- a series --------------------------------------------------------------------------------------------------------------
// The acquisition, the low bytes of its counts as another dtype, storage and scan shape, and the acquisition again.
double low_byte(double count) {
  return static_cast<double>(static_cast<std::uint64_t>(static_cast<std::int64_t>(count)) & 0xff);
}
std::vector<Output> oracle_series(const Truth& t) {
  Truth low{t.shape, t.dtype, Buffer(), t.values, t.valid_pixels, t.valid_positions, t.seed};
  for (double& count : low.values) count = low_byte(count);
  const std::vector<Output> images = oracle_masked_sum(t), low_images = oracle_masked_sum(low);
  std::vector<Output> out{images[0], low_images[0], images[0]};  // the first mask alone, then all of them
  for (std::size_t m = 0; m < images.size(); ++m)
    for (const std::vector<Output>* from : {&images, &low_images, &images}) out.push_back((*from)[m]);
  return out;
}
Result<Outcome> run_series(const Volume& v, const Truth& t) {
  std::vector<std::uint8_t> bytes;
  for (const double count : t.values) bytes.push_back(static_cast<std::uint8_t>(low_byte(count)));
  FromArrayOptions options;
  options.valid_pixels = t.valid_pixels, options.valid_positions = t.valid_positions;
  const Shape4& s = t.shape;
  Series series;
  QUANTEM_TRY(series.add("itself", v));
  QUANTEM_TRY(series.add(
      "low bytes",
      from_array(v.device(), {Dtype::u8, {s.n_positions(), 1, s.det.rows, s.det.cols}, bytes.data()}, options)));
  QUANTEM_TRY(series.add("again", v));
  const std::vector<Mask> masks = masks_of(s.det);
  QUANTEM_TRY_ASSIGN(one, masked_sum(series, masks[0]));
  QUANTEM_TRY_ASSIGN(all, masked_sums(series, masks));
  Outcome outcome{{}, one[0].provenance.path};
  for (Image<float>& image : one) outcome.outputs.emplace_back(std::move(image.values));
  for (std::vector<Image<float>>& images : all)
    for (Image<float>& image : images) outcome.outputs.emplace_back(std::move(image.values));
  return outcome;
}

// --- weights ---------------------------------------------------------------------------------------------------------------
std::vector<double> weights_of(Extent det) {  // multiples of 1/8 between -4 and 4: exact in fixed point
  std::vector<double> w;
  for (std::uint64_t p = 0; p < det.count(); ++p) w.push_back(static_cast<double>(p * 37 % 65) / 8 - 4);
  return w;
}
std::vector<Output> oracle_weighted_sum(const Truth& t) {
  const std::vector<double> w = weights_of(t.shape.det);
  std::vector<float> image;
  for (std::uint64_t n = 0; n < t.shape.n_positions(); ++n) {
    double sum = 0;  // weights and float counts are multiples of 1/8: exact in double
    for (std::uint64_t p = 0; p < w.size(); ++p)
      if (t.valid_pixels[p]) sum += w[p] * t.at(n, p);
    image.push_back(t.valid_positions[n] ? static_cast<float>(sum) : kNan);
  }
  return {image};
}
Result<Outcome> run_weighted_sum(const Volume& v, const Truth&) {
  const std::vector<double> w = weights_of(v.shape().det);
  QUANTEM_TRY_ASSIGN(weights, weights_from(w, v.shape().det));
  QUANTEM_TRY_ASSIGN(image, weighted_sum(v, weights));
  return Outcome{{std::move(image.values)}, image.provenance.path};
}

// --- moments and centre of mass --------------------------------------------------------------------------------------------
struct Moments {
  U64 total, row, col;
};
Moments moments_of(const Truth& t, const Mask& mask) {
  Moments m;
  const std::uint32_t cols = t.shape.det.cols;
  for (std::uint64_t n = 0; n < t.shape.n_positions(); ++n) {
    std::uint64_t total = 0, row = 0, col = 0;
    for (std::uint64_t p = 0; p < t.shape.frame_pixels(); ++p)
      if (is_selected(t, mask, p)) {
        const auto count = static_cast<std::uint64_t>(t.at(n, p));
        total += count, row += p / cols * count, col += p % cols * count;
      }
    m.total.push_back(total), m.row.push_back(row), m.col.push_back(col);
  }
  return m;
}
std::vector<Output> oracle_moment_sums(const Truth& t) {
  std::vector<Output> out;
  const std::vector<Mask> masks = masks_of(t.shape.det);
  for (const Mask* mask : {&masks[3], &masks[0], &masks[1]}) {
    Moments m = moments_of(t, *mask);
    for (U64* sums : {&m.total, &m.row, &m.col}) out.emplace_back(std::move(*sums));
  }
  return out;
}
Result<Outcome> run_moment_sums(const Volume& v, const Truth&) {
  Outcome outcome;
  const std::vector<Mask> masks = masks_of(v.shape().det);
  for (const Mask* mask : {static_cast<const Mask*>(nullptr), &masks[0], &masks[1]}) {
    QUANTEM_TRY_ASSIGN(m, moment_sums(v, mask));
    outcome.path = m.path;
    for (U64* sums : {&m.total, &m.row, &m.col}) outcome.outputs.emplace_back(std::move(*sums));
  }
  return outcome;
}
std::vector<Output> oracle_center_of_mass(const Truth& t) {
  const std::vector<Mask> masks = masks_of(t.shape.det);
  std::vector<Output> out;
  for (const Mask* mask : {&masks[3], &masks[0]}) {
    std::vector<float> row, col;
    for (std::uint64_t n = 0; n < t.shape.n_positions(); ++n) {
      double total = 0, r = 0, c = 0;
      for (std::uint64_t p = 0; p < t.shape.frame_pixels(); ++p)
        if (is_selected(t, *mask, p)) {
          total += t.at(n, p);
          r += static_cast<double>(p / t.shape.det.cols) * t.at(n, p);
          c += static_cast<double>(p % t.shape.det.cols) * t.at(n, p);
        }
      const bool defined = t.valid_positions[n] && total > 0;
      row.push_back(defined ? static_cast<float>(r / total) : kNan);
      col.push_back(defined ? static_cast<float>(c / total) : kNan);
    }
    out.emplace_back(row), out.emplace_back(col);
  }
  return out;
}
Result<Outcome> run_center_of_mass(const Volume& v, const Truth&) {
  const std::vector<Mask> masks = masks_of(v.shape().det);
  Outcome outcome;
  for (const Mask* mask : {static_cast<const Mask*>(nullptr), &masks[0]}) {
    QUANTEM_TRY_ASSIGN(maps, center_of_mass(v, mask));
    outcome.path = maps.row.provenance.path;
    outcome.outputs.emplace_back(std::move(maps.row.values));
    outcome.outputs.emplace_back(std::move(maps.col.values));
  }
  return outcome;
}

// --- patterns --------------------------------------------------------------------------------------------------------------
template <class Keep>
std::vector<double> sums_over(const Truth& t, Keep keep, std::vector<double>* largest, std::uint64_t* n_members) {
  std::vector<double> sum(t.shape.frame_pixels());
  if (largest) largest->assign(sum.size(), -std::numeric_limits<double>::infinity());
  *n_members = 0;
  for (std::uint64_t n = 0; n < t.shape.n_positions(); ++n) {
    if (!t.valid_positions[n] || !keep(n)) continue;
    ++*n_members;
    for (std::uint64_t p = 0; p < sum.size(); ++p) {
      sum[p] += t.at(n, p);
      if (largest) (*largest)[p] = std::max((*largest)[p], t.at(n, p));
    }
  }
  if (largest)
    for (std::uint64_t p = 0; p < sum.size(); ++p)
      if (!t.valid_pixels[p]) (*largest)[p] = 0;
  return sum;
}
constexpr auto kEvery = [](std::uint64_t) { return true; };
U64 to_u64(const std::vector<double>& v) {
  return {v.begin(), v.end()};
}

std::vector<Output> oracle_sum_pattern(const Truth& t) {
  std::uint64_t n = 0;
  return {to_u64(sums_over(t, kEvery, nullptr, &n))};
}
std::vector<Output> oracle_mean_pattern(const Truth& t) {
  std::uint64_t n = 0;
  std::vector<double> mean = sums_over(t, kEvery, nullptr, &n);
  for (double& m : mean) m /= static_cast<double>(n);
  return {mean};
}
std::vector<double> as_doubles(const HostArray& a) {
  return visit_count_dtype(a.dtype, [&]<class T>() {
    const auto s = a.as<T>();
    return std::vector<double>(s.begin(), s.end());
  });
}
std::vector<Output> oracle_max_pattern(const Truth& t) {
  std::uint64_t n = 0;
  std::vector<double> largest;
  sums_over(t, kEvery, &largest, &n);
  return {largest};
}
std::vector<Output> oracle_region(const Truth& t) {
  const ScanSet set = positions_of(t);
  std::uint64_t n = 0;
  std::vector<double> largest;
  const auto keep = [&](std::uint64_t i) { return set.members[i]; };
  const std::vector<double> sum = sums_over(t, keep, &largest, &n);
  std::vector<double> mean = sum;
  for (double& m : mean) m /= static_cast<double>(n);
  return {mean, largest};
}
Result<Outcome> run_sum_pattern(const Volume& v, const Truth&) {
  QUANTEM_TRY_ASSIGN(p, sum_pattern(v));
  return Outcome{{std::move(p.values)}, p.provenance.path};
}
Result<Outcome> run_mean_pattern(const Volume& v, const Truth& t) {
  QUANTEM_TRY_ASSIGN(p, mean_pattern(v));
  for (std::uint64_t i = 0; i < p.values.size(); ++i)
    if (!t.valid_pixels[i]) p.values[i] = 0;  // whatever stands at a bad pixel is not a value
  return Outcome{{std::move(p.values)}, p.provenance.path};
}
Result<Outcome> run_max_pattern(const Volume& v, const Truth&) {
  QUANTEM_TRY_ASSIGN(p, max_pattern(v));
  return Outcome{{as_doubles(p)}, p.provenance.path};
}
Result<Outcome> run_region(const Volume& v, const Truth& t) {
  const ScanSet set = positions_of(t);
  QUANTEM_TRY_ASSIGN(mean, region_mean(v, set));
  QUANTEM_TRY_ASSIGN(largest, region_max(v, set));
  for (std::uint64_t i = 0; i < mean.values.size(); ++i)
    if (!t.valid_pixels[i]) mean.values[i] = 0;
  return Outcome{{std::move(mean.values), as_doubles(largest)}, mean.provenance.path};
}

// --- single frames, reads, statistics --------------------------------------------------------------------------------------
std::vector<Output> oracle_frame(const Truth& t) {
  const std::uint64_t n = [&] {
    std::uint64_t i = t.shape.n_positions();
    while (i > 0 && !t.valid_positions[i - 1]) --i;
    return i - 1;
  }();
  std::vector<double> f;
  for (std::uint64_t p = 0; p < t.shape.frame_pixels(); ++p) f.push_back(t.at(n, p));
  return {f};
}
Result<Outcome> run_frame(const Volume& v, const Truth& t) {
  std::uint64_t n = t.shape.n_positions();
  while (n > 0 && !t.valid_positions[n - 1]) --n;
  --n;
  const std::uint32_t cols = t.shape.scan.cols;
  QUANTEM_TRY_ASSIGN(f, frame(v, {static_cast<std::uint32_t>(n / cols), static_cast<std::uint32_t>(n % cols)}));
  return Outcome{{as_doubles(f)}, f.provenance.path};
}
Region part_of(Extent e) {  // the last two thirds, starting off a word's edge
  return {e.rows / 3, e.rows, e.cols / 3, e.cols};
}
std::vector<Output> oracle_read(const Truth& t) {
  const Region s = part_of(t.shape.scan), d = part_of(t.shape.det);
  std::vector<double> out;
  for (std::uint32_t sr = s.row_start; sr < s.row_stop; ++sr)
    for (std::uint32_t sc = s.col_start; sc < s.col_stop; ++sc)
      for (std::uint32_t dr = d.row_start; dr < d.row_stop; ++dr)
        for (std::uint32_t dc = d.col_start; dc < d.col_stop; ++dc)
          out.push_back(t.at(std::uint64_t{sr} * t.shape.scan.cols + sc, std::uint64_t{dr} * t.shape.det.cols + dc));
  return {out};
}
Result<Outcome> run_read(const Volume& v, const Truth& t) {
  ReadOptions options;
  options.fill = 0;
  QUANTEM_TRY_ASSIGN(a, read(v, part_of(t.shape.scan), part_of(t.shape.det), options));
  return Outcome{{as_doubles(a)}, a.provenance.path};
}
std::vector<Output> oracle_frame_statistics(const Truth& t) {
  U64 total, largest, where, nonzero;
  for (std::uint64_t n = 0; n < t.shape.n_positions(); ++n) {
    double sum = 0, top = 0;
    std::uint64_t at = 0, n_nonzero = 0;
    bool first = true;
    for (std::uint64_t p = 0; p < t.shape.frame_pixels(); ++p) {
      if (!t.valid_pixels[p]) continue;
      const double x = t.at(n, p);
      sum += x, n_nonzero += x != 0;
      if (first || x > top) top = x, at = p, first = false;
    }
    if (!t.valid_positions[n]) sum = top = 0, at = 0, n_nonzero = 0;
    total.push_back(static_cast<std::uint64_t>(sum)), largest.push_back(static_cast<std::uint64_t>(top));
    where.push_back(at), nonzero.push_back(n_nonzero);
  }
  return {total, largest, where, nonzero};
}
Result<Outcome> run_frame_statistics(const Volume& v, const Truth& t) {
  QUANTEM_TRY_ASSIGN(s, frame_statistics(v));
  U64 largest(s.max.size()), where(s.argmax.begin(), s.argmax.end()), nonzero(s.n_nonzero.begin(), s.n_nonzero.end());
  for (std::uint64_t n = 0; n < largest.size(); ++n) {
    largest[n] = t.valid_positions[n] ? static_cast<std::uint64_t>(s.max[n]) : 0;
    if (!t.valid_positions[n]) where[n] = nonzero[n] = s.total[n] = 0;  // no value: whatever stands there
  }
  return Outcome{{std::move(s.total), largest, where, nonzero}, s.path};
}

// --- writes stay inside ----------------------------------------------------------------------------------------------------
// The functions of the backends themselves, whose outputs are the caller's memory. At missing positions they write 0.
BitMask selected_of(const Volume& v, const Mask& mask) {
  BitMask bits = mask.bits;
  bits &= v.valid_pixels();
  return bits;
}
std::vector<std::int64_t> integer_weights(Extent det) {
  std::vector<std::int64_t> weights;
  for (const double w : weights_of(det)) weights.push_back(static_cast<std::int64_t>(8 * w));
  return weights;
}
std::vector<Output> oracle_guarded(const Truth& t) {
  const std::vector<Mask> masks = masks_of(t.shape.det);
  std::vector<Output> out;
  for (const Mask* mask : {&masks[0], &masks[1], &masks[2]}) out.emplace_back(moments_of(t, *mask).total);
  U64 weighted;
  const std::vector<std::int64_t> weights = integer_weights(t.shape.det);
  for (std::uint64_t n = 0; n < t.shape.n_positions(); ++n) {
    std::uint64_t sum = 0;  // modulo 2^64, as the operation's
    for (std::uint64_t p = 0; p < weights.size(); ++p)
      sum += static_cast<std::uint64_t>(weights[p]) * static_cast<std::uint64_t>(t.at(n, p));
    weighted.push_back(sum);
  }
  out.emplace_back(weighted);
  Moments m = moments_of(t, masks[0]);
  for (U64* sums : {&m.total, &m.row, &m.col}) out.emplace_back(std::move(*sums));
  const ScanSet set = positions_of(t);
  std::uint64_t n = 0;
  out.emplace_back(to_u64(sums_over(
      t, [&](std::uint64_t i) { return set.members[i]; }, nullptr, &n)));
  return out;
}
Result<Outcome> run_guarded(const Volume& v, const Truth& t) {
  if (!is_unsigned_count(v.dtype())) return Error{Code::wrong_dtype, "this row is of unsigned counts"};
  QUANTEM_TRY_ASSIGN(ops, detector_ops(v));
  const std::vector<Mask> masks = masks_of(v.shape().det);
  const BitMask selected[] = {selected_of(v, masks[0]), selected_of(v, masks[1]), selected_of(v, masks[2])};
  std::vector<Guarded<std::uint64_t>> images(7, Guarded<std::uint64_t>(v.shape().n_positions()));
  Guarded<std::uint64_t> pattern(v.shape().frame_pixels());
  const std::span<std::uint64_t> sums[] = {images[0].span(), images[1].span()};
  QUANTEM_TRY(ops->masked_sums(v, {selected, 2}, {sums, 2}, Job{}));
  std::copy(sums[1].begin(), sums[1].end(), images[2].span().begin());
  QUANTEM_TRY(ops->move_sum(v, selected[1], selected[2], images[2].span(), Job{}));
  const std::vector<std::int64_t> weights = integer_weights(v.shape().det);
  const std::span<const std::int64_t> weights_span(weights);
  const std::span<std::uint64_t> weighted = images[3].span();
  QUANTEM_TRY(ops->weighted_sums(v, {&weights_span, 1}, {&weighted, 1}, Job{}));
  QUANTEM_TRY(ops->moment_sums(v, selected[0], images[4].span(), images[5].span(), images[6].span(), Job{}));
  BitMask members = positions_of(t).members;
  members &= v.valid_positions();
  QUANTEM_TRY_ASSIGN(path, ops->pattern_sum(v, members, pattern.span(), Job{}));
  Guarded<std::byte> largest(v.shape().frame_pixels() * item_bytes(v.dtype())), frame = largest;
  QUANTEM_TRY(ops->pattern_max(v, members, largest.span(), Job{}));
  QUANTEM_TRY(ops->frame(v, 0, frame.span()));
  bool intact = pattern.intact() && largest.intact() && frame.intact();
  Outcome outcome{{}, std::string(path)};
  for (Guarded<std::uint64_t>& image : images) {
    intact = intact && image.intact();
    outcome.outputs.emplace_back(image.values());
  }
  outcome.outputs.emplace_back(pattern.values());
  if (!intact) return Error{Code::internal, "a guard word around an output was written"};
  return outcome;
}

// --- what a column must do -------------------------------------------------------------------------------------------------
Expect storage(Column column, Dtype dtype) {
  const bool encoded = column == Column::cpu_encoded || column == Column::cuda_encoded;
  return encoded && !is_unsigned_count(dtype) ? Expect::unsupported : Expect::runs;
}
Expect any_dtype(Column column, Dtype dtype, const Shape4&) {
  return storage(column, dtype);
}
Expect unsigned_only(Column column, Dtype dtype, const Shape4&) {
  const Expect stored = storage(column, dtype);
  return stored != Expect::runs || is_unsigned_count(dtype) ? stored : Expect::wrong_dtype;
}
// 2^15 * largest count * pixels with a weight (64 of 65, see weights_of) must stay below 2^63: u32 counts on more than 2^16 such pixels do
// not, nor i32 counts on twice as many.
Expect weights_fit(Column column, Dtype dtype, const Shape4& shape) {
  const Expect stored = storage(column, dtype);
  const std::uint64_t n = shape.frame_pixels() * 64 / 65;
  const bool pass = (dtype == Dtype::u32 && n > 65536) || (dtype == Dtype::i32 && n > 131072);
  return stored == Expect::runs && pass ? Expect::invalid : stored;
}
Expect signed_only(Column column, Dtype dtype, const Shape4&) {
  const Expect stored = storage(column, dtype);
  return stored != Expect::runs || is_signed_count(dtype) ? stored : Expect::wrong_dtype;
}
Expect two_dimensional_scan(Column column, Dtype dtype, const Shape4& shape) {
  const Expect stored = storage(column, dtype);
  return stored == Expect::runs && (shape.scan.rows < 2 || shape.scan.cols < 2) ? Expect::invalid : stored;
}

}  // namespace

const std::vector<Operation>& operations() {
  static const std::vector<Operation> kOperations = {
      {"masked_sum_exact", 0, run_masked_sum_exact, oracle_masked_sum_exact, unsigned_only},
      {"masked_sum_signed", 0, run_masked_sum_signed, oracle_masked_sum_signed, signed_only},
      {"masked_sum", 0, run_masked_sum, oracle_masked_sum, any_dtype},
      {"masked_sums", 0, run_masked_sums, oracle_masked_sum, any_dtype},
      {"masked_sum of a series", 0, run_series, oracle_series, any_dtype},
      {"weighted_sum", 0, run_weighted_sum, oracle_weighted_sum, weights_fit},
      {"moment_sums", 0, run_moment_sums, oracle_moment_sums, unsigned_only},
      {"center_of_mass", 0, run_center_of_mass, oracle_center_of_mass, any_dtype},
      {"idpc", 1e-5, run_idpc, oracle_idpc, two_dimensional_scan},
      {"sum_pattern", 0, run_sum_pattern, oracle_sum_pattern, unsigned_only},
      {"mean_pattern", 0, run_mean_pattern, oracle_mean_pattern, any_dtype},
      {"max_pattern", 0, run_max_pattern, oracle_max_pattern, any_dtype},
      {"region_mean, region_max", 0, run_region, oracle_region, any_dtype},
      {"frame", 0, run_frame, oracle_frame, any_dtype},
      {"read", 0, run_read, oracle_read, any_dtype},
      {"frame_statistics", 0, run_frame_statistics, oracle_frame_statistics, unsigned_only},
      {"outputs between guard words", 0, run_guarded, oracle_guarded, unsigned_only},
  };
  return kOperations;
}

}  // namespace quantem::parity
