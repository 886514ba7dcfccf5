#include "quantem/io/hdf5_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <mutex>

#include "quantem/io/hdf5_safety.h"

namespace quantem::hdf5 {
namespace fs = std::filesystem;
namespace {

std::mutex& library_mutex() {
  static std::mutex mutex;
  return mutex;
}

constexpr std::array<unsigned char, 8> kSignature{0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
constexpr int kMaxLinkHops = 32;

std::uint64_t little(const unsigned char* p, unsigned n) {
  std::uint64_t v = 0;
  for (unsigned i = 0; i < n; ++i) v |= std::uint64_t{p[i]} << (8 * i);
  return v;
}

Error not_found(const fs::path& path) {
  std::error_code ignored;
  const bool exists = fs::exists(path, ignored);
  return Error(Code::io, path.string() + (exists ? ": cannot be read (permission?)" : ": no such file"));
}

}  // namespace

Lock::Lock() {
  library_mutex().lock();
  H5open();
  H5Eget_auto2(H5E_DEFAULT, &print_, &print_data_);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  H5PLget_loading_state(&plugins_);
  H5PLset_loading_state(0);
}

Lock::~Lock() {
  H5PLset_loading_state(plugins_);
  H5Eset_auto2(H5E_DEFAULT, print_, print_data_);
  library_mutex().unlock();
}

std::optional<std::uint64_t> find_signature(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  in.seekg(0, std::ios::end);
  const auto bytes = static_cast<std::uint64_t>(std::max<std::streamoff>(0, in.tellg()));
  for (std::uint64_t at = 0; at + 8 <= bytes; at = at == 0 ? 512 : 2 * at) {
    std::array<unsigned char, 8> start{};
    in.seekg(static_cast<std::streamoff>(at));
    in.read(reinterpret_cast<char*>(start.data()), 8);
    if (!in) return std::nullopt;
    if (start == kSignature) return at;
  }
  return std::nullopt;
}

Result<Superblock> read_superblock(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return not_found(path);
  const auto at = find_signature(path);
  if (!at) return Error(Code::corrupt_data, path.filename().string() + ": not an HDF5 file (no signature)");
  std::array<unsigned char, 96> b{};
  in.seekg(static_cast<std::streamoff>(*at));
  in.read(reinterpret_cast<char*>(b.data()), b.size());
  const auto n = static_cast<std::uint64_t>(in.gcount());
  Superblock s;
  s.version = b[8];
  if (s.version > 3)
    return Error(Code::unsupported, path.filename().string() + ": HDF5 superblock version " +
                                        std::to_string(s.version) + ", 0 to 3 are read");
  const bool old = s.version < 2;
  s.address_bytes = b[old ? 13 : 9];
  s.length_bytes = b[old ? 14 : 10];
  const std::size_t first = s.version == 0   ? 24
                            : s.version == 1 ? 28
                                             : 12;  // base address, another address, end address
  if ((s.address_bytes != 2 && s.address_bytes != 4 && s.address_bytes != 8) ||
      first + (old ? 6 : 4) * s.address_bytes > n)
    return Error(Code::corrupt_data, path.filename().string() + ": HDF5 superblock is damaged");
  // After these versions 0 and 1 have the driver's block and the root group's link: its name, then its header.
  const std::size_t root = first + (old ? 5 : 3) * s.address_bytes;
  s.base = little(&b[first], s.address_bytes);
  s.root = little(&b[root], s.address_bytes);
  if (old) s.leaf_k = little(&b[16], 2);
  s.end = little(&b[first + 2 * s.address_bytes], s.address_bytes);
  return s;
}

namespace {

// Files with narrower addresses, which nobody writes, are left to libhdf5.
std::optional<std::string> fault_before_opening(const File& file, std::uint64_t header_address) {
  if (!file.has_wide_addresses() || file.looked_at.contains(header_address)) return std::nullopt;
  auto fault = fault_of_object(*file.raw, header_address, file.superblock.leaf_k);
  if (!fault) file.looked_at.insert(header_address);
  return fault;
}

// libhdf5 takes a name with a slash for a path, and follows links along it.
bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name.find('/') == std::string_view::npos;
}

// Lets libhdf5 open a file that is shorter than it should be; false where it does not know how. Behind the end it would see zeros,
// so nothing there is left to it: headers are looked at first, and values are read by this program.
bool skip_end_check(const Id& access) {
  constexpr const char* kProperty = "skip_eof_check";  // H5F_ACS_SKIP_EOF_CHECK_NAME of its sources
  const hbool_t skip = true;
  std::size_t bytes = 0;
  return access && H5Pexist(access.get(), kProperty) > 0 && H5Pget_size(access.get(), kProperty, &bytes) >= 0 &&
         bytes == sizeof skip && H5Pset(access.get(), kProperty, &skip) >= 0;
}

}  // namespace

Error damaged_in(const File& file, const std::string& what) {
  return file.cut_off.empty() ? Error(Code::corrupt_data, what) : Error(Code::missing_data, file.cut_off + "; " + what);
}

Result<std::shared_ptr<const File>> open_file(const fs::path& path, Missing missing) {
  auto file = std::make_shared<File>();
  file->path = path;
  std::error_code failed;
  file->real_path = fs::canonical(path, failed);
  if (failed) return not_found(path);
  file->bytes = fs::file_size(file->real_path, failed);
  if (failed) return Error(Code::io, path.string() + ": not a file");
  QUANTEM_TRY_ASSIGN(superblock, read_superblock(path));
  file->superblock = superblock;
  file->missing = missing;
  Id access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  if (superblock.end > file->bytes) {
    file->cut_off = file->name() + " is cut off: it has " + std::to_string(file->bytes) +
                    " bytes and its HDF5 header says " + std::to_string(superblock.end);
    if (missing == Missing::error)
      return Error(Code::missing_data, file->cut_off + "; copy it again, or missing=\"mark\" loads what is whole");
    if (!skip_end_check(access)) return Error(Code::missing_data, file->cut_off + "; copy it again");
  }
  file->raw = std::make_unique<const RawFile>(file->real_path, superblock.base);
#if H5_VERSION_GE(1, 12, 1) || (H5_VERS_MAJOR == 1 && H5_VERS_MINOR == 10 && H5_VERS_RELEASE >= 7)
  H5Pset_file_locking(access.get(), false, true);
#endif
  if (auto fault = fault_before_opening(*file, superblock.root))  // H5Fopen opens the root group
    return damaged_in(*file, file->name() + ": /: " + *fault);
  file->id = Id(H5Fopen(file->real_path.c_str(), H5F_ACC_RDONLY, access.get()), H5Fclose);
  if (!file->id) return damaged_in(*file, file->name() + ": HDF5 cannot open it (" + last_reason() + ")");
  Id made(H5Fget_create_plist(file->id.get()), H5Pclose);
  unsigned node_k = 0, leaf_k = 0;
  if (made && H5Pget_sym_k(made.get(), &node_k, &leaf_k) >= 0) file->superblock.leaf_k = leaf_k;
  return std::shared_ptr<const File>(std::move(file));
}

namespace {

// The file that an external link in `from` names: absolute as it stands, relative to the real directory of `from`.
Result<std::shared_ptr<const File>> open_linked(const File& from, const std::string& target, const std::string& link) {
  const fs::path wanted = fs::path(target).is_absolute() ? fs::path(target) : from.real_path.parent_path() / target;
  std::error_code ignored;
  if (!fs::exists(wanted, ignored))
    return Error(Code::missing_data, wanted.filename().string() + " not found in " + wanted.parent_path().string() +
                                         " (external link " + link + " of " + from.name() + ")");
  if (fs::equivalent(wanted, from.real_path, ignored))
    return Error(Code::unsupported, from.name() + ": external link " + link + " leads to the same file");
  return open_file(wanted, from.missing);
}

std::string soft_target(hid_t group, const std::string& name, std::size_t bytes) {
  std::string value(bytes, '\0');
  if (H5Lget_val(group, name.c_str(), value.data(), value.size(), H5P_DEFAULT) < 0) return {};
  return value.substr(0, value.find('\0'));
}

// File and object path of an external link.
std::optional<std::pair<std::string, std::string>> external_target(hid_t group, const std::string& name,
                                                                   std::size_t bytes) {
  std::string value(bytes, '\0');
  if (H5Lget_val(group, name.c_str(), value.data(), value.size(), H5P_DEFAULT) < 0) return std::nullopt;
  const char *file = nullptr, *object = nullptr;
  if (H5Lunpack_elink_val(value.data(), value.size(), nullptr, &file, &object) < 0 || !file || !object)
    return std::nullopt;
  return std::pair<std::string, std::string>(file, object);
}

Result<Object> find_from_root(const std::shared_ptr<const File>& file, std::string_view path, int hops) {
  if (hops > kMaxLinkHops)
    return Error(Code::corrupt_data, file->name() + ": " + std::string(path) + ": links lead in a circle");
  Object at{file, "/", Id(H5Gopen2(file->id.get(), "/", H5P_DEFAULT), H5Gclose)};
  if (!at.id) return damaged_in(*file, file->name() + ": no root group (" + last_reason() + ")");
  while (!path.empty()) {
    const std::size_t cut = std::min(path.find('/'), path.size());
    const std::string name(path.substr(0, cut));
    path.remove_prefix(std::min(cut + 1, path.size()));
    if (name.empty() || name == ".") continue;
    const std::string inside = at.path == "/" ? "/" : at.path + "/";
    H5L_info_t info;
    if (!at.is_group() || H5Lget_info(at.id.get(), name.c_str(), &info, H5P_DEFAULT) < 0)
      return Error(Code::missing_data, file->name() + ": there is no '" + name + "' in " + at.path);
    if (info.type == H5L_TYPE_HARD) {
      QUANTEM_TRY_ASSIGN(next, open_member(at, name));
      at = std::move(next);
    } else if (info.type == H5L_TYPE_SOFT && info.u.val_size < 65536) {
      std::string target = soft_target(at.id.get(), name, info.u.val_size);
      if (target.empty() || target.front() != '/') target = inside + target;
      return find_from_root(file, target + "/" + std::string(path), hops + 1);
    } else if (info.type == H5L_TYPE_EXTERNAL && info.u.val_size < 131072) {
      const auto target = external_target(at.id.get(), name, info.u.val_size);
      if (!target) return Error(Code::corrupt_data, file->name() + ": external link " + inside + name + " is damaged");
      QUANTEM_TRY_ASSIGN(other, open_linked(*file, target->first, inside + name));
      return find_from_root(other, target->second + "/" + std::string(path), hops + 1);
    } else {
      return Error(Code::unsupported, file->name() + ": " + inside + name + " is a link of an unknown kind");
    }
  }
  return at;
}

herr_t collect_link(hid_t group, const char* name, const H5L_info_t* info, void* data) {
  auto& [links, limit] = *static_cast<std::pair<std::vector<Link>*, std::size_t>*>(data);
  if (links->size() >= limit) return 1;
  Link link;
  link.name = name;
  if (!is_plain_name(name)) return 0;  // only in damaged files
  if (info->type == H5L_TYPE_SOFT) {
    link.kind = LinkKind::soft;
    if (info->u.val_size < 65536) link.target_path = soft_target(group, name, info->u.val_size);
  } else if (info->type == H5L_TYPE_EXTERNAL) {
    link.kind = LinkKind::external;
    if (info->u.val_size < 131072)
      if (auto target = external_target(group, name, info->u.val_size))
        std::tie(link.target_file, link.target_path) = std::move(*target);
  } else if (info->type != H5L_TYPE_HARD) {
    link.kind = LinkKind::other;
  }
  links->push_back(std::move(link));
  return 0;
}

herr_t innermost(unsigned, const H5E_error2_t* error, void* data) {
  auto& text = *static_cast<std::string*>(data);
  if (text.empty() && error->desc) text = error->desc;
  return 0;
}

}  // namespace

Result<Object> open_member(const Object& group, const std::string& name) {
  const std::string path = (group.path == "/" ? "/" : group.path + "/") + name;
  const auto refuse = [&](const std::string& why) {
    return damaged_in(*group.file, group.file->name() + ": " + path + ": " + why);
  };
  H5L_info_t info;
  if (!is_plain_name(name) || H5Lget_info(group.id.get(), name.c_str(), &info, H5P_DEFAULT) < 0 ||
      info.type != H5L_TYPE_HARD)
    return refuse("not a member of the file itself");
  if (auto fault = fault_before_opening(*group.file, info.u.address)) return refuse(*fault);
  Object member{group.file, path, Id(H5Oopen(group.id.get(), name.c_str(), H5P_DEFAULT), H5Oclose)};
  if (!member.id) return refuse("HDF5 cannot open it (" + last_reason() + ")");
  return member;
}

Result<Object> find_object(const std::shared_ptr<const File>& file, std::string_view path) {
  return find_from_root(file, path, 0);
}

std::vector<Link> list_links(const Object& group, std::size_t limit) {
  std::vector<Link> links;
  if (!group.is_group()) return links;
  std::pair<std::vector<Link>*, std::size_t> to{&links, limit};
  H5Literate(group.id.get(), H5_INDEX_NAME, H5_ITER_INC, nullptr, collect_link, &to);
  return links;
}

std::string last_reason() {
  std::string text;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, innermost, &text);
  return text.empty() ? "no reason given" : text;
}

}  // namespace quantem::hdf5
