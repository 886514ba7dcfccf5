#include "quantem/detector/session.h"

#include <bit>
#include <mutex>
#include <optional>

#include "quantem/detector/detector_ops.h"
#include "quantem/detector/product.h"

namespace quantem {
namespace {

// A product that was there already says so: `cached` is evidence (docs/contract.md, C72), its numbers are the same.
template <class Product>
Product cached(Product product) {
  product.provenance.add_evidence("cached");
  return product;
}

// An exact image and the pixels that it sums.
struct MaskedImage {
  BitMask selected;
  std::vector<std::uint64_t> sums;  // signed counts: two's complement; 0 at missing positions
  std::string_view path;            // that made it
};

std::uint64_t n_changed(const BitMask& a, const BitMask& b) {
  std::uint64_t n = 0;
  for (std::size_t w = 0; w < a.words().size(); ++w)
    n += static_cast<std::uint64_t>(std::popcount(a.words()[w] ^ b.words()[w]));
  return n;
}

}  // namespace

struct DetectorSession::State {
  Volume volume;
  SessionOptions options;
  std::mutex mutex;  // one call at a time
  std::optional<MaskedImage> last, total;
  std::optional<Pattern<double>> mean;
  std::optional<Pattern<std::uint64_t>> sum;
  std::optional<Probe> probe;

  State(Volume v, SessionOptions o) : volume(std::move(v)), options(o) {}

  // Brings `last` to `selected`; returns the path that ran.
  Result<std::string_view> move_to(const BitMask& selected, const Job& job) {
    QUANTEM_TRY_ASSIGN(ops, detector_ops(volume));
    const MaskedImage* from = last ? &*last : nullptr;
    if (total && (!from || n_changed(total->selected, selected) < n_changed(from->selected, selected))) from = &*total;
    MaskedImage next;
    if (from)
      next = *from;
    else
      next = {BitMask(selected.count()), std::vector<std::uint64_t>(volume.shape().n_positions()), {}};
    QUANTEM_TRY_ASSIGN(path, ops->move_sum(volume, next.selected, selected, next.sums, job));
    next.selected = selected;
    last = std::move(next);
    return path;
  }

  Result<Done> need_total(const Job& job) {
    if (total) return Done{};
    QUANTEM_TRY_ASSIGN(ops, detector_ops(volume));
    MaskedImage image{volume.valid_pixels(), std::vector<std::uint64_t>(volume.shape().n_positions()), {}};
    const std::span<std::uint64_t> span(image.sums);
    QUANTEM_TRY_ASSIGN(path, ops->masked_sums(volume, {&image.selected, 1}, {&span, 1}, job));
    image.path = path;
    total = std::move(image);
    return Done{};
  }

  Result<Done> need_mean(const Job& job) {
    if (mean) return Done{};
    QUANTEM_TRY_ASSIGN(pattern, quantem::mean_pattern(volume, job));
    mean = std::move(pattern);
    return Done{};
  }

  Result<Probe> need_probe(const Job& job) {
    if (!probe) {
      if (!options.probe.center || !options.probe.radius) QUANTEM_TRY(need_mean(job));
      QUANTEM_TRY_ASSIGN(found, find_probe(mean ? *mean : Pattern<double>{}, volume.valid_pixels(), options.probe));
      probe = found;
    }
    return *probe;
  }

  Result<BitMask> selection_of(const Mask& mask) const {
    QUANTEM_TRY(detector_detail::check_selection(volume, mask.det, mask.bits.count(), "move"));
    BitMask selected = mask.bits;
    selected &= volume.valid_pixels();
    return selected;
  }

  Result<Image<float>> move_image(const Mask& mask, const Job& job) {
    QUANTEM_TRY_ASSIGN(selected, selection_of(mask));
    if (volume.dtype() == Dtype::f32)
      return masked_sum(volume, mask, job);  // float sums have one order: never incremental
    QUANTEM_TRY_ASSIGN(path, move_to(selected, job));
    const bool is_signed = is_signed_count(volume.dtype());
    return detector_detail::finished(volume, detector_detail::rounded(last->sums, is_signed), "masked_sum", path,
                                     is_signed ? Dtype::i64 : Dtype::u64, mask.parameters, selected);
  }
};

Result<DetectorSession> prepare(const Volume& volume, const SessionOptions& options) {
  QUANTEM_TRY(volume.check_open());
  DetectorSession session;
  session.state_ = std::make_shared<DetectorSession::State>(volume, options);
  return session;
}

const Volume& DetectorSession::volume() const {
  return state_->volume;
}

Result<Probe> DetectorSession::probe(const Job& job) {
  const std::lock_guard lock(state_->mutex);
  return state_->need_probe(job);
}

Result<Pattern<double>> DetectorSession::mean_pattern(const Job& job) {
  const std::lock_guard lock(state_->mutex);
  if (state_->mean) return cached(*state_->mean);
  QUANTEM_TRY(state_->need_mean(job));
  return *state_->mean;
}

Result<Pattern<std::uint64_t>> DetectorSession::sum_pattern(const Job& job) {
  const std::lock_guard lock(state_->mutex);
  if (state_->sum) return cached(*state_->sum);
  QUANTEM_TRY_ASSIGN(pattern, quantem::sum_pattern(state_->volume, job));
  state_->sum = std::move(pattern);
  return *state_->sum;
}

Result<Image<std::uint64_t>> DetectorSession::total(const Job& job) {
  const std::lock_guard lock(state_->mutex);
  const Volume& volume = state_->volume;
  if (!is_unsigned_count(volume.dtype()))
    return Error{Code::wrong_dtype,
                 "total: " + std::string(dtype_name(volume.dtype())) + " counts have no unsigned sum; use move"};
  const bool was_there = state_->total.has_value();
  QUANTEM_TRY(state_->need_total(job));
  const MaskedImage& image = *state_->total;
  auto total = detector_detail::finished(volume, image.sums, "total", image.path, Dtype::u64,
                                         all_pixels(volume.shape().det).parameters, image.selected);
  return was_there ? cached(std::move(total)) : std::move(total);
}

Result<Image<float>> DetectorSession::move(const Mask& mask, const Job& job) {
  const std::lock_guard lock(state_->mutex);
  return state_->move_image(mask, job);
}

Result<Image<std::uint64_t>> DetectorSession::move_exact(const Mask& mask, const Job& job) {
  const std::lock_guard lock(state_->mutex);
  QUANTEM_TRY_ASSIGN(selected, state_->selection_of(mask));
  const Volume& volume = state_->volume;
  if (!is_unsigned_count(volume.dtype()))
    return Error{Code::wrong_dtype, "move_exact: " + std::string(dtype_name(volume.dtype())) +
                                        " counts have no unsigned sum; use move or masked_sum_signed"};
  QUANTEM_TRY_ASSIGN(path, state_->move_to(selected, job));
  return detector_detail::finished(volume, state_->last->sums, "masked_sum_exact", path, Dtype::u64, mask.parameters,
                                   selected);
}

Result<Image<float>> DetectorSession::band(Band b, const Job& job) {
  const std::lock_guard lock(state_->mutex);
  QUANTEM_TRY_ASSIGN(probe, state_->need_probe(job));
  QUANTEM_TRY_ASSIGN(mask, quantem::band(b, probe, state_->volume.shape().det));
  QUANTEM_TRY_ASSIGN(image, state_->move_image(mask, job));
  image.provenance.probe =
      Provenance::ProbeUse{probe.center, probe.radius, std::string(origin_name(probe.center_origin)),
                           std::string(origin_name(probe.radius_origin))};
  return image;
}

}  // namespace quantem
