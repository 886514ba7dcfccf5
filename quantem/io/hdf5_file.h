#pragma once
// libhdf5, used for structure only: which objects there are and their attributes. Values of datasets are never read through it, and
// every object is looked at (hdf5_safety.h) before it opens it. Read-only, without file locks, without plugins. libhdf5 is not thread-safe: whoever calls anything here holds a Lock.
// Links are followed by this program, not by libhdf5, so that an external link means what the file says and nothing else: no
// environment prefix, no current directory.

#define H5_USE_110_API
#include <hdf5.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "quantem/core/result.h"
#include "quantem/io/hdf5_chunks.h"

namespace quantem::hdf5 {

// Holds the one mutex around libhdf5, with its error printing off and its plugin search off; both are put back at the end.
class Lock {
 public:
  Lock();
  ~Lock();
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  H5E_auto2_t print_ = nullptr;
  void* print_data_ = nullptr;
  unsigned plugins_ = 0;
};

// An identifier of libhdf5, closed by the function that belongs to its kind.
class Id {
 public:
  using Close = herr_t (*)(hid_t);
  Id() = default;
  Id(hid_t id, Close close) : id_(id), close_(close) {}
  Id(Id&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Id& operator=(Id&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  ~Id() {
    if (id_ >= 0) close_(id_);
  }
  explicit operator bool() const { return id_ >= 0; }
  [[nodiscard]] hid_t get() const { return id_; }

 private:
  hid_t id_ = -1;
  Close close_ = nullptr;
};

// The start of the file, read by this program. Addresses in the file are relative to `base` (the length of a user block).
struct Superblock {
  unsigned version = 0, address_bytes = 0, length_bytes = 0;
  std::uint64_t base = 0, end = 0;  // end: the file's size as its writer knew it
  std::uint64_t root = 0;           // the root group's object header
  std::uint64_t leaf_k = 0;         // half the most entries of a symbol table node; 0: not said here (versions 2 and 3)
};
// Where the HDF5 signature starts (0, 512, 1024, ...), or nothing.
std::optional<std::uint64_t> find_signature(const std::filesystem::path& path);
Result<Superblock> read_superblock(const std::filesystem::path& path);

struct File {
  std::filesystem::path path;       // as opened
  std::filesystem::path real_path;  // symlinks resolved: where relative links start
  Superblock superblock;
  std::uint64_t bytes = 0;
  std::unique_ptr<const RawFile> raw;
  Missing missing = Missing::error;  // as opened; files that its links lead to are opened the same way
  std::string cut_off;               // "x.h5 is cut off: it has N bytes and its HDF5 header says M"; empty when whole
  Id id;
  mutable std::set<std::uint64_t> looked_at;  // object headers without a fault; under the Lock like all of libhdf5
  mutable std::map<std::uint64_t, ChunkIndexTask>
      read_ahead;  // by their address: chunk indices that wait to be asked for
  [[nodiscard]] bool has_wide_addresses() const {
    return superblock.address_bytes == 8 && superblock.length_bytes == 8;
  }
  [[nodiscard]] std::string name() const { return path.filename().string(); }
};
// io: cannot be read. missing_data: shorter than its superblock says, with both sizes. corrupt_data: libhdf5 refuses it.
// Missing::mark opens a file that is cut off (where libhdf5 can): what lies beyond its end is then missing_data.
Result<std::shared_ptr<const File>> open_file(const std::filesystem::path& path, Missing missing = Missing::error);
// What is said about something damaged in `file`: missing_data, with both sizes, when it is cut off.
Error damaged_in(const File& file, const std::string& what);

// An object, with the file it was found in and its path there.
struct Object {
  std::shared_ptr<const File> file;
  std::string path;
  Id id;
  [[nodiscard]] std::string where() const { return file->name() + ": " + path; }
  [[nodiscard]] bool is_dataset() const { return id && H5Iget_type(id.get()) == H5I_DATASET; }
  [[nodiscard]] bool is_group() const { return id && H5Iget_type(id.get()) == H5I_GROUP; }
};
// Follows hard, soft and external links. missing_data names what was not found and, for a file, the directory searched.
Result<Object> find_object(const std::shared_ptr<const File>& file, std::string_view path);

// The member that a hard link of `group` leads to. corrupt_data says what is wrong with it.
Result<Object> open_member(const Object& group, const std::string& name);

enum class LinkKind : std::uint8_t { hard, soft, external, other };
struct Link {
  std::string name;
  LinkKind kind = LinkKind::hard;
  std::string target_file, target_path;  // external; soft: target_path
};
// The members of a group in name order, at most `limit`. Not a group: none.
std::vector<Link> list_links(const Object& group, std::size_t limit = 100000);

// Small values as JSON: integers, floats, strings, arrays of these (nested for rank above 1). Nothing for what is absent, larger
// than 64 KiB, of another type, or not readable without following something else.
std::optional<nlohmann::json> read_attribute(const Object& object, const std::string& name);
std::optional<nlohmann::json> read_value(const Object& dataset);
std::optional<nlohmann::json> read_value(const std::shared_ptr<const File>& file, std::string_view path);
nlohmann::json read_attributes(const Object& object);  // all that can be read

// One number or text out of such a value; arrays of one element count as the element.
std::optional<double> as_number(const std::optional<nlohmann::json>& value);
std::optional<std::uint64_t> as_count(const std::optional<nlohmann::json>& value);
std::optional<std::string> as_text(const std::optional<nlohmann::json>& value);

// What libhdf5 says about the last failure, innermost description.
std::string last_reason();

}  // namespace quantem::hdf5
