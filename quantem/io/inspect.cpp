// inspect(): what a file is, by its content, and who reads it.

#include <array>
#include <fstream>

#include "quantem/io/arina.h"
#include "quantem/io/container.h"
#include "quantem/io/hdf5_generic.h"
#include "quantem/io/hdf5_part.h"

#include "quantem/io/npy.h"
#include "quantem/io/raw.h"
#include "quantem/io/scan_shape.h"

namespace quantem {
namespace fs = std::filesystem;
namespace {

// Formats that are known by their first bytes, and not read yet.
struct KnownFormat {
  std::string_view magic, name, advice;
};
constexpr KnownFormat kNotRead[] = {
    {"MQ1", "Merlin .mib", "convert it to HDF5 or .npy"},
    {"IMGBLO", "NanoMEGAS .blo", "convert it to HDF5 or .npy"},
    {std::string_view("II\x97\x01", 4), "TIA .ser", "convert it to HDF5 or .npy"},
    {std::string_view("\0\0\0\3", 4), "Gatan .dm3", "convert it to HDF5 or .npy"},
    {std::string_view("\0\0\0\4", 4), "Gatan .dm4", "convert it to HDF5 or .npy"},
    {"PK\x03\x04", "zip archive", "unpack it and open what is inside"},
    {"QEMDATA1", ".qem container", "export it again as HDF5 or .npy"},
    {"QGPUSTRM", "quantem stream", "export again from the original"},
    {"QGANS", "quantem stream", "export again from the original"},
    {"QGPUPAIR", "quantem pair stream", "export again from the original"},
    {std::string_view("II*\0", 4), "TIFF", "convert it to HDF5 or .npy"},
    {std::string_view("MM\0*", 4), "TIFF", "convert it to HDF5 or .npy"},
    {"\x1f\x8b", "gzip archive", "unpack it and open what is inside"},
    {"<?xml", "XML (EMPAD?)", "give the .raw file with its shape and dtype"},
};
struct KnownSuffix {
  std::string_view suffix, name, advice;
};
constexpr KnownSuffix kSuffixes[] = {
    {".raw", "raw binary (EMPAD?)", "give dtype and detector shape (RawLayout) to read it as raw binary"},
    {".bin", "raw binary", "give dtype and detector shape (RawLayout) to read it as raw binary"},
    {".mib", "Merlin .mib", "convert it to HDF5 or .npy"},
    {".hdr", "Merlin header", "convert the .mib beside it to HDF5 or .npy"},
    {".mrc", "MRC", "convert it to HDF5 or .npy"},
    {".mrcs", "MRC", "convert it to HDF5 or .npy"},
};

Error refusal(const fs::path& path, std::string_view name, std::string_view advice) {
  return Error(Code::unsupported,
               path.filename().string() + ": " + std::string(name) + " is not supported yet; " + std::string(advice));
}

Result<Container> inspect_hdf5(const fs::path& path, const OpenOptions& options) {
  const hdf5::Lock lock;
  QUANTEM_TRY_ASSIGN(file, hdf5::open_file(path, options.missing));
  Container container;
  container.path = path;
  container.options = options;
  QUANTEM_TRY(hdf5::add_file(container, path));
  if (!options.dataset_path.empty()) {
    QUANTEM_TRY(inspect_dataset(container, file, options.dataset_path));
  } else if (is_arina(file)) {
    inspect_arina(container, file);
  } else {
    QUANTEM_TRY(inspect_any_hdf5(container, file));
  }
  return container;
}

// Flat arrays say nothing of the scan but their own first two axes.
Result<Container> with_scan_shape(Result<Container> container) {
  if (!container) return container;
  ScanHints hints;
  if (container->shape.scan.count() > 0) hints.array = container->shape.scan;
  resolve_scan_shape(*container, hints);
  return container;
}

}  // namespace

Result<Container> inspect(const fs::path& path, const OpenOptions& options) {
  std::error_code failed;
  const fs::file_status status = fs::status(path, failed);
  if (failed && status.type() != fs::file_type::not_found)
    return Error(Code::io, path.string() + ": " + failed.message());
  if (!fs::exists(status)) {
    const bool tilde = path.string().starts_with("~");
    return Error(Code::io,
                 path.string() + ": no such file" + (tilde ? " (~ is not expanded: give the whole path)" : ""));
  }
  if (!fs::is_regular_file(status)) return Error(Code::io, path.string() + ": not a file");
  std::array<char, 256> start{};
  std::ifstream in(path, std::ios::binary);
  if (!in) return Error(Code::io, path.string() + ": permission denied");
  in.read(start.data(), start.size());
  const std::string_view head(start.data(), static_cast<std::size_t>(in.gcount()));
  in.close();
  if (options.raw) return with_scan_shape(inspect_raw(path, options));
  if (hdf5::find_signature(path)) return inspect_hdf5(path, options);
  if (head.starts_with("\x93NUMPY")) return with_scan_shape(inspect_npy(path, options));
  if (head.empty()) return Error(Code::corrupt_data, path.filename().string() + ": the file is empty");
  for (const KnownFormat& known : kNotRead)
    if (head.starts_with(known.magic)) return refusal(path, known.name, known.advice);
  if (head.size() > 212 && head.substr(208, 4) == "MAP ") return refusal(path, "MRC", "convert it to HDF5 or .npy");
  const std::string suffix = path.extension().string();
  for (const KnownSuffix& known : kSuffixes)
    if (suffix == known.suffix) return refusal(path, known.name, known.advice);
  return Error(Code::unsupported, path.filename().string() +
                                      ": not a format that is read (HDF5 as Arina, Eiger, EMD or py4DSTEM "
                                      "write it, .npy, raw binary with its shape given)");
}

}  // namespace quantem
