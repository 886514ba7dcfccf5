// Global heaps (lists of virtual sources, texts of variable length), local heaps and symbol tables (groups of the old kind).

#include <algorithm>

#include "quantem/io/hdf5_safety.h"

namespace quantem::hdf5 {
namespace {

constexpr std::uint64_t kMaxHeapBytes = std::uint64_t{1} << 26, kListEnd = 1;
constexpr int kMaxDepth = 16;

// The data of a local heap: names, and free blocks that form a list.
const char* read_local_heap(const RawFile& file, std::uint64_t address, std::vector<unsigned char>& data) {
  unsigned char head[32];
  if (!file.read(address, head)) return "the heap of its names lies outside the file";
  Cursor h(head);
  if (!h.matches("HEAP") || h.take(1) != 0) return "no heap of names where one should be";
  h.skip(3);
  const std::uint64_t bytes = h.take(8), first_free = h.take(8), at = h.take(8);
  if (bytes > kMaxHeapBytes || !file.inside(at, bytes)) return "the heap of its names ends outside the file";
  data.resize(bytes);
  if (!file.read(at, data)) return "the heap of its names cannot be read";
  std::uint64_t left = bytes / 16 + 1;
  for (std::uint64_t free = first_free; free != kListEnd && free != kNoAddress; --left) {
    if (left == 0 || bytes < 16 || free > bytes - 16) return "the heap of its names is damaged";
    Cursor c(std::span<const unsigned char>(data).subspan(free));
    const std::uint64_t next = c.take(8), n = c.take(8);
    if (n < 16 || n > bytes - free) return "the heap of its names is damaged";
    free = next;
  }
  return nullptr;
}

// The B-tree of a group down to its symbol table nodes. Every name must end inside the heap.
class SymbolTable {
 public:
  SymbolTable(const RawFile& file, std::uint64_t leaf_k, const std::vector<unsigned char>& names)
      : file_(file), leaf_k_(leaf_k), bytes_left_(file.bytes()) {
    const auto last = std::find(names.rbegin(), names.rend(), 0);
    names_end_ = static_cast<std::uint64_t>(names.rend() - last);  // one past the last NUL
  }

  const char* walk(std::uint64_t address, int parent_level) {
    unsigned char head[24];
    if (!file_.read(address, head)) return "its B-tree lies outside the file";
    Cursor c(head);
    if (!c.matches("TREE") || c.take(1) != 0) return "no B-tree of names where one should be";
    const int level = static_cast<int>(c.take(1));
    const std::uint64_t entries = c.take(2);
    if (level > kMaxDepth || (parent_level >= 0 && level != parent_level - 1)) return "its B-tree does not descend";
    if (!count(24 + 16 * entries)) return "its B-tree has more nodes than the file can hold";
    std::vector<unsigned char> bytes(entries == 0 ? 0 : 16 * entries + 8);
    if (!file_.read(address + 24, bytes)) return "its B-tree ends outside the file";
    Cursor e(bytes);
    for (std::uint64_t i = 0; i < entries; ++i) {
      if (e.take(8) >= names_end_) return "a name in its B-tree is damaged";
      const std::uint64_t child = e.take(8);
      if (const char* fault = level > 0 ? walk(child, level) : leaf(child)) return fault;
    }
    return entries > 0 && e.take(8) >= names_end_ ? "a name in its B-tree is damaged" : nullptr;
  }

 private:
  bool count(std::uint64_t bytes) {  // nodes do not overlap
    if (bytes > bytes_left_) return false;
    bytes_left_ -= bytes;
    return true;
  }
  const char* leaf(std::uint64_t address) {
    unsigned char head[8];
    if (!file_.read(address, head)) return "a list of its members lies outside the file";
    Cursor c(head);
    if (!c.matches("SNOD")) return "no list of members where one should be";
    c.skip(2);
    const std::uint64_t n = c.take(2);
    if (leaf_k_ > 0 && n > 2 * leaf_k_) return "a list of its members is longer than its file allows";
    if (!count(8 + 40 * n)) return "its B-tree has more nodes than the file can hold";
    std::vector<unsigned char> bytes(40 * n);
    if (!file_.read(address + 8, bytes)) return "a list of its members ends outside the file";
    Cursor e(bytes);
    for (std::uint64_t i = 0; i < n; ++i) {
      const std::uint64_t name = e.take(8);
      e.skip(8);
      const std::uint64_t kind = e.take(4);
      e.skip(4);
      const std::uint64_t target = e.take(4);  // of a soft link: in the heap too
      e.skip(12);
      if (name >= names_end_ || (kind == 2 && target >= names_end_)) return "the name of a member is damaged";
    }
    return nullptr;
  }

  const RawFile& file_;
  std::uint64_t leaf_k_, bytes_left_, names_end_ = 0;
};

}  // namespace

const char* fault_of_group(const RawFile& file, std::uint64_t btree, std::uint64_t heap, std::uint64_t leaf_k) {
  std::vector<unsigned char> names;
  if (const char* fault = read_local_heap(file, heap, names)) return fault;
  return SymbolTable(file, leaf_k, names).walk(btree, -1);
}

std::optional<GlobalHeap> GlobalHeap::read(const RawFile& file, std::uint64_t address) {
  unsigned char head[16];
  if (!file.read(address, head)) return std::nullopt;
  Cursor h(head);
  if (!h.matches("GCOL") || h.take(1) != 1) return std::nullopt;
  h.skip(3);
  const std::uint64_t bytes = h.take(8);
  if (bytes < 16 || bytes > kMaxHeapBytes || !file.inside(address, bytes)) return std::nullopt;
  GlobalHeap heap;
  heap.bytes_.resize(bytes);
  if (!file.read(address, heap.bytes_)) return std::nullopt;
  Cursor c(heap.bytes_);
  c.skip(16);
  while (c.left() >= 16) {  // less is free space without a head
    const std::uint64_t left = c.left(), number = c.take(2);
    c.skip(6);
    const std::uint64_t n = c.take(8);
    if (number == 0) {  // free space, its head included
      if (n < 16 || n > left) return std::nullopt;
      c.skip(n - 16);
      continue;
    }
    if (n > c.left()) return std::nullopt;
    heap.objects_.insert_or_assign(number, std::pair<std::uint64_t, std::uint64_t>(c.at(), n));
    c.skip(std::min<std::uint64_t>((n + 7) / 8 * 8, c.left()));
  }
  return heap;
}

std::optional<std::span<const unsigned char>> GlobalHeap::object(std::uint64_t index) const {
  const auto found = objects_.find(index);
  if (found == objects_.end()) return std::nullopt;
  return std::span<const unsigned char>(bytes_).subspan(found->second.first, found->second.second);
}

std::optional<std::vector<std::string>> referred_texts(const RawFile& file, std::span<const unsigned char> references) {
  std::vector<std::string> texts;
  std::map<std::uint64_t, GlobalHeap> heaps;
  std::uint64_t held = 0;
  Cursor c(references);
  while (c.left() >= 16) {
    const std::uint64_t length = c.take(4), address = c.take(8), index = c.take(4);
    texts.emplace_back();
    if (length == 0 || address == 0 || address == kNoAddress) continue;
    if (!heaps.contains(address)) {
      auto heap = GlobalHeap::read(file, address);
      if (!heap || (held += heap->bytes()) > kMaxHeapBytes) return std::nullopt;
      heaps.emplace(address, *std::move(heap));
    }
    const auto value = heaps.at(address).object(index);
    if (!value || value->size() < length) return std::nullopt;
    texts.back().assign(reinterpret_cast<const char*>(value->data()), length);
  }
  return texts;
}

}  // namespace quantem::hdf5
