#include "quantem/io/hdf5_generic.h"

#include <algorithm>

#include "quantem/io/arina.h"
#include "quantem/io/dataset_bytes_locked.h"
#include "quantem/io/emd.h"
#include "quantem/io/hdf5_part.h"
#include "quantem/io/part_layout.h"
#include "quantem/io/scan_shape.h"
#include "quantem/io/side_file.h"

namespace quantem {
using hdf5::File;
using hdf5::Object;
namespace {

Error several(const std::shared_ptr<const File>& file, const std::vector<std::string>& paths) {
  std::string list;
  for (std::size_t i = 0; i < paths.size() && i < 8; ++i) list += (i ? ", " : "") + paths[i];
  return Error(Code::undetermined, file->name() + ": " + std::to_string(paths.size()) + " datasets could be meant (" +
                                       list + (paths.size() > 8 ? ", ..." : "") + "): give dataset_path");
}

}  // namespace

Result<Done> inspect_dataset(Container& c, const std::shared_ptr<const File>& file, const std::string& path) {
  if (c.format.empty()) c.format = "hdf5";
  QUANTEM_TRY_ASSIGN(dataset, hdf5::find_object(file, path));
  QUANTEM_TRY_ASSIGN(shape, hdf5::dataset_shape(dataset));
  QUANTEM_TRY_ASSIGN(parts, hdf5::make_parts(c, dataset, {}));
  ScanHints hints;
  if (shape.size() == 4)
    hints.array = Extent{static_cast<std::uint32_t>(shape[0]), static_cast<std::uint32_t>(shape[1])};
  if (shape.size() == 4 && (shape[0] > 0xffffffffu || shape[1] > 0xffffffffu))
    return Error(Code::unsupported, dataset.where() + ": shape " + hdf5::shape_text(shape));
  c.parts = std::move(parts);
  for (const Part& part : c.parts)
    if (part.absent_reason.empty()) c.n_stored += part.n_frames;
  c.n_expected = end_of_parts(c);
  hdf5::agree(c);
  c.valid_pixels = BitMask(c.shape.frame_pixels(), true);
  // What a master and its side file say is about the images below /entry/data, not about a mask or a flat field.
  const bool is_image = dataset.path.starts_with("/entry/data/");
  if (is_image && is_arina(file)) read_master_metadata(c, file);
  read_emd_calibration(c, dataset.file, dataset.path);
  note_scan_shape(c, hints, dataset);
  if (auto root = hdf5::find_object(file, "/")) note_scan_shape(c, hints, *root);
  if (is_image) {
    const SideFile side = read_side_files(c);
    hints.side_file = side.scan;
    hints.side_file_name = side.name;
  }
  resolve_scan_shape(c, hints);
  return Done{};
}

Result<Done> inspect_any_hdf5(Container& c, const std::shared_ptr<const File>& file) {
  if (is_velox(file))
    return Error(Code::unsupported,
                 file->name() +
                     ": a Velox file: it holds images, not diffraction patterns; open the acquisition of "
                     "the camera (a dataset of it can be named with dataset_path)");
  const std::vector<std::string> cubes = emd_datacubes(file);
  if (cubes.size() == 1) return inspect_dataset(c, file, cubes[0]);
  if (cubes.size() > 1) return several(file, cubes);
  QUANTEM_TRY_ASSIGN(paths, list_datasets_locked(file, 10000));
  std::vector<std::pair<std::size_t, std::string>> candidates;  // rank, path
  for (const std::string& path : paths) {
    auto object = hdf5::find_object(file, path);
    const auto shape = object ? hdf5::dataset_shape(*object) : Result<std::vector<std::uint64_t>>(Error(Code::io, ""));
    if (!shape || shape->size() < 2 || shape->size() > 4) continue;
    if (hdf5::element_type(*object).kind != hdf5::ElementType::Kind::other)
      candidates.emplace_back(shape->size(), path);
  }
  const std::size_t most = candidates.empty() ? 0 : std::max_element(candidates.begin(), candidates.end())->first;
  if (most < 3 && is_side_file(file))  // at most the images that the microscope showed
    return Error(Code::unsupported, file->name() +
                                        ": the microscope wrote it beside an acquisition: open the "
                                        "_master.h5 file (a dataset of this one can be named with "
                                        "dataset_path)");
  if (candidates.empty())
    return Error(Code::unsupported, file->name() + ": no dataset of two to four axes in this HDF5 file");
  std::vector<std::string> meant;
  for (const auto& [rank, path] : candidates)
    if (rank == most) meant.push_back(path);
  if (meant.size() == 1) return inspect_dataset(c, file, meant[0]);
  return several(file, meant);
}

}  // namespace quantem
