#include "quantem/detector/series.h"

#include <algorithm>

#include "quantem/detector/masked_sum.h"
#include "quantem/detector/mean_pattern.h"
#include "quantem/detector/product.h"

namespace quantem {
namespace {

using detector_detail::check_selection;
using detector_detail::finished;

Error at_place(std::size_t i, std::size_t n, const Error& error) {
  return with_context("volume " + std::to_string(i) + " of " + std::to_string(n), error);
}

bool together(const Volume& a, const Volume& b) {
  return b.sliced_device() && a.device().index() == b.device().index() && a.valid_pixels() == b.valid_pixels();
}

// The volumes of `rest` that can be answered with its first one, which is on a CUDA device; the others stay in `rest`.
std::vector<std::size_t> take_group(std::span<const Volume> volumes, std::vector<std::size_t>& rest) {
  const Volume& first = volumes[rest.front()];
  const auto others =
      std::stable_partition(rest.begin(), rest.end(), [&](std::size_t i) { return together(first, volumes[i]); });
  std::vector<std::size_t> group(rest.begin(), others);
  rest.erase(rest.begin(), others);
  return group;
}

// Calls `work` for each acquisition in order, with a job that has only the stop of `job`; counts them; names the one that fails.
template <class Work>
Result<Done> for_each_member(const Series& series, const Job& job, const char* operation, Work work) {
  ProgressMeter meter(job, "series", series.n_acquisitions(), "acquisitions");
  const Job quiet{{}, job.stop};
  for (std::size_t i = 0; i < series.n_acquisitions(); ++i) {
    if (meter.cancelled()) return meter.cancelled_error(operation);
    if (const Result<Done> done = work(i, quiet); !done)
      return with_context("series: " + series.names()[i], done.error());
    meter.add(1);
  }
  meter.finish();
  return Done{};
}

}  // namespace

Result<std::vector<Image<float>>> masked_sum_series(std::span<const Volume> volumes, const Mask& mask, const Job& job) {
  std::vector<Image<float>> images(volumes.size());
  std::vector<std::size_t> rest;  // on CUDA devices
  ProgressMeter meter(job, "series", volumes.size(), "acquisitions");
  const Job quiet{{}, job.stop};
  for (std::size_t i = 0; i < volumes.size(); ++i) {
    const auto good = check_selection(volumes[i], mask.det, mask.bits.count(), "masked_sum_series");
    if (!good) return at_place(i, volumes.size(), good.error());
    if (volumes[i].sliced_device()) {
      rest.push_back(i);
      continue;
    }
    if (meter.cancelled()) return meter.cancelled_error("masked_sum_series");
    auto image = masked_sum(volumes[i], mask, quiet);
    if (!image) return at_place(i, volumes.size(), image.error());
    images[i] = *std::move(image);
    meter.add(1);
  }
  while (!rest.empty()) {
    if (meter.cancelled()) return meter.cancelled_error("masked_sum_series");
    const std::vector<std::size_t> group = take_group(volumes, rest);
    BitMask selected = mask.bits;
    selected &= volumes[group.front()].valid_pixels();
    std::vector<const Volume*> members;
    for (const std::size_t i : group) members.push_back(&volumes[i]);
    std::vector<std::vector<float>> values(group.size());
    auto path = detector_detail::series_sums_cuda(members, selected, values, quiet);
    if (!path) return at_place(group.front(), volumes.size(), path.error());
    const detector_detail::MaskRecord record(selected);
    for (std::size_t k = 0; k < group.size(); ++k)
      images[group[k]] =
          finished(*members[k], std::move(values[k]), "masked_sum_series", *path, Dtype::u64, mask.parameters, record);
    meter.add(group.size());
  }
  meter.finish();
  return images;
}

Result<std::vector<Image<float>>> masked_sum(const Series& series, const Mask& mask, const Job& job) {
  return masked_sum_series(series.volumes(), mask, job);
}

Result<std::vector<std::vector<Image<float>>>> masked_sums(const Series& series, std::span<const Mask> masks,
                                                           const Job& job) {
  const std::span<const Volume> volumes = series.volumes();
  std::vector<std::vector<Image<float>>> images(masks.size());
  // Many volumes a launch on a CUDA device, where a mask is cheap; many masks a pass elsewhere, where the pass is dear.
  if (std::any_of(volumes.begin(), volumes.end(), [](const Volume& v) { return v.sliced_device() != nullptr; })) {
    ProgressMeter meter(job, "series", masks.size(), "masks");
    for (std::size_t m = 0; m < masks.size(); ++m) {
      QUANTEM_TRY_ASSIGN(of_mask, masked_sum_series(volumes, masks[m], {{}, job.stop}));
      images[m] = std::move(of_mask);
      meter.add(1);
    }
    meter.finish();
    return images;
  }
  QUANTEM_TRY(for_each_member(series, job, "masked_sums", [&](std::size_t i, const Job& quiet) -> Result<Done> {
    QUANTEM_TRY_ASSIGN(of_volume, masked_sums(volumes[i], masks, quiet));
    for (std::size_t m = 0; m < masks.size(); ++m) images[m].push_back(std::move(of_volume[m]));
    return Done{};
  }));
  return images;
}

Result<std::vector<Pattern<double>>> mean_patterns(const Series& series, const Job& job) {
  std::vector<Pattern<double>> patterns;
  QUANTEM_TRY(for_each_member(series, job, "mean_patterns", [&](std::size_t i, const Job& quiet) -> Result<Done> {
    QUANTEM_TRY_ASSIGN(pattern, mean_pattern(series.volumes()[i], quiet));
    patterns.push_back(std::move(pattern));
    return Done{};
  }));
  return patterns;
}

Result<SeriesBand> band(const Series& series, Band which_band, SeriesProbe which, const ProbeOptions& options,
                        const Job& job) {
  SeriesBand out;
  const auto probe_of = [&](const Volume& volume, const Job& quiet) -> Result<Probe> {
    if (options.center && options.radius) return find_probe({}, {}, options);  // the pattern is not looked at
    QUANTEM_TRY_ASSIGN(mean, mean_pattern(volume, quiet));
    return find_probe(mean, volume.valid_pixels(), options);
  };
  if (which == SeriesProbe::each) {
    QUANTEM_TRY(for_each_member(series, job, "band", [&](std::size_t i, const Job& quiet) -> Result<Done> {
      QUANTEM_TRY_ASSIGN(probe, probe_of(series.volumes()[i], quiet));
      QUANTEM_TRY_ASSIGN(mask, band(which_band, probe, series.detector()));
      QUANTEM_TRY_ASSIGN(image, masked_sum(series.volumes()[i], mask, quiet));
      out.images.push_back(std::move(image)), out.probes.push_back(probe);
      return Done{};
    }));
  } else if (!series.empty()) {
    auto probe = probe_of(series.volumes().front(), {{}, job.stop});
    if (!probe) return with_context("series: " + series.names().front(), probe.error());
    QUANTEM_TRY_ASSIGN(mask, band(which_band, *probe, series.detector()));
    QUANTEM_TRY_ASSIGN(images, masked_sum(series, mask, job));
    out.images = std::move(images);
    out.probes.assign(out.images.size(), *probe);
  }
  for (std::size_t i = 0; i < out.images.size(); ++i) {
    const Probe& p = out.probes[i];
    out.images[i].provenance.probe = {p.center, p.radius, std::string(origin_name(p.center_origin)),
                                      std::string(origin_name(p.radius_origin))};
  }
  return out;
}

}  // namespace quantem
