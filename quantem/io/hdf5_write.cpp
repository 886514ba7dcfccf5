#include "quantem/io/hdf5_write.h"

#include <cstring>

namespace quantem::hdf5 {
namespace {

// Closes an identifier when the block ends.
struct Closer {
  hid_t id;
  herr_t (*close)(hid_t);
  ~Closer() {
    if (id >= 0) close(id);
  }
};

hid_t text_type(const std::string& value) {
  const hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, std::max<std::size_t>(1, value.size()));
  H5Tset_strpad(type, H5T_STR_NULLPAD);
  H5Tset_cset(type, H5T_CSET_UTF8);
  return type;
}

}  // namespace

Writer::Writer(const std::filesystem::path& path) : path_(path) {
  const Closer access{H5Pcreate(H5P_FILE_ACCESS), H5Pclose};
  H5Pset_fclose_degree(access.id, H5F_CLOSE_STRONG);
#if H5_VERSION_GE(1, 12, 1) || (H5_VERS_MAJOR == 1 && H5_VERS_MINOR == 10 && H5_VERS_RELEASE >= 7)
  H5Pset_file_locking(access.id, false, true);
#endif
  links_ = H5Pcreate(H5P_LINK_CREATE);
  H5Pset_create_intermediate_group(links_, 1);
  file_ = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.id);
  check(file_ >= 0, "create");
}

Writer::~Writer() {
  if (frames_ >= 0) H5Dclose(frames_);
  if (file_ >= 0) H5Fclose(file_);
  if (links_ >= 0) H5Pclose(links_);
}

void Writer::check(bool good, const std::string& what) {
  if (!good && failure_.empty()) failure_ = what;
}

void Writer::group(const std::string& path, const std::string& nx_class) {
  if (!failure_.empty()) return;
  const Closer g{H5Gcreate2(file_, path.c_str(), links_, H5P_DEFAULT, H5P_DEFAULT), H5Gclose};
  check(g.id >= 0, path);
  if (!nx_class.empty()) text_attribute(path, "NX_class", nx_class);
}

void Writer::dataset(const std::string& path, hid_t file_type, hid_t memory_type, hid_t space, const void* values) {
  if (!failure_.empty()) return;
  const Closer d{H5Dcreate2(file_, path.c_str(), file_type, space, links_, H5P_DEFAULT, H5P_DEFAULT), H5Dclose};
  check(d.id >= 0 && H5Dwrite(d.id, memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0, path);
}

void Writer::text(const std::string& path, const std::string& value) {
  const Closer type{text_type(value), H5Tclose}, space{H5Screate(H5S_SCALAR), H5Sclose};
  dataset(path, type.id, type.id, space.id, value.c_str());
}

void Writer::number(const std::string& path, double value, const std::string& units) {
  const Closer space{H5Screate(H5S_SCALAR), H5Sclose};
  dataset(path, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, space.id, &value);
  if (!units.empty()) text_attribute(path, "units", units);
}

void Writer::integer(const std::string& path, hid_t file_type, std::int64_t value) {
  const Closer space{H5Screate(H5S_SCALAR), H5Sclose};
  dataset(path, file_type, H5T_NATIVE_INT64, space.id, &value);
}

void Writer::array(const std::string& path, hid_t file_type, hid_t memory_type, std::span<const hsize_t> shape,
                   const void* values) {
  const Closer space{H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr), H5Sclose};
  dataset(path, file_type, memory_type, space.id, values);
}

void Writer::external_link(const std::string& path, const std::string& file, const std::string& target) {
  if (failure_.empty())
    check(H5Lcreate_external(file.c_str(), target.c_str(), file_, path.c_str(), links_, H5P_DEFAULT) >= 0, path);
}

void Writer::text_attribute(const std::string& object, const std::string& name, const std::string& value) {
  if (!failure_.empty()) return;
  const Closer type{text_type(value), H5Tclose}, space{H5Screate(H5S_SCALAR), H5Sclose};
  const Closer a{
      H5Acreate_by_name(file_, object.c_str(), name.c_str(), type.id, space.id, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
      H5Aclose};
  check(a.id >= 0 && H5Awrite(a.id, type.id, value.c_str()) >= 0, object + "@" + name);
}

void Writer::integer_attribute(const std::string& object, const std::string& name, hid_t type,
                               std::span<const std::uint64_t> values, bool scalar) {
  if (!failure_.empty()) return;
  const hsize_t n = values.size();
  const Closer space{scalar ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &n, nullptr), H5Sclose};
  const Closer a{
      H5Acreate_by_name(file_, object.c_str(), name.c_str(), type, space.id, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
      H5Aclose};
  check(a.id >= 0 && H5Awrite(a.id, H5T_NATIVE_UINT64, values.data()) >= 0, object + "@" + name);
}

void Writer::begin_frames(const std::string& path, hid_t type, std::size_t item_bytes, hsize_t n_frames, hsize_t rows,
                          hsize_t cols) {
  if (!failure_.empty()) return;
  const hsize_t shape[3] = {n_frames, rows, cols}, most[3] = {H5S_UNLIMITED, rows, cols}, chunk[3] = {1, rows, cols};
  const Closer space{H5Screate_simple(3, shape, most), H5Sclose}, create{H5Pcreate(H5P_DATASET_CREATE), H5Pclose};
  const std::uint32_t all_bits = ~std::uint32_t{0};  // the low bytes serve every unsigned type
  // The filter is only named: this program writes finished chunks. Optional, because libhdf5 refuses a required filter that is not
  // registered; readers need it all the same.
  const unsigned client[5] = {0, 3, static_cast<unsigned>(item_bytes), 0, 2};
  const bool set = H5Pset_chunk(create.id, 3, chunk) >= 0 && H5Pset_fill_value(create.id, type, &all_bits) >= 0 &&
                   H5Pset_fill_time(create.id, H5D_FILL_TIME_IFSET) >= 0 &&
                   H5Pset_alloc_time(create.id, H5D_ALLOC_TIME_INCR) >= 0 &&
                   H5Pset_filter(create.id, 32008, H5Z_FLAG_OPTIONAL, 5, client) >= 0;
  check(set, path);
  if (!set) return;
  frames_ = H5Dcreate2(file_, path.c_str(), type, space.id, links_, create.id, H5P_DEFAULT);
  check(frames_ >= 0, path);
}

void Writer::write_frame(hsize_t frame, std::span<const std::byte> chunk) {
  if (!failure_.empty()) return;
  const hsize_t offset[3] = {frame, 0, 0};
  check(H5Dwrite_chunk(frames_, H5P_DEFAULT, 0, offset, chunk.size(), chunk.data()) >= 0,
        "frame " + std::to_string(frame));
}

Result<Done> Writer::close() {
  if (frames_ >= 0) check(H5Dclose(frames_) >= 0, "close");
  frames_ = -1;
  if (file_ >= 0) check(H5Fclose(file_) >= 0, "close");
  file_ = -1;
  if (failure_.empty()) return Done{};
  return Error{Code::io, path_.string() + ": HDF5 cannot write " + failure_ + " (disk full, or not writable)"};
}

}  // namespace quantem::hdf5
