// Small HDF5 values (attributes, scalars, strings) as JSON.

#include <algorithm>
#include <cstring>

#include "quantem/io/dataset_bytes_locked.h"
#include "quantem/io/hdf5_file.h"
#include "quantem/io/hdf5_safety.h"

namespace quantem::hdf5 {
namespace {
using nlohmann::json;

constexpr std::size_t kMaxValueBytes = 65536;
constexpr std::uint64_t kMaxElements = 4096;

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

// Elements of a small array; the product of damaged extents may pass 2^64 and look small.
std::optional<std::size_t> count_of(const Id& space, std::vector<hsize_t>& shape) {
  const int rank = space ? H5Sget_simple_extent_ndims(space.get()) : -1;
  if (rank < 0 || rank > 4 || H5Sget_simple_extent_type(space.get()) == H5S_NULL) return std::nullopt;
  shape.resize(static_cast<std::size_t>(rank));
  if (rank > 0 && H5Sget_simple_extent_dims(space.get(), shape.data(), nullptr) < 0) return std::nullopt;
  std::uint64_t count = 1;
  for (const hsize_t n : shape) {
    if (n == 0 || n > kMaxElements || count * n > kMaxElements) return std::nullopt;
    count *= n;
  }
  return static_cast<std::size_t>(count);
}

// read(memory type, destination) fills count elements, texts(count) those of variable length.
template <class Read, class Texts>
std::optional<json> value_of(const Id& type, const Id& space, Read read, Texts texts) {
  std::vector<hsize_t> shape;
  const auto counted = type ? count_of(space, shape) : std::nullopt;
  if (!counted) return std::nullopt;
  const std::size_t count = *counted, stored = H5Tget_size(type.get());
  if (stored == 0 || stored * count > kMaxValueBytes) return std::nullopt;
  std::vector<json> flat;
  flat.reserve(count);
  const H5T_class_t kind = H5Tget_class(type.get());
  if (kind == H5T_STRING && H5Tis_variable_str(type.get()) > 0) {
    const auto all = texts(count);
    if (!all || all->size() != count) return std::nullopt;
    for (const std::string& text : *all) flat.push_back(text_of(text.data(), std::min(text.size(), kMaxValueBytes)));
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
    if (item != 1 && item != 2 && item != 4 && item != 8) return std::nullopt;
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
  const Id type(H5Aget_type(attribute.get()), H5Tclose), space(H5Aget_space(attribute.get()), H5Sclose);
  const auto read = [&](hid_t memory, void* to) { return H5Aread(attribute.get(), memory, to); };
  const auto texts = [&](std::size_t count) -> std::optional<std::vector<std::string>> {
    Id memory(H5Tcopy(H5T_C_S1), H5Tclose);
    H5Tset_size(memory.get(), H5T_VARIABLE);
    H5Tset_cset(memory.get(), H5Tget_cset(type.get()));
    std::vector<char*> pointers(count, nullptr);
    if (read(memory.get(), pointers.data()) < 0) return std::nullopt;
    std::vector<std::string> all;
    for (const char* text : pointers)
      all.push_back(text ? std::string(text, strnlen(text, kMaxValueBytes)) : std::string());
    H5Dvlen_reclaim(memory.get(), space.get(), H5P_DEFAULT, pointers.data());
    return all;
  };
  return value_of(type, space, read, texts);
}

// The bytes are read and decoded by this program; libhdf5 only converts numbers.
std::optional<json> read_small_dataset(const Object& dataset) {
  const Id type(H5Dget_type(dataset.id.get()), H5Tclose), space(H5Dget_space(dataset.id.get()), H5Sclose);
  const auto read = [&](hid_t memory, void* to) -> herr_t {
    const auto data = read_dataset_bytes_locked(dataset, kMaxValueBytes);
    const std::size_t from = H5Tget_size(type.get()), into = H5Tget_size(memory);
    if (!data || from == 0 || data->item_bytes != from) return -1;
    const std::size_t count = data->bytes.size() / from;
    std::vector<std::byte> bytes(std::max(from, into) * count);
    std::copy(data->bytes.begin(), data->bytes.end(), bytes.begin());
    if (H5Tconvert(type.get(), memory, count, bytes.data(), nullptr, H5P_DEFAULT) < 0) return -1;
    std::memcpy(to, bytes.data(), into * count);
    return 0;
  };
  const auto texts = [&](std::size_t) -> std::optional<std::vector<std::string>> {
    if (!dataset.file->has_wide_addresses()) return std::nullopt;
    const auto data = read_dataset_bytes_locked(dataset, 2 * kMaxValueBytes);
    if (!data || data->item_bytes != 16) return std::nullopt;
    return referred_texts(*dataset.file->raw,
                          {reinterpret_cast<const unsigned char*>(data->bytes.data()), data->bytes.size()});
  };
  return value_of(type, space, read, texts);
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
  return dataset.is_dataset() ? read_small_dataset(dataset) : std::nullopt;
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
