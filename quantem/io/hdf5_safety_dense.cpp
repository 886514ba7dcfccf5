// Links and attributes that lie in a fractal heap, found through version-2 B-trees: only where these begin is looked at here. Each of their
// blocks has a checksum, which libhdf5 compares; addresses that it takes without looking must lie in the file.

#include "quantem/io/hdf5_safety.h"

namespace quantem::hdf5 {
namespace {

constexpr std::uint64_t kLeastBlock = 16;  // bytes of any block that an address leads to, at least

bool leads_into(const RawFile& file, std::uint64_t address, std::uint64_t n_bytes = kLeastBlock) {
  return address == kNoAddress || file.inside(address, n_bytes);
}

// Whether a header with this signature and version 0 lies there, of N bytes with its checksum.
template <std::size_t N>
bool read_header(const RawFile& file, std::uint64_t address, const char (&word)[5], unsigned char (&head)[N]) {
  if (!file.read(address, head)) return false;
  Cursor c(head);
  return c.matches(word) && c.take(1) == 0;
}

const char* fault_of_heap(const RawFile& file, std::uint64_t address) {
  if (address == kNoAddress) return nullptr;
  unsigned char head[146];  // without filters, which add to its end
  if (!read_header(file, address, "FRHP", head)) return "its fractal heap is damaged";
  const auto at = [&](std::size_t offset) {
    return Cursor(std::span<const unsigned char>(head).subspan(offset)).take(8);
  };
  const bool good = leads_into(file, at(22)) && leads_into(file, at(38)) && leads_into(file, at(132));
  return good ? nullptr : "its fractal heap leads out of the file";
}

const char* fault_of_tree(const RawFile& file, std::uint64_t address) {
  if (address == kNoAddress) return nullptr;
  unsigned char head[38];
  if (!read_header(file, address, "BTHD", head)) return "the B-tree of its names is damaged";
  Cursor c(std::span<const unsigned char>(head).subspan(6));
  const std::uint64_t node_bytes = c.take(4), record_bytes = c.take(2);
  c.skip(4);
  const std::uint64_t root = c.take(8);
  if (record_bytes == 0 || node_bytes < record_bytes + 10) return "the B-tree of its names is damaged";
  return leads_into(file, root, node_bytes) ? nullptr : "the B-tree of its names leads out of the file";
}

}  // namespace

const char* fault_of_dense(const RawFile& file, std::span<const unsigned char> body, std::size_t index_bytes) {
  Cursor c(body);
  const std::uint64_t version = c.take(1), flags = c.take(1);
  if (c.ok() && version != 0) return nullptr;  // not known here
  if (flags & 1) c.skip(index_bytes);
  const std::uint64_t heap = c.take(8), names = c.take(8), order = flags & 2 ? c.take(8) : kNoAddress;
  if (!c.ok()) return "the message that says where its links or attributes lie is damaged";
  if (const char* fault = fault_of_heap(file, heap)) return fault;
  if (const char* fault = fault_of_tree(file, names)) return fault;
  return fault_of_tree(file, order);
}

}  // namespace quantem::hdf5
