#pragma once
// HDF5 inputs for tests, written with the HDF5 C API and this file's own chunk encoders: ARINA([n1, n2, ...], HxW, dtype, filter) of
// the field cases, and single datasets in any layout. Not used by the library.

#define H5_USE_110_API
#include <hdf5.h>
#include <lz4.h>
#include <unistd.h>
#include <zlib.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace quantem::support {
namespace fs = std::filesystem;
using Bytes = std::vector<std::uint8_t>;

// A folder that goes with the test, by its real path, as messages name files.
class Folder {
 public:
  explicit Folder(const std::string& name) {
    static int count = 0;
    path_ =
        fs::temp_directory_path() / ("quantem-" + std::to_string(::getpid()) + "-" + std::to_string(count++)) / name;
    fs::create_directories(path_);
    path_ = fs::canonical(path_);
  }
  ~Folder() {
    std::error_code ignored;
    fs::path top = path_;
    while (!top.filename().string().starts_with("quantem-")) top = top.parent_path();
    fs::remove_all(top, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] const fs::path& path() const { return path_; }
  fs::path operator/(const std::string& name) const { return path_ / name; }

 private:
  fs::path path_;
};

inline void put_be(Bytes& to, std::uint64_t v, int n) {
  for (int i = n - 1; i >= 0; --i) to.push_back(static_cast<std::uint8_t>(v >> (8 * i)));
}

inline Bytes lz4_block(const std::uint8_t* p, std::size_t n) {
  Bytes out(static_cast<std::size_t>(LZ4_compressBound(static_cast<int>(n))));
  const int written = LZ4_compress_default(reinterpret_cast<const char*>(p), reinterpret_cast<char*>(out.data()),
                                           static_cast<int>(n), static_cast<int>(out.size()));
  out.resize(static_cast<std::size_t>(written));
  return out;
}

// Bit planes of n elements (a multiple of 8), lowest bit first, by plain loops.
inline Bytes bit_planes(const std::uint8_t* p, std::size_t n, std::size_t item) {
  Bytes out(n * item);
  for (std::size_t b = 0; b < 8 * item; ++b)
    for (std::size_t i = 0; i < n; ++i)
      if (p[i * item + b / 8] >> (b % 8) & 1) out[b * (n / 8) + i / 8] |= static_cast<std::uint8_t>(1u << (i % 8));
  return out;
}

inline Bytes bslz4_chunk(const Bytes& raw, std::size_t item, std::size_t block = 0) {
  const std::size_t n = raw.size() / item, whole = n / 8 * 8;
  if (block == 0) block = std::max<std::size_t>(128, 8192 / item / 8 * 8);
  Bytes out;
  put_be(out, raw.size(), 8);
  put_be(out, block * item, 4);
  for (std::size_t a = 0; a < whole; a += block) {
    const std::size_t m = std::min(block, whole - a);
    const Bytes planes = bit_planes(&raw[a * item], m, item), body = lz4_block(planes.data(), planes.size());
    put_be(out, body.size(), 4);
    out.insert(out.end(), body.begin(), body.end());
  }
  out.insert(out.end(), raw.begin() + static_cast<std::ptrdiff_t>(whole * item), raw.end());
  return out;
}

inline Bytes lz4_chunk(const Bytes& raw) {
  Bytes out;
  put_be(out, raw.size(), 8);
  const std::size_t block = std::min<std::size_t>(raw.size(), 1 << 16);
  put_be(out, block, 4);
  for (std::size_t a = 0; a < raw.size(); a += block) {
    const std::size_t n = std::min(block, raw.size() - a);
    Bytes body = lz4_block(&raw[a], n);
    if (body.size() >= n)
      body.assign(raw.begin() + static_cast<std::ptrdiff_t>(a), raw.begin() + static_cast<std::ptrdiff_t>(a + n));
    put_be(out, body.size(), 4);
    out.insert(out.end(), body.begin(), body.end());
  }
  return out;
}

template <class T>
hid_t stored_type() {
  if constexpr (std::is_same_v<T, std::uint8_t>)
    return H5T_STD_U8LE;
  else if constexpr (std::is_same_v<T, std::uint16_t>)
    return H5T_STD_U16LE;
  else if constexpr (std::is_same_v<T, std::uint32_t>)
    return H5T_STD_U32LE;
  else if constexpr (std::is_same_v<T, std::uint64_t>)
    return H5T_STD_U64LE;
  else if constexpr (std::is_same_v<T, std::int8_t>)
    return H5T_STD_I8LE;
  else if constexpr (std::is_same_v<T, std::int16_t>)
    return H5T_STD_I16LE;
  else if constexpr (std::is_same_v<T, std::int32_t>)
    return H5T_STD_I32LE;
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return H5T_STD_I64LE;
  else if constexpr (std::is_same_v<T, float>)
    return H5T_IEEE_F32LE;
  else
    return H5T_IEEE_F64LE;
}

using Dims = std::vector<std::uint64_t>;

struct DatasetForm {
  std::string codec =
      "bslz4";   // bslz4, lz4, gzip (with shuffle), none, contiguous, compact; anything else: a filter number
  Dims chunk{};  // empty: one frame
  std::optional<std::uint64_t> fill{};
  int unlimited_axis = -1;
  std::size_t block = 0;  // of bitshuffle, in elements
  hid_t type = -1;        // as stored; -1: that of the values
  bool partial_unfiltered = false;
  std::function<Bytes(const Bytes& chunk, const Dims& at)> encode{};  // replaces the encoder
  std::function<std::uint32_t(const Dims& at)> filter_mask{};  // of each chunk (the encoder then sees to the bytes)
  std::function<bool(const Dims& at)> leave_out{};             // chunks that are never written
};

// The bytes of one chunk, cut out of an array and filled up with zeros.
inline Bytes cut_chunk(const std::uint8_t* data, const Dims& shape, const Dims& chunk, const Dims& at,
                       std::size_t item) {
  std::uint64_t n = 1;
  for (const auto c : chunk) n *= c;
  Bytes out(n * item);
  for (std::uint64_t i = 0; i < n; ++i) {
    std::uint64_t rest = i, flat = 0, stride = 1;
    bool inside = true;
    for (std::size_t d = shape.size(); d-- > 0;) {
      const std::uint64_t k = at[d] + rest % chunk[d];
      rest /= chunk[d];
      inside = inside && k < shape[d];
      flat += k * stride;
      stride *= shape[d];
    }
    if (inside) std::memcpy(&out[i * item], data + flat * item, item);
  }
  return out;
}

template <class T>
void write_dataset(hid_t parent, const std::string& name, const std::vector<T>& values, const Dims& shape,
                   const DatasetForm& form = {}) {
  H5PLset_loading_state(0);
  const std::size_t rank = shape.size();
  Dims chunk = form.chunk;
  if (chunk.empty()) {
    chunk.assign(rank, 1);
    for (std::size_t d = rank >= 2 ? rank - 2 : 0; d < rank; ++d) chunk[d] = shape[d];
  }
  const std::vector<hsize_t> now(shape.begin(), shape.end()), chunk_dims(chunk.begin(), chunk.end());
  std::vector<hsize_t> most = now;
  if (form.unlimited_axis >= 0) most[static_cast<std::size_t>(form.unlimited_axis)] = H5S_UNLIMITED;
  const hid_t made = H5Pcreate(H5P_DATASET_CREATE), type = form.type >= 0 ? form.type : stored_type<T>();
  const bool chunked = form.codec != "contiguous" && form.codec != "compact";
  if (form.codec == "compact") H5Pset_layout(made, H5D_COMPACT);
  if (chunked) H5Pset_chunk(made, static_cast<int>(rank), chunk_dims.data());
  if (form.partial_unfiltered) H5Pset_chunk_opts(made, H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS);
  if (form.fill) {
    const T fill = static_cast<T>(*form.fill);
    H5Pset_fill_value(made, stored_type<T>(), &fill);
  }
  const unsigned item = sizeof(T), block = static_cast<unsigned>(form.block);
  const unsigned bslz4_client[] = {0, 3, item, block, 2};
  if (form.codec == "bslz4")
    H5Pset_filter(made, 32008, H5Z_FLAG_OPTIONAL, 5, bslz4_client);
  else if (form.codec == "lz4")
    H5Pset_filter(made, 32004, H5Z_FLAG_OPTIONAL, 0, nullptr);
  else if (form.codec == "gzip")
    H5Pset_shuffle(made), H5Pset_deflate(made, 4);
  else if (chunked && form.codec != "none")
    H5Pset_filter(made, std::stoi(form.codec), H5Z_FLAG_OPTIONAL, 0, nullptr);
  const hid_t space = H5Screate_simple(static_cast<int>(rank), now.data(), most.data());
  const hid_t dataset = H5Dcreate2(parent, name.c_str(), type, space, H5P_DEFAULT, made, H5P_DEFAULT);
  const bool by_hand =
      chunked && (form.codec == "bslz4" || form.codec == "lz4" || form.encode || form.leave_out || form.filter_mask);
  if (!by_hand) {
    H5Dwrite(dataset, stored_type<T>(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
  } else {
    Dims at(rank, 0);
    while (true) {
      if (!form.leave_out || !form.leave_out(at)) {
        const Bytes raw = cut_chunk(reinterpret_cast<const std::uint8_t*>(values.data()), shape, chunk, at, sizeof(T));
        const Bytes body = form.encode             ? form.encode(raw, at)
                           : form.codec == "bslz4" ? bslz4_chunk(raw, sizeof(T), form.block)
                           : form.codec == "lz4"   ? lz4_chunk(raw)
                                                   : raw;
        const std::vector<hsize_t> offset(at.begin(), at.end());
        H5Dwrite_chunk(dataset, H5P_DEFAULT, form.filter_mask ? form.filter_mask(at) : 0, offset.data(), body.size(),
                       body.data());
      }
      std::size_t d = rank;
      while (d > 0 && (at[d - 1] += chunk[d - 1]) >= shape[d - 1]) at[--d] = 0;
      if (d == 0) break;
    }
  }
  H5Dclose(dataset);
  H5Sclose(space);
  H5Pclose(made);
}

// ---- files, groups, attributes, scalars

class Writer {
 public:
  explicit Writer(const fs::path& path, bool latest = false, std::uint64_t user_block = 0) {
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS), made = H5Pcreate(H5P_FILE_CREATE);
    if (latest) H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
    if (user_block) H5Pset_userblock(made, user_block);
    file_ = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, made, access);
    H5Pclose(access);
    H5Pclose(made);
  }
  ~Writer() { H5Fclose(file_); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  [[nodiscard]] hid_t id() const { return file_; }

  void group(const std::string& path) {
    const hid_t links = H5Pcreate(H5P_LINK_CREATE);
    H5Pset_create_intermediate_group(links, 1);
    const hid_t g = H5Gcreate2(file_, path.c_str(), links, H5P_DEFAULT, H5P_DEFAULT);
    H5Gclose(g);
    H5Pclose(links);
  }
  template <class T>
  void dataset(const std::string& path, const std::vector<T>& values, const Dims& shape, const DatasetForm& form = {}) {
    make_parents(path);
    write_dataset(file_, path, values, shape, form);
  }
  template <class T>
  void scalar(const std::string& path, T value) {
    make_parents(path);
    const hid_t space = H5Screate(H5S_SCALAR);
    const hid_t d = H5Dcreate2(file_, path.c_str(), stored_type<T>(), space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Dwrite(d, stored_type<T>(), H5S_ALL, H5S_ALL, H5P_DEFAULT, &value);
    H5Dclose(d);
    H5Sclose(space);
  }
  void text(const std::string& path, const std::vector<std::string>& values, bool variable = false) {
    make_parents(path);
    with_text(values, variable, [&](hid_t type, hid_t space, const void* data) {
      const hid_t d = H5Dcreate2(file_, path.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
      H5Dwrite(d, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data);
      H5Dclose(d);
    });
  }
  template <class T>
  void attribute(const std::string& object, const std::string& name, const std::vector<T>& values,
                 bool as_scalar = false) {
    const hid_t o = H5Oopen(file_, object.c_str(), H5P_DEFAULT);
    const hsize_t n = values.size();
    const hid_t space = as_scalar ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &n, nullptr);
    const hid_t a = H5Acreate2(o, name.c_str(), stored_type<T>(), space, H5P_DEFAULT, H5P_DEFAULT);
    H5Awrite(a, stored_type<T>(), values.data());
    H5Aclose(a);
    H5Sclose(space);
    H5Oclose(o);
  }
  void text_attribute(const std::string& object, const std::string& name, const std::vector<std::string>& values,
                      bool variable = false) {
    const hid_t o = H5Oopen(file_, object.c_str(), H5P_DEFAULT);
    with_text(values, variable, [&](hid_t type, hid_t space, const void* data) {
      const hid_t a = H5Acreate2(o, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT);
      H5Awrite(a, type, data);
      H5Aclose(a);
    });
    H5Oclose(o);
  }
  void external_link(const std::string& path, const std::string& file, const std::string& object) {
    make_parents(path);
    H5Lcreate_external(file.c_str(), object.c_str(), file_, path.c_str(), H5P_DEFAULT, H5P_DEFAULT);
  }
  void soft_link(const std::string& path, const std::string& target) {
    make_parents(path);
    H5Lcreate_soft(target.c_str(), file_, path.c_str(), H5P_DEFAULT, H5P_DEFAULT);
  }
  // A virtual dataset of `shape`; every piece maps a box of a source of `source_shape` to a box of it.
  struct Piece {
    std::string file, dataset;
    Dims source_shape, source_start, start, extent, source_extent;
  };
  void virtual_dataset(const std::string& path, hid_t type, const Dims& shape, const std::vector<Piece>& pieces) {
    make_parents(path);
    const hid_t made = H5Pcreate(H5P_DATASET_CREATE);
    const std::vector<hsize_t> dims(shape.begin(), shape.end());
    for (const Piece& p : pieces) {
      const std::vector<hsize_t> s(p.source_shape.begin(), p.source_shape.end()), a(p.start.begin(), p.start.end()),
          n(p.extent.begin(), p.extent.end()), b(p.source_start.begin(), p.source_start.end());
      const std::vector<hsize_t> m =
          p.source_extent.empty() ? n : std::vector<hsize_t>(p.source_extent.begin(), p.source_extent.end());
      const hid_t target = H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr);
      const hid_t source = H5Screate_simple(static_cast<int>(s.size()), s.data(), nullptr);
      H5Sselect_hyperslab(target, H5S_SELECT_SET, a.data(), nullptr, n.data(), nullptr);
      H5Sselect_hyperslab(source, H5S_SELECT_SET, b.data(), nullptr, m.data(), nullptr);
      H5Pset_virtual(made, target, p.file.c_str(), p.dataset.c_str(), source);
      H5Sclose(target);
      H5Sclose(source);
    }
    const hid_t space = H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr);
    H5Dclose(H5Dcreate2(file_, path.c_str(), type, space, H5P_DEFAULT, made, H5P_DEFAULT));
    H5Sclose(space);
    H5Pclose(made);
  }

 private:
  void make_parents(const std::string& path) {
    for (std::size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1))
      if (H5Lexists(file_, path.substr(0, at).c_str(), H5P_DEFAULT) <= 0) group(path.substr(0, at));
  }
  template <class Use>
  static void with_text(const std::vector<std::string>& values, bool variable, Use use) {
    std::size_t longest = 1;
    for (const auto& v : values) longest = std::max(longest, v.size());
    const hid_t type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, variable ? H5T_VARIABLE : longest);
    H5Tset_strpad(type, variable ? H5T_STR_NULLTERM : H5T_STR_NULLPAD);
    const hsize_t n = values.size();
    const hid_t space = n == 1 ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &n, nullptr);
    std::vector<const char*> pointers;
    std::string flat;
    for (const auto& v : values) {
      pointers.push_back(v.c_str());
      flat += v + std::string(longest - v.size(), '\0');
    }
    use(type, space, variable ? static_cast<const void*>(pointers.data()) : flat.data());
    H5Sclose(space);
    H5Tclose(type);
  }
  hid_t file_;
};

// ---- ARINA(...)

struct ArinaForm {
  std::string stem = "x";
  std::vector<std::string> codecs = {"bslz4"};                                    // one for all, or one for each part
  DatasetForm dataset{};                                                          // codec is taken from `codecs`
  std::optional<std::uint64_t> nimages = 1, ntrigger{};                           // ntrigger: frames when not given
  std::optional<std::vector<std::uint32_t>> mask = std::vector<std::uint32_t>{};  // empty: zeros; nothing: no mask
  bool genuine = false, numbers = true, instrument = true;
  std::uint64_t first_number = 1;
  std::optional<std::pair<int, int>> side{};  // rows, columns
  double pixel_size = 0.13915206;
  int calibrated = 0;
  std::function<void(Writer&)> extra{};
};

template <class T>
void write_part(const fs::path& path, const std::vector<T>& frames, std::uint64_t n, std::uint64_t h, std::uint64_t w,
                std::uint64_t first, const DatasetForm& form, bool numbers = true) {
  Writer f(path);
  DatasetForm with = form;
  if (with.codec != "contiguous" && with.codec != "compact") with.unlimited_axis = 0;
  f.dataset("/entry/data/data", frames, {n, h, w}, with);
  if (!numbers) return;
  f.attribute<std::uint64_t>("/entry/data/data", "image_nr_low", {first}, true);
  f.attribute<std::uint64_t>("/entry/data/data", "image_nr_high", {first + n - 1}, true);
}

inline void write_side(const fs::path& path, int rows, int cols, double pixel, int calibrated) {
  Writer f(path);
  f.group("/STEM Metadata");
  f.attribute<std::int32_t>("/STEM Metadata", "NumPixelsX", {cols}, true);
  f.attribute<std::int32_t>("/STEM Metadata", "NumPixelsY", {rows}, true);
  f.attribute<double>("/STEM Metadata", "Pixel Size", {pixel});
  f.attribute<double>("/STEM Metadata", "Rotation", {0.0});
  f.attribute<double>("/STEM Metadata", "High Tension", {300000.0});
  f.attribute<std::int32_t>("/STEM Metadata", "IsPixelSizeCalibrated", {calibrated});
}

inline void write_genuine_metadata(Writer& f, std::uint64_t h, std::uint64_t w) {
  const std::string det = "/entry/instrument/detector/", spec = det + "detectorSpecific/";
  f.text("/entry/definition", {"NXmx"});
  f.text(det + "description", {"Dectris ARINA CZT"}, true);
  f.scalar<std::uint16_t>(det + "bit_depth_image", 32);
  f.scalar<std::uint16_t>(det + "bit_depth_readout", 8);
  f.scalar<std::int64_t>(det + "saturation_value", 8352);
  f.scalar<std::int8_t>(det + "pixel_mask_applied", 1);
  f.scalar<double>(det + "beam_center_x", 0.0);
  f.scalar<double>(det + "beam_center_y", 0.0);
  f.scalar<double>(det + "detector_distance", 0.0);
  f.scalar<double>(det + "frame_time", 9.96e-5);
  f.scalar<double>(det + "x_pixel_size", 1e-4);
  f.text_attribute(det + "x_pixel_size", "units", {"m"});
  f.text(spec + "trigger_mode", {"exts"});
  f.text(spec + "compression", {"bslz4"});
  f.scalar<double>(spec + "photon_energy", 300000.0);
  f.text_attribute(spec + "photon_energy", "units", {"eV"});
  f.dataset<float>(spec + "flatfield", std::vector<float>(h * w, 1.0f), {h, w}, {.codec = "contiguous"});
}

// x_master.h5 with x_data_000001.h5 ... in `folder`; frames has sum(parts) * h * w values. Returns the master's path.
template <class T>
fs::path write_arina_set(const fs::path& folder, const std::vector<T>& frames, const std::vector<std::uint64_t>& parts,
                         std::uint64_t h, std::uint64_t w, const ArinaForm& form = {}) {
  fs::create_directories(folder);
  const fs::path master = folder / (form.stem + "_master.h5");
  Writer f(master);
  f.group("/entry/data");
  std::uint64_t first = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::string number = std::to_string(i + 1);
    number.insert(0, 6 - std::min<std::size_t>(6, number.size()), '0');
    const std::string name = form.stem + "_data_" + number + ".h5";
    DatasetForm dataset = form.dataset;
    dataset.codec = form.codecs.size() == 1 ? form.codecs[0] : form.codecs[i];
    const std::vector<T> part(frames.begin() + static_cast<std::ptrdiff_t>(first * h * w),
                              frames.begin() + static_cast<std::ptrdiff_t>((first + parts[i]) * h * w));
    write_part(folder / name, part, parts[i], h, w, form.first_number + first, dataset, form.numbers);
    f.external_link("/entry/data/data_" + number, name, "/entry/data/data");
    first += parts[i];
  }
  const std::string spec = "/entry/instrument/detector/detectorSpecific/";
  if (form.instrument) {
    if (form.nimages) f.scalar<std::uint64_t>(spec + "nimages", *form.nimages);
    f.scalar<std::uint64_t>(spec + "ntrigger", form.ntrigger.value_or(first));
    if (form.mask)
      f.dataset<std::uint32_t>(spec + "pixel_mask",
                               form.mask->empty() ? std::vector<std::uint32_t>(h * w, 0) : *form.mask, {h, w},
                               {.codec = "contiguous"});
  }
  if (form.genuine) write_genuine_metadata(f, h, w);
  if (form.extra) form.extra(f);
  if (form.side)
    write_side(folder / (form.stem + ".h5"), form.side->first, form.side->second, form.pixel_size, form.calibrated);
  return master;
}

// CONST(k + start): every pixel of frame k.
template <class T = std::uint16_t>
std::vector<T> const_frames(std::uint64_t n, std::uint64_t h, std::uint64_t w, std::uint64_t start = 0) {
  std::vector<T> v(n * h * w);
  for (std::uint64_t i = 0; i < v.size(); ++i) v[i] = static_cast<T>(i / (h * w) + start);
  return v;
}

}  // namespace quantem::support
