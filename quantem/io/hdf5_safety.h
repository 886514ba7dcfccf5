#pragma once
// Looks at an object before libhdf5 does. libhdf5 1.10 ends the process, reads past its buffers or loops without end on some
// damaged descriptions: selections of a virtual dataset with a rank above 32, a global heap with an object of no bytes, a free list
// that points at itself, an enumeration longer than its message. These are refused here first. What this program does not
// understand (a newer version of a message) is left to libhdf5. Not looked at: fractal heaps (groups and attributes in "dense"
// storage of the 1.8 format), shared message tables, files with addresses of other than 8 bytes.
// Layouts after the HDF5 File Format Specification, version 3.0, sections III and IV.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "quantem/io/hdf5_chunks.h"
#include "quantem/io/hdf5_header.h"

namespace quantem::hdf5 {

// What is wrong with the object whose header starts at `header_address`, as the end of a sentence, or nothing. `leaf_k`: half the
// most entries of a symbol table node (superblock); 0 when unknown.
std::optional<std::string> fault_of_object(const RawFile& file, std::uint64_t header_address, std::uint64_t leaf_k);

// Of a group of the old kind: its local heap (free list, names) and its B-tree down to the names. Null when whole.
const char* fault_of_group(const RawFile& file, std::uint64_t btree, std::uint64_t heap, std::uint64_t leaf_k);

// Of a Link Info (2) or Attribute Info (21) message: the heap and the B-trees that it names. `index_bytes`: of its creation index, 8 or 2.
// Null when whole.
const char* fault_of_dense(const RawFile& file, std::span<const unsigned char> body, std::size_t index_bytes);

// A global heap collection: texts of variable length, lists of virtual sources. read() gives nothing when it is damaged anywhere.
class GlobalHeap {
 public:
  static std::optional<GlobalHeap> read(const RawFile& file, std::uint64_t address);
  [[nodiscard]] std::optional<std::span<const unsigned char>> object(std::uint64_t index) const;
  [[nodiscard]] std::uint64_t bytes() const { return bytes_.size(); }

 private:
  std::vector<unsigned char> bytes_;
  std::map<std::uint64_t, std::pair<std::uint64_t, std::uint64_t>> objects_;  // by number: start and bytes
};

// The texts that references of 16 bytes (length, heap, object) in a file lead to; nothing when one cannot be followed.
std::optional<std::vector<std::string>> referred_texts(const RawFile& file, std::span<const unsigned char> references);

// One description at the cursor, which moves behind it; false when libhdf5 must not see it.
bool take_selection(Cursor& c);
struct SpaceFacts {
  std::uint64_t n_elements = 1;
};
bool take_space(Cursor& c, SpaceFacts& space);
struct TypeFacts {
  std::uint64_t kind = 0, bytes = 0;  // kind as stored: 0 integer, 1 float, 3 string, 8 enumeration, 9 variable length
  bool known = true;                  // false: of a version that is not known here; the cursor stays where it was
};
bool take_type(Cursor& c, TypeFacts& type, int depth = 0);
// The body of an attribute message, and the heaps that its value refers to.
const char* fault_of_attribute(const RawFile& file, std::span<const unsigned char> body);

}  // namespace quantem::hdf5
