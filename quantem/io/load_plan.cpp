#include "quantem/io/load_plan.h"

#include <algorithm>
#include <string>

#include "quantem/io/load_memory.h"

namespace quantem {
namespace {

Result<Done> check_bin(Extent bin, Extent n, std::string_view what) {
  const auto axis = [&](std::uint32_t b, std::uint32_t rows, std::string_view name) -> Result<Done> {
    if (b >= 1 && b <= rows) return Done{};
    return Error{Code::invalid_argument, "load: " + std::string(what) + " of " + std::string(name) + " is " +
                                             std::to_string(b) + ", must be from 1 to " + std::to_string(rows) +
                                             " (the axis after the crop)"};
  };
  QUANTEM_TRY(axis(bin.rows, n.rows, "rows"));
  return axis(bin.cols, n.cols, "cols");
}

Extent binned(Extent n, Extent bin) {
  return {(n.rows - 1) / bin.rows + 1, (n.cols - 1) / bin.cols + 1};
}

// u8 u16 u32 -> u32, i16 i32 -> i32, f32 -> f32.
Dtype bin_dtype(Dtype d) {
  if (is_unsigned_count(d)) return Dtype::u32;
  return is_signed_count(d) ? Dtype::i32 : d;
}

Result<Dtype> result_dtype(const LoadPlan& plan, const std::optional<Dtype>& named) {
  const Dtype natural = plan.binned() ? bin_dtype(plan.source_dtype) : plan.source_dtype;
  if (!named || *named == natural) return natural;
  if (*named == Dtype::scaled_u16)
    return Error{Code::unsupported,
                 "load: scaled_uint16 is not in this build; omit dtype to keep native counts losslessly"};
  if (!is_count_dtype(*named))
    return Error{Code::unsupported, "load: " + std::string(dtype_name(*named)) +
                                        " is not a dtype of counts; use uint8 uint16 uint32 int16 int32 or float32"};
  if (plan.source_dtype == Dtype::f32)
    return Error{Code::invalid_argument, "load: float32 counts do not become " + std::string(dtype_name(*named)) +
                                             " exactly; omit dtype to keep them"};
  return *named;
}

Result<IntakeRules> rules_of(const Container& c, const LoadPlan& plan) {
  BitMask valid(plan.source.frame_pixels(), true);
  if (plan.options.apply_mask && c.valid_pixels.count()) {
    if (c.valid_pixels.count() != valid.count())
      return Error{Code::invalid_argument, "load: the pixel mask has " + std::to_string(c.valid_pixels.count()) +
                                               " pixels, the detector " + to_string(plan.source.det) + " has " +
                                               std::to_string(valid.count())};
    valid = c.valid_pixels;
  }
  for (const Position p : plan.options.bad_pixels) {
    if (p.row >= plan.source.det.rows || p.col >= plan.source.det.cols)
      return Error{Code::invalid_argument,
                   "load: bad_pixels names " + to_string(p) + ", the detector is " + to_string(plan.source.det)};
    valid.set(std::uint64_t{p.row} * plan.source.det.cols + p.col, false);
  }
  BitMask cropped(plan.crop.frame_pixels());
  for (std::uint32_t r = 0; r < plan.crop.det.rows; ++r)
    for (std::uint32_t col = 0; col < plan.crop.det.cols; ++col)
      cropped.set(
          std::uint64_t{r} * plan.crop.det.cols + col,
          valid[std::uint64_t{r + plan.det_region.row_start} * plan.source.det.cols + col + plan.det_region.col_start]);
  return IntakeRules(std::move(cropped), plan.options.flagged, saturation_of(plan.source_dtype, c.saturation_value));
}

void plan_bins(LoadPlan& plan) {
  if (!plan.binned()) return;
  const Extent b = plan.options.det_bin, s = plan.options.scan_bin;
  plan.samples_per_bin = std::uint64_t{std::min(b.rows, plan.crop.det.rows)} * std::min(b.cols, plan.crop.det.cols) *
                         std::min(s.rows, plan.crop.scan.rows) * std::min(s.cols, plan.crop.scan.cols);
  plan.valid_count.assign(plan.shape.frame_pixels(), 0);
  const bool det = b.count() > 1;
  if (det) plan.bin_of_pixel.resize(plan.crop.frame_pixels());
  for (std::uint32_t r = 0, p = 0; r < plan.crop.det.rows; ++r)
    for (std::uint32_t c = 0; c < plan.crop.det.cols; ++c, ++p) {
      const std::uint32_t bin = r / b.rows * plan.shape.det.cols + c / b.cols;
      if (det) plan.bin_of_pixel[p] = bin;
      plan.valid_count[bin] += plan.rules.valid_pixels[p];
    }
}

template <class T>
void scale(Known<T>& known, T value, std::string_view how) {
  if (known.value && *known.value == value) return;
  known.value = value;
  known.origin = Origin::derived;
  known.note += (known.note.empty() ? "" : "; ") + std::string(how);
}

}  // namespace

Calibration transformed(const Calibration& source, const Region& det_region, Extent scan_bin, Extent det_bin) {
  Calibration out = source;
  const std::string det_how = "detector region from (" + std::to_string(det_region.row_start) + ", " +
                              std::to_string(det_region.col_start) + "), bin " + to_string(det_bin);
  if (out.center_px) {
    const auto move = [](double x, std::uint32_t start, std::uint32_t b) { return (x - start - (b - 1) / 2.0) / b; };
    scale(out.center_px,
          Point{move(out.center_px.value->row, det_region.row_start, det_bin.rows),
                move(out.center_px.value->col, det_region.col_start, det_bin.cols)},
          det_how);
  }
  if (out.radius_px && det_bin.rows == det_bin.cols)
    scale(out.radius_px, *out.radius_px.value / det_bin.rows, det_how);
  else if (out.radius_px)  // a circle in the source is none in unequal bins
    out.radius_px.value.reset(), out.radius_px.note = "unknown: the detector bin is not square";
  if (out.det_sampling_mrad) {
    const Pair s = *out.det_sampling_mrad.value;
    scale(out.det_sampling_mrad, Pair{s.row * det_bin.rows, s.col * det_bin.cols}, det_how);
  }
  if (out.scan_sampling_A) {
    const Pair s = *out.scan_sampling_A.value;
    scale(out.scan_sampling_A, Pair{s.row * scan_bin.rows, s.col * scan_bin.cols}, "scan bin " + to_string(scan_bin));
  }
  return out;
}

Result<LoadPlan> plan_load(const Device& device, const Container& container, const LoadOptions& options) {
  if (container.not_ready) return *container.not_ready;
  LoadPlan plan;
  plan.options = options;
  plan.source = container.shape;
  plan.source_dtype = container.dtype;
  plan.missing = container.options.missing;
  if (!is_count_dtype(container.dtype))
    return Error{Code::unsupported, "load: " + std::string(dtype_name(container.dtype)) + " is not a dtype of counts"};
  if (plan.source.n_values() == 0 || plan.source.frame_pixels() > kMaxFramePixels)
    return Error{Code::unsupported, "load: shape " + to_string(plan.source) + ": a frame has 1 to " +
                                        std::to_string(kMaxFramePixels) + " pixels, a scan at least one position"};
  // Below this no product of the plan passes 2^64.
  if (!checked_multiply(plan.source.n_positions(), 8 * plan.source.frame_pixels()))
    return Error{Code::unsupported, "load: shape " + to_string(plan.source) + " passes 2^64 bytes; give scan_shape"};
  plan.scan_region = options.scan_region.value_or(whole(plan.source.scan));
  plan.det_region = options.detector_region.value_or(whole(plan.source.det));
  QUANTEM_TRY(check_region(plan.scan_region, plan.source.scan, "load: scan_region"));
  QUANTEM_TRY(check_region(plan.det_region, plan.source.det, "load: detector_region"));
  plan.crop = {plan.scan_region.extent(), plan.det_region.extent()};
  QUANTEM_TRY(check_bin(options.scan_bin, plan.crop.scan, "scan_bin"));
  QUANTEM_TRY(check_bin(options.det_bin, plan.crop.det, "det_bin"));
  plan.shape = {binned(plan.crop.scan, options.scan_bin), binned(plan.crop.det, options.det_bin)};
  QUANTEM_TRY_ASSIGN(dtype, result_dtype(plan, options.dtype));
  plan.dtype = dtype;
  plan.representation =
      options.representation.value_or(is_unsigned_count(dtype) ? Representation::encoded : Representation::dense);
  if (plan.representation == Representation::encoded && !is_unsigned_count(dtype))
    return Error{Code::unsupported, "load: bit-sliced-v1 holds uint8, uint16 and uint32, not " +
                                        std::string(dtype_name(dtype)) + "; use representation=\"dense\""};
  QUANTEM_TRY(check_tiles_4("load", options.tiles_4, plan.representation == Representation::encoded));
  QUANTEM_TRY_ASSIGN(rules, rules_of(container, plan));
  plan.rules = std::move(rules);
  plan.mask_applied = (container.has_pixel_mask && options.apply_mask) || !options.bad_pixels.empty();
  plan.mask_kept = container.has_pixel_mask && !options.apply_mask;
  plan_bins(plan);
  plan.n_blocks = (plan.shape.n_positions() - 1) / kBlockPositions + 1;
  plan_memory(device, container, plan);
  return plan;
}

Result<LoadEstimate> estimate(const Device& device, const Container& container, const LoadOptions& options) {
  QUANTEM_TRY_ASSIGN(plan, plan_load(device, container, options));
  return plan.estimate;
}

}  // namespace quantem
