#pragma once
// One mask over many acquisitions: image i is masked_sum(volumes[i], mask), bit for bit, in the order of the list. Scan shapes, dtypes and
// storage may differ from volume to volume, the detector's shape may not.
//
// Encoded volumes of one CUDA device with the same valid pixels are answered together, 32 a launch, by one plan (32 volumes of
// 512x512x192x192, BF r=30: 0.51 ms of kernel on one H200). All others are asked one after the other.
// Errors: those of masked_sum, with the volume's place in the list; nothing comes back then. An empty list has no images.
// Progress counts acquisitions; cancelled comes between two of them, or between two launches.

#include <span>
#include <vector>

#include "quantem/core/array.h"
#include "quantem/core/job.h"
#include "quantem/detector/geometry.h"
#include "quantem/detector/probe.h"
#include "quantem/resident/series.h"
#include "quantem/resident/volume.h"

namespace quantem {

Result<std::vector<Image<float>>> masked_sum_series(std::span<const Volume> volumes, const Mask& mask,
                                                    const Job& job = {});

// The same for a Series, in its order: image i is masked_sum(series.volumes()[i], mask).
Result<std::vector<Image<float>>> masked_sum(const Series& series, const Mask& mask, const Job& job = {});
// images[m][i]: mask m, acquisition i.
Result<std::vector<std::vector<Image<float>>>> masked_sums(const Series& series, std::span<const Mask> masks,
                                                           const Job& job = {});
// mean_pattern of each.
Result<std::vector<Pattern<double>>> mean_patterns(const Series& series, const Job& job = {});

// A named detector needs the disc. `first`: that of the first acquisition serves all, so that the same pixels are compared; `each`: every
// acquisition's own, for series in which the beam wanders. A caller's centre or radius (ProbeOptions) holds for all in both.
// Errors: those of mean_pattern, find_probe and masked_sum, with the acquisition's name: undetermined where it has no disc.
enum class SeriesProbe : std::uint8_t { first, each };
struct SeriesBand {
  std::vector<Image<float>> images;  // provenance has the disc
  std::vector<Probe> probes;         // the one that each image was made with
};
Result<SeriesBand> band(const Series& series, Band band, SeriesProbe which, const ProbeOptions& options = {},
                        const Job& job = {});

namespace detector_detail {
// Sums over `selected` of encoded volumes that lie on one CUDA device and share a layout and their valid pixels, rounded once; the function
// sizes the images. unsupported where this build has no CUDA.
Result<std::string_view> series_sums_cuda(std::span<const Volume* const> volumes, const BitMask& selected,
                                          std::span<std::vector<float>> images, const Job& job);
}  // namespace detector_detail

}  // namespace quantem
