#include "quantem/detector/masked_sum.h"

#include <algorithm>
#include <cmath>

#include "quantem/detector/detector_ops.h"
#include "quantem/detector/moments_on_device.h"
#include "quantem/detector/product.h"

namespace quantem {
namespace {

using detector_detail::check_selection;
using detector_detail::described;
using detector_detail::finished;
using detector_detail::largest_count;
using detector_detail::mark_missing;
using detector_detail::rounded;

BitMask selected_pixels(const Volume& volume, const Mask& mask) {
  BitMask selected = mask.bits;
  selected &= volume.valid_pixels();
  return selected;
}

// Integer sums of several masks, images in one allocation each.
struct Sums {
  std::vector<BitMask> selected;
  std::vector<std::vector<std::uint64_t>> images;
  std::string_view path;
};

Result<Sums> integer_sums(const Volume& volume, std::span<const Mask> masks, const Job& job) {
  QUANTEM_TRY_ASSIGN(ops, detector_ops(volume));
  Sums out;
  std::vector<std::span<std::uint64_t>> spans;
  for (const Mask& m : masks) {
    out.selected.push_back(selected_pixels(volume, m));
    out.images.emplace_back(volume.shape().n_positions());
  }
  for (auto& image : out.images) spans.emplace_back(image);
  QUANTEM_TRY_ASSIGN(path, ops->masked_sums(volume, out.selected, spans, job));
  out.path = path;
  return out;
}

std::vector<std::int64_t> weights_of(const BitMask& selected) {
  std::vector<std::int64_t> w(selected.count());
  for (std::uint64_t p = 0; p < selected.count(); ++p) w[p] = selected[p];
  return w;
}

// Sums over f32 counts with integer weights.
struct RealSums {
  std::vector<std::vector<double>> images;
  std::string_view path;
};
Result<RealSums> real_sums(const Volume& volume, const std::vector<std::vector<std::int64_t>>& weights,
                           const Job& job) {
  QUANTEM_TRY_ASSIGN(ops, detector_ops(volume));
  RealSums out;
  std::vector<std::span<const std::int64_t>> weight_spans(weights.begin(), weights.end());
  std::vector<std::span<double>> spans;
  out.images.assign(weights.size(), std::vector<double>(volume.shape().n_positions()));
  for (auto& image : out.images) spans.emplace_back(image);
  QUANTEM_TRY_ASSIGN(path, ops->weighted_sums_real(volume, weight_spans, spans, job));
  out.path = path;
  return out;
}

struct IntegerSums {
  std::vector<std::vector<std::uint64_t>> images;
  std::string_view path;
};
Result<IntegerSums> weighted_sums(const Volume& volume, const std::vector<std::vector<std::int64_t>>& weights,
                                  const Job& job) {
  QUANTEM_TRY_ASSIGN(ops, detector_ops(volume));
  IntegerSums out;
  std::vector<std::span<const std::int64_t>> weight_spans(weights.begin(), weights.end());
  std::vector<std::span<std::uint64_t>> spans;
  out.images.assign(weights.size(), std::vector<std::uint64_t>(volume.shape().n_positions()));
  for (auto& image : out.images) spans.emplace_back(image);
  QUANTEM_TRY_ASSIGN(path, ops->weighted_sums(volume, weight_spans, spans, job));
  out.path = path;
  return out;
}

Error wrong_dtype(const Volume& volume, const std::string& text) {
  return Error{Code::wrong_dtype, text.substr(0, text.find(':')) + ": " + std::string(dtype_name(volume.dtype())) +
                                      text.substr(text.find(':') + 1)};
}

Result<Image<float>> masked_sum_real(const Volume& volume, const Mask& mask, const Job& job) {
  const BitMask selected = selected_pixels(volume, mask);
  QUANTEM_TRY_ASSIGN(sums, real_sums(volume, {weights_of(selected)}, job));
  std::vector<float> values(sums.images[0].begin(), sums.images[0].end());
  return finished(volume, std::move(values), "masked_sum", sums.path, Dtype::f64, mask.parameters, selected);
}

}  // namespace

Result<std::vector<Image<float>>> masked_sums(const Volume& volume, std::span<const Mask> masks, const Job& job) {
  QUANTEM_TRY(volume.check_open());
  for (const Mask& m : masks) QUANTEM_TRY(check_selection(volume, m.det, m.bits.count(), "masked_sum"));
  std::vector<Image<float>> images;
  if (volume.dtype() == Dtype::f32) {
    for (const Mask& m : masks) {
      QUANTEM_TRY_ASSIGN(image, masked_sum_real(volume, m, job));
      images.push_back(std::move(image));
    }
    return images;
  }
  QUANTEM_TRY_ASSIGN(ops, detector_ops(volume));
  if (ops->masked_sums_rounded) {
    std::vector<BitMask> selected;
    for (const Mask& m : masks) selected.push_back(selected_pixels(volume, m));
    std::vector<std::vector<float>> values(masks.size());
    const auto describe = [&] {  // takes as long as copying an image: done while the device sums
      for (std::size_t m = 0; m < masks.size(); ++m)
        images.push_back(described<float>(volume, "masked_sum", {}, Dtype::u64, masks[m].parameters, selected[m]));
    };
    QUANTEM_TRY_ASSIGN(path, ops->masked_sums_rounded(volume, selected, values, describe, job));
    for (std::size_t m = 0; m < masks.size(); ++m) {
      images[m].values = std::move(values[m]);
      images[m].provenance.path = path;
      mark_missing(volume, images[m]);
    }
    return images;
  }
  QUANTEM_TRY_ASSIGN(sums, integer_sums(volume, masks, job));
  const bool is_signed = is_signed_count(volume.dtype());
  for (std::size_t m = 0; m < masks.size(); ++m)
    images.push_back(finished(volume, rounded(sums.images[m], is_signed), "masked_sum", sums.path,
                              is_signed ? Dtype::i64 : Dtype::u64, masks[m].parameters, sums.selected[m]));
  return images;
}

Result<Image<float>> masked_sum(const Volume& volume, const Mask& mask, const Job& job) {
  QUANTEM_TRY_ASSIGN(images, masked_sums(volume, {&mask, 1}, job));
  return std::move(images[0]);
}

Result<Image<std::uint64_t>> masked_sum_exact(const Volume& volume, const Mask& mask, const Job& job) {
  QUANTEM_TRY(check_selection(volume, mask.det, mask.bits.count(), "masked_sum_exact"));
  if (volume.dtype() == Dtype::f32)
    return wrong_dtype(volume, "masked_sum_exact: has no exact integer sum; use masked_sum");
  if (is_signed_count(volume.dtype()))
    return wrong_dtype(volume, "masked_sum_exact: counts have signed sums; use masked_sum_signed");
  QUANTEM_TRY_ASSIGN(sums, integer_sums(volume, {&mask, 1}, job));
  return finished(volume, std::move(sums.images[0]), "masked_sum_exact", sums.path, Dtype::u64, mask.parameters,
                  sums.selected[0]);
}

Result<Image<std::int64_t>> masked_sum_signed(const Volume& volume, const Mask& mask, const Job& job) {
  QUANTEM_TRY(check_selection(volume, mask.det, mask.bits.count(), "masked_sum_signed"));
  if (!is_signed_count(volume.dtype()))
    return wrong_dtype(volume, volume.dtype() == Dtype::f32
                                   ? "masked_sum_signed: has no exact integer sum; use masked_sum"
                                   : "masked_sum_signed: counts have unsigned sums; use masked_sum_exact");
  QUANTEM_TRY_ASSIGN(sums, integer_sums(volume, {&mask, 1}, job));
  std::vector<std::int64_t> values(sums.images[0].size());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int64_t>(sums.images[0][i]);
  return finished(volume, std::move(values), "masked_sum_signed", sums.path, Dtype::i64, mask.parameters,
                  sums.selected[0]);
}

namespace {

// q at valid pixels, 0 at bad ones.
std::vector<std::int64_t> valid_weights(const Volume& volume, const Weights& weights, BitMask& selected) {
  std::vector<std::int64_t> w(weights.q.size());
  selected = BitMask(w.size());
  for (std::uint64_t p = 0; p < w.size(); ++p)
    if (weights.q[p] != 0 && volume.valid_pixels()[p]) w[p] = weights.q[p], selected.set(p);
  return w;
}

// |sum of q * I| stays below 2^63 when 2^15 * count_max * n does; the factor leaves room for a moment's coordinate.
Result<Done> check_weighted_range(const Volume& volume, std::uint64_t n_pixels, double factor, const char* operation) {
  if (volume.dtype() == Dtype::f32) return Done{};
  const double bound = 32768.0 * largest_count(volume) * static_cast<double>(n_pixels) * factor;
  if (bound < 0x1p63) return Done{};
  return Error{Code::invalid_argument, std::string(operation) +
                                           ": 2^15 * count_max * n_pixels = " + std::to_string(bound) +
                                           " reaches 2^63: the exact sum does not fit 64 bits; use fewer pixels"};
}

}  // namespace

Result<Image<float>> weighted_sum(const Volume& volume, const Weights& weights, const Job& job) {
  QUANTEM_TRY(check_selection(volume, weights.det, weights.q.size(), "weighted_sum"));
  BitMask selected;
  const std::vector<std::vector<std::int64_t>> w{valid_weights(volume, weights, selected)};
  QUANTEM_TRY(check_weighted_range(volume, selected.n_set(), 1, "weighted_sum"));
  std::vector<float> values(volume.shape().n_positions());
  std::string_view path;
  if (volume.dtype() == Dtype::f32) {
    QUANTEM_TRY_ASSIGN(sums, real_sums(volume, w, job));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(weights.step * sums.images[0][i]);
    path = sums.path;
  } else {
    QUANTEM_TRY_ASSIGN(sums, weighted_sums(volume, w, job));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(weights.step * static_cast<double>(static_cast<std::int64_t>(sums.images[0][i])));
    path = sums.path;
  }
  const Parameters parameters{
      {"shape", std::string("weights")}, {"step", weights.step}, {"weights_exact", weights.exact}};
  return finished(volume, std::move(values), "weighted_sum", path,
                  volume.dtype() == Dtype::f32 ? Dtype::f64 : Dtype::i64, parameters, selected);
}

namespace {

BitMask moment_selection(const Volume& volume, const Mask* mask) {
  return mask ? selected_pixels(volume, *mask) : volume.valid_pixels();
}

Result<Done> check_moment_mask(const Volume& volume, const Mask* mask) {
  QUANTEM_TRY(volume.check_open());
  if (mask) return check_selection(volume, mask->det, mask->bits.count(), "moment_sums");
  return Done{};
}

// Sum over selected pixels of the larger coordinate, at least 1 each, times the largest count: no moment is larger.
double moment_bound(const Volume& volume, const BitMask& selected) {
  const std::uint32_t det_cols = volume.shape().det.cols;
  std::uint64_t coordinates = 0;
  for (std::uint64_t p = 0; p < selected.count(); ++p)
    if (selected[p]) coordinates += std::max<std::uint64_t>({p / det_cols, p % det_cols, 1});
  return static_cast<double>(coordinates) * largest_count(volume);
}

Result<Done> check_moment_range(const Volume& volume, const BitMask& selected, double limit) {
  // A quick bound first: it decides for every real acquisition.
  const Extent det = volume.shape().det;
  const double quick = static_cast<double>(det.count()) * std::max(det.rows, det.cols) * largest_count(volume);
  if (quick < limit || moment_bound(volume, selected) < limit) return Done{};
  return Error{Code::invalid_argument, "moment_sums: count_max " + std::to_string(largest_count(volume)) + " over " +
                                           std::to_string(selected.n_set()) +
                                           " pixels can pass 64 bits; select fewer pixels or crop the detector"};
}

// Weights of the three moments.
std::vector<std::vector<std::int64_t>> moment_weights(const std::vector<std::int64_t>& w, Extent det) {
  std::vector<std::vector<std::int64_t>> out{w, w, w};
  for (std::uint64_t p = 0; p < w.size(); ++p) {
    out[1][p] *= static_cast<std::int64_t>(p / det.cols);
    out[2][p] *= static_cast<std::int64_t>(p % det.cols);
  }
  return out;
}

std::vector<std::int64_t> as_signed(const std::vector<std::uint64_t>& v) {
  std::vector<std::int64_t> out(v.size());
  std::transform(v.begin(), v.end(), out.begin(), [](std::uint64_t x) { return static_cast<std::int64_t>(x); });
  return out;
}

}  // namespace

Result<MomentSums> moment_sums(const Volume& volume, const Mask* mask, const Job& job) {
  QUANTEM_TRY(check_moment_mask(volume, mask));
  if (!is_unsigned_count(volume.dtype()))
    return wrong_dtype(volume, "moment_sums: counts are not unsigned; use moment_sums_signed or moment_sums_real");
  const BitMask selected = moment_selection(volume, mask);
  QUANTEM_TRY(check_moment_range(volume, selected, 0x1p64));
  QUANTEM_TRY_ASSIGN(ops, detector_ops(volume));
  const std::uint64_t n = volume.shape().n_positions();
  MomentSums out{volume.shape().scan,
                 std::vector<std::uint64_t>(n),
                 std::vector<std::uint64_t>(n),
                 std::vector<std::uint64_t>(n),
                 {}};
  QUANTEM_TRY_ASSIGN(path, ops->moment_sums(volume, selected, out.total, out.row, out.col, job));
  out.path = path;
  return out;
}

Result<MomentsOnDevice> MomentsOnDevice::open(const Volume& volume, const Mask* mask, const Job& job) {
  QUANTEM_TRY(check_moment_mask(volume, mask));
  if (!volume.sliced_device())
    return Error{Code::unsupported, "moments on the device: the counts are " +
                                        std::string(representation_name(volume.representation())) + " on '" +
                                        volume.device().label() +
                                        "'; load them encoded with backend='cuda', or take moment_sums()"};
  const BitMask selected = moment_selection(volume, mask);
  QUANTEM_TRY(check_moment_range(volume, selected, 0x1p64));
  return open_selected(volume, selected, job);
}

Result<SignedMomentSums> moment_sums_signed(const Volume& volume, const Mask* mask, const Job& job) {
  QUANTEM_TRY(check_moment_mask(volume, mask));
  if (!is_signed_count(volume.dtype()))
    return wrong_dtype(volume,
                       "moment_sums_signed: counts are not signed integers; use moment_sums or moment_sums_real");
  const BitMask selected = moment_selection(volume, mask);
  QUANTEM_TRY(check_moment_range(volume, selected, 0x1p63));
  QUANTEM_TRY_ASSIGN(sums, weighted_sums(volume, moment_weights(weights_of(selected), volume.shape().det), job));
  return SignedMomentSums{volume.shape().scan, as_signed(sums.images[0]), as_signed(sums.images[1]),
                          as_signed(sums.images[2]), std::string(sums.path)};
}

Result<SignedMomentSums> moment_sums_weighted(const Volume& volume, const Weights& weights, const Job& job) {
  QUANTEM_TRY(check_selection(volume, weights.det, weights.q.size(), "moment_sums_weighted"));
  if (volume.dtype() == Dtype::f32)
    return wrong_dtype(volume, "moment_sums_weighted: has no exact integer sum; use a binary mask");
  BitMask selected;
  const std::vector<std::int64_t> w = valid_weights(volume, weights, selected);
  const Extent det = volume.shape().det;
  QUANTEM_TRY(check_weighted_range(volume, selected.n_set(), std::max(det.rows, det.cols), "moment_sums_weighted"));
  QUANTEM_TRY_ASSIGN(sums, weighted_sums(volume, moment_weights(w, det), job));
  return SignedMomentSums{volume.shape().scan, as_signed(sums.images[0]), as_signed(sums.images[1]),
                          as_signed(sums.images[2]), std::string(sums.path)};
}

Result<RealMomentSums> moment_sums_real(const Volume& volume, const Mask* mask, const Job& job) {
  QUANTEM_TRY(check_moment_mask(volume, mask));
  if (volume.dtype() != Dtype::f32)
    return wrong_dtype(volume, "moment_sums_real: counts are integers; use moment_sums or moment_sums_signed");
  const BitMask selected = moment_selection(volume, mask);
  QUANTEM_TRY_ASSIGN(sums, real_sums(volume, moment_weights(weights_of(selected), volume.shape().det), job));
  // A sample that is not finite has weight 0 in a moment along row 0 or column 0: the total knows of it.
  for (std::size_t n = 0; n < sums.images[0].size(); ++n)
    if (std::isnan(sums.images[0][n])) sums.images[1][n] = sums.images[2][n] = sums.images[0][n];
  return RealMomentSums{volume.shape().scan, std::move(sums.images[0]), std::move(sums.images[1]),
                        std::move(sums.images[2]), std::string(sums.path)};
}

}  // namespace quantem
