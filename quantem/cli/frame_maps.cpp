#include "quantem/cli/frame_maps.h"

#include <limits>

#include "quantem/detector/mean_pattern.h"

namespace quantem::cli {
namespace {

// Missing positions hold the dtype's maximum, with `valid` cleared.
template <class T>
Image<T> map_of(const Volume& volume, const FrameStatistics& s, std::vector<T> values, const char* quantity,
                const char* unit) {
  Image<T> image;
  image.extent = s.scan;
  image.values = std::move(values);
  image.unit = unit;
  if (!s.valid.all()) {
    image.valid = s.valid;
    for (std::uint64_t i = 0; i < image.values.size(); ++i)
      if (!s.valid[i]) image.values[i] = std::numeric_limits<T>::max();
  }
  Provenance& p = image.provenance = volume.provenance();
  p.operation = "frame_statistics";
  p.path = s.path;
  p.backend = backend_name(volume.device().backend());
  p.device = volume.device().label();
  p.parameters = {{"quantity", std::string(quantity)}};
  p.output_shape = to_string(s.scan);
  p.output_dtype = dtype_name(dtype_of<T>());
  p.accumulator_dtype = "uint64";
  if (!s.valid.all()) p.add_evidence("incomplete");
  return image;
}

}  // namespace

Result<Json> add_frame_maps(const Volume& volume, const std::optional<PixelStep>& step, const Job& job,
                            Collection& collection) {
  QUANTEM_TRY_ASSIGN(s, frame_statistics(volume, job));
  std::vector<std::uint32_t> rows, cols;
  for (const std::uint32_t pixel : s.argmax) {
    rows.push_back(pixel / volume.shape().det.cols);
    cols.push_back(pixel % volume.shape().det.cols);
  }
  Look look;
  look.step = step, look.subtitle = "of each frame";
  const auto add = [&](const char* name, const char* title, auto values, const char* unit) {
    collection.add(name, title, map_of(volume, s, std::move(values), name, unit), look);
  };
  add("frame_total", "Total counts", s.total, "counts");
  add("frame_max", "Largest count", std::vector<std::uint32_t>(s.max.begin(), s.max.end()), "counts");
  add("frame_nonzero", "Non-zero pixels", s.n_nonzero, "pixels");
  add("frame_saturated", "Saturated pixels", s.n_saturated, "pixels");
  collection.add_array("frame_argmax_row", map_of(volume, s, std::move(rows), "frame_argmax_row", "px"));
  collection.add_array("frame_argmax_col", map_of(volume, s, std::move(cols), "frame_argmax_col", "px"));
  return Json{{"total_min", s.total_min},
              {"total_max", s.total_max},
              {"total_mean", s.total_mean},
              {"n_zero_frames", s.n_zero_frames},
              {"n_missing", s.n_missing}};
}

}  // namespace quantem::cli
