#include "quantem/io/load_provenance.h"

namespace quantem {
namespace {

std::vector<double> bounds(const Region& r) {
  return {double(r.row_start), double(r.row_stop), double(r.col_start), double(r.col_stop)};
}
std::vector<double> pair(Extent e) {
  return {double(e.rows), double(e.cols)};
}
std::int64_t count(std::uint64_t n) {
  return static_cast<std::int64_t>(n);
}

void add_exclusions(Provenance& p, const LoadPlan& plan, std::uint64_t n_flagged_in_all_frames) {
  if (plan.mask_kept) p.steps.push_back({"bad_pixels_kept", false, {{"apply_mask", false}}});
  if (p.bad_pixels.count) {
    p.steps.push_back({"bad_pixel_zeroing", true, {{"n_pixels", count(p.bad_pixels.count)}}});
    if (n_flagged_in_all_frames)
      p.steps.back().parameters.emplace_back("n_flagged_in_all_frames", count(n_flagged_in_all_frames));
  }
  if (p.flagged_samples) p.steps.push_back({"flagged_marker_zeroing", true, {{"n_samples", count(p.flagged_samples)}}});
  if (p.missing_positions) {
    p.steps.push_back({"missing_frame_fill", false, {{"n_positions", count(p.missing_positions)}}});
    p.add_evidence("incomplete");
  }
}

void add_hot_pixels(Provenance& p, const LoadPlan& plan, const std::vector<HotPixel>& hot) {
  if (plan.options.hot_pixels == HotPixels::none) return;
  std::vector<std::string> places;
  for (const HotPixel& h : hot) places.push_back(to_string(plan.pixel_place(h.pixel)));
  p.steps.push_back({"hot_pixel_median", true, {{"n_pixels", count(hot.size())}, {"pixels", places}}});
  p.add_evidence("filtered");
}

void add_bins(Provenance& p, const LoadPlan& plan) {
  if (!plan.binned()) return;
  const Extent d = plan.options.det_bin, s = plan.options.scan_bin;
  p.steps.push_back({"bin",
                     true,
                     {{"detector_bin", pair(d)},
                      {"scan_bin", pair(s)},
                      {"partial_edge", pair({plan.crop.det.rows % d.rows, plan.crop.det.cols % d.cols})},
                      {"scan_partial_edge", pair({plan.crop.scan.rows % s.rows, plan.crop.scan.cols % s.cols})}}});
  p.add_evidence("binned");
}

void add_lost_frames(Provenance& p, const LoadPlan& plan, const std::vector<BlockReport>& reports) {
  std::uint64_t n_lost = 0, n_corrupt = 0;
  std::vector<std::string> reasons;
  for (const BlockReport& r : reports) {
    n_lost += r.n_lost;
    n_corrupt += r.n_corrupt;
    for (const LostFrame& l : r.lost)
      if (reasons.size() < kLostKept) reasons.push_back(to_string(plan.place(l.crop_position)) + ": " + l.fault.reason);
  }
  if (!n_lost) return;
  std::string text = std::to_string(n_lost) + " of " + std::to_string(plan.crop.n_positions()) +
                     " scan positions have no frame (" + std::to_string(n_corrupt) + " of them damaged): ";
  for (std::size_t i = 0; i < reasons.size(); ++i) text += (i ? "; " : "") + reasons[i];
  if (n_lost > reasons.size()) text += "; ...";
  p.warn(text);
}

}  // namespace

Provenance load_provenance(const LoadPlan& plan, const SourceFacts& facts, const VolumeInfo& info, const BitMask& valid,
                           std::uint64_t n_flagged_in_all_frames, const std::vector<HotPixel>& hot,
                           const std::vector<BlockReport>& reports, bool fast) {
  Provenance p;
  p.source_identity = facts.identity;
  p.source_shape = plan.source;
  p.source_dtype = dtype_name(plan.source_dtype);
  p.scan_region = plan.scan_region;
  p.detector_region = plan.det_region;
  p.scan_bin = plan.options.scan_bin;
  p.detector_bin = plan.options.det_bin;
  p.scan_order = facts.scan_order;
  const std::uint64_t n_bad = valid.count() - valid.n_set();
  p.bad_pixels = {n_bad, valid.sha256(),
                  plan.mask_kept               ? "kept"
                  : plan.mask_applied || n_bad ? "zeroed"
                                               : "no mask in source"};
  p.missing_positions = plan.shape.n_positions() - info.valid_positions.n_set();
  p.flagged_samples = info.flagged.size();
  p.ignored_frames = facts.n_ignored_frames;
  p.operation = "load";
  p.path = fast ? "cpu_load_planes" : "cpu_load_frames";
  p.output_shape = to_string(plan.shape);
  p.output_dtype = dtype_name(plan.dtype);
  p.warnings = facts.warnings;
  if (plan.cropped()) {
    p.steps.push_back(
        {"crop", false, {{"scan_region", bounds(plan.scan_region)}, {"detector_region", bounds(plan.det_region)}}});
    p.add_evidence("cropped");
  }
  add_exclusions(p, plan, n_flagged_in_all_frames);
  add_hot_pixels(p, plan, hot);
  add_bins(p, plan);
  if (!plan.binned() && plan.dtype != plan.source_dtype)
    p.steps.push_back({"exact_integer_narrowing",
                       false,
                       {{"from", std::string(dtype_name(plan.source_dtype))},
                        {"to", std::string(dtype_name(plan.dtype))},
                        {"count_max", info.audit.count_max}}});
  if (plan.representation == Representation::encoded) p.steps.push_back(storage_step(plan.options.tiles_4));
  add_lost_frames(p, plan, reports);
  return p;
}

}  // namespace quantem
