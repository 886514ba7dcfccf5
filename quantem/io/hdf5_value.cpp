// Small HDF5 values (attributes, scalars, strings) as JSON.

#include <cstring>

#include "quantem/io/hdf5_file.h"

namespace quantem::hdf5 {
namespace {
using nlohmann::json;

constexpr std::size_t kMaxValueBytes = 65536;
constexpr hssize_t kMaxElements = 4096;

std::string text_of(const char* p, std::size_t n) {
  std::string s(p, strnlen(p, n));
  while (!s.empty() && s.back() == ' ') s.pop_back();
  return s;
}

template <class T>
json element(const std::byte* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

json integer_element(const std::byte* p, std::size_t bytes, bool is_signed) {
  switch (bytes) {
    case 1:
      return is_signed ? element<std::int8_t>(p) : element<std::uint8_t>(p);
    case 2:
      return is_signed ? element<std::int16_t>(p) : element<std::uint16_t>(p);
    case 4:
      return is_signed ? element<std::int32_t>(p) : element<std::uint32_t>(p);
    default:
      return is_signed ? element<std::int64_t>(p) : element<std::uint64_t>(p);
  }
}

// Nests a flat list by the shape; a scalar space gives the element itself.
json nest(const std::vector<json>& flat, const std::vector<hsize_t>& shape, std::size_t axis, std::size_t& at) {
  if (axis == shape.size()) return at < flat.size() ? flat[at++] : json();
  json list = json::array();
  for (hsize_t i = 0; i < shape[axis]; ++i) list.push_back(nest(flat, shape, axis + 1, at));
  return list;
}

// read(memory type, destination) is H5Aread or H5Dread.
template <class Read>
std::optional<json> value_of(const Id& type, const Id& space, Read read) {
  if (!type || !space) return std::nullopt;
  const hssize_t n = H5Sget_simple_extent_npoints(space.get());
  const int rank = H5Sget_simple_extent_ndims(space.get());
  if (n <= 0 || n > kMaxElements || rank < 0 || rank > 4) return std::nullopt;
  std::vector<hsize_t> shape(static_cast<std::size_t>(rank));
  if (rank > 0) H5Sget_simple_extent_dims(space.get(), shape.data(), nullptr);
  const std::size_t count = static_cast<std::size_t>(n), stored = H5Tget_size(type.get());
  if (stored == 0 || stored * count > kMaxValueBytes) return std::nullopt;
  std::vector<json> flat;
  flat.reserve(count);
  const H5T_class_t kind = H5Tget_class(type.get());
  if (kind == H5T_STRING && H5Tis_variable_str(type.get()) > 0) {
    Id memory(H5Tcopy(H5T_C_S1), H5Tclose);
    H5Tset_size(memory.get(), H5T_VARIABLE);
    H5Tset_cset(memory.get(), H5Tget_cset(type.get()));
    std::vector<char*> texts(count, nullptr);
    const bool good = read(memory.get(), texts.data()) >= 0;
    for (const char* text : texts) flat.push_back(text ? text_of(text, kMaxValueBytes) : std::string());
    if (good) H5Dvlen_reclaim(memory.get(), space.get(), H5P_DEFAULT, texts.data());
    if (!good) return std::nullopt;
  } else if (kind == H5T_STRING) {
    std::vector<char> bytes(stored * count);
    if (read(type.get(), bytes.data()) < 0) return std::nullopt;
    for (std::size_t i = 0; i < count; ++i) flat.push_back(text_of(&bytes[i * stored], stored));
  } else if (kind == H5T_INTEGER || kind == H5T_ENUM || kind == H5T_FLOAT) {
    Id memory(kind == H5T_FLOAT ? H5Tcopy(H5T_NATIVE_DOUBLE) : H5Tget_native_type(type.get(), H5T_DIR_ASCEND),
              H5Tclose);
    Id base(kind == H5T_ENUM ? H5Tget_super(memory.get()) : H5Tcopy(memory.get()), H5Tclose);
    if (!memory || !base) return std::nullopt;
    const std::size_t item = H5Tget_size(memory.get());
    if (item > 8) return std::nullopt;
    const bool is_signed = kind != H5T_FLOAT && H5Tget_sign(base.get()) == H5T_SGN_2;
    std::vector<std::byte> bytes(item * count);
    if (read(memory.get(), bytes.data()) < 0) return std::nullopt;
    for (std::size_t i = 0; i < count; ++i)
      flat.push_back(kind == H5T_FLOAT ? element<double>(&bytes[i * item])
                                       : integer_element(&bytes[i * item], item, is_signed));
  } else {
    return std::nullopt;
  }
  std::size_t at = 0;
  return nest(flat, shape, 0, at);
}

std::optional<json> read_open_attribute(const Id& attribute) {
  if (!attribute) return std::nullopt;
  return value_of(Id(H5Aget_type(attribute.get()), H5Tclose), Id(H5Aget_space(attribute.get()), H5Sclose),
                  [&](hid_t memory, void* to) { return H5Aread(attribute.get(), memory, to); });
}

herr_t collect_name(hid_t, const char* name, const H5A_info_t*, void* names) {
  auto& list = *static_cast<std::vector<std::string>*>(names);
  list.emplace_back(name);
  return list.size() >= 1000;
}

// The element of a one-element array, however deep.
const json* single(const std::optional<json>& value) {
  if (!value) return nullptr;
  const json* v = &*value;
  while (v->is_array() && v->size() == 1) v = &v->front();
  return v->is_array() ? nullptr : v;
}

}  // namespace

std::optional<json> read_attribute(const Object& object, const std::string& name) {
  if (!object.id || H5Aexists(object.id.get(), name.c_str()) <= 0) return std::nullopt;
  return read_open_attribute(Id(H5Aopen(object.id.get(), name.c_str(), H5P_DEFAULT), H5Aclose));
}

json read_attributes(const Object& object) {
  json all = json::object();
  if (!object.id) return all;
  std::vector<std::string> names;
  H5Aiterate2(object.id.get(), H5_INDEX_NAME, H5_ITER_INC, nullptr, collect_name, &names);
  for (const std::string& name : names)
    if (auto value = read_attribute(object, name)) all[name] = std::move(*value);
  return all;
}

std::optional<json> read_value(const Object& dataset) {
  if (!dataset.is_dataset()) return std::nullopt;
  const hid_t id = dataset.id.get();
  Id made(H5Dget_create_plist(id), H5Pclose);
  if (!made || H5Pget_layout(made.get()) == H5D_VIRTUAL || H5Pget_external_count(made.get()) > 0) return std::nullopt;
  return value_of(Id(H5Dget_type(id), H5Tclose), Id(H5Dget_space(id), H5Sclose),
                  [&](hid_t memory, void* to) { return H5Dread(id, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, to); });
}

std::optional<json> read_value(const std::shared_ptr<const File>& file, std::string_view path) {
  auto object = find_object(file, path);
  return object ? read_value(*object) : std::nullopt;
}

std::optional<double> as_number(const std::optional<json>& value) {
  const json* v = single(value);
  return v && v->is_number() ? std::optional(v->get<double>()) : std::nullopt;
}

std::optional<std::uint64_t> as_count(const std::optional<json>& value) {
  const json* v = single(value);
  if (!v || !v->is_number()) return std::nullopt;
  if (v->is_number_unsigned()) return v->get<std::uint64_t>();
  if (v->is_number_integer())
    return v->get<std::int64_t>() >= 0 ? std::optional(static_cast<std::uint64_t>(v->get<std::int64_t>()))
                                       : std::nullopt;
  const double d = v->get<double>();  // some writers store counts as floats
  return d >= 0 && d < 1e15 && d == static_cast<double>(static_cast<std::uint64_t>(d))
             ? std::optional(static_cast<std::uint64_t>(d))
             : std::nullopt;
}

std::optional<std::string> as_text(const std::optional<json>& value) {
  const json* v = single(value);
  return v && v->is_string() ? std::optional(v->get<std::string>()) : std::nullopt;
}

}  // namespace quantem::hdf5
