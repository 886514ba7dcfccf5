// Chunk indexes of the 1.10 file format: single chunk, implicit, fixed array, extensible array, version-2 B-tree.
// Layouts after the HDF5 File Format Specification, version 3.0, sections III.C to III.E and VII.

#include <algorithm>
#include <bit>

#include "quantem/io/hdf5_chunks.h"

namespace quantem::hdf5 {
namespace {

Error damaged(const char* what) {
  return Error(Code::corrupt_data, std::string("chunk index is damaged: ") + what);
}

// A piece of an index beyond the end of the file: an error, or chunks that stay absent.
Result<Done> outside(bool* lost, const char* what) {
  if (!lost) return damaged(what);
  *lost = true;
  return Done{};
}

// Bytes that hold numbers up to `limit`, as libhdf5 counts them.
std::uint64_t bytes_for(std::uint64_t limit) {
  return (limit ? std::bit_width(limit) - 1 : 0) / 8 + 1;
}

// Arrays number chunks over the largest grid that the dataset may grow to, an unlimited axis first.
class ArrayOrder {
 public:
  explicit ArrayOrder(const ChunkedArray& array) : array_(array) {
    for (std::size_t d = 0; d < array.shape.size(); ++d)
      if (array.max_shape[d] == kNoAddress)
        order_.insert(order_.begin(), d);
      else
        order_.push_back(d);
    // index = sum over axes of coordinate * stride, strides over the largest grid
    stride_.assign(order_.size(), 1);
    std::uint64_t stride = 1;
    for (std::size_t i = order_.size(); i-- > 0;) {
      stride_[order_[i]] = stride;
      const std::uint64_t most = array.max_shape[order_[i]];
      const auto next = checked_multiply(stride, most == kNoAddress ? 1 : (most - 1) / array.chunk[order_[i]] + 1);
      stride = next.value_or(0);
      valid_ = valid_ && next && most != 0;
    }
  }
  [[nodiscard]] bool valid() const { return valid_; }
  // Index in the array of grid cell `flat`.
  [[nodiscard]] std::uint64_t index(std::uint64_t flat) const {
    std::uint64_t i = 0;
    for (std::size_t d = array_.grid.size(); d-- > 0;) {
      i += flat % array_.grid[d] * stride_[d];
      flat /= array_.grid[d];
    }
    return i;
  }

 private:
  const ChunkedArray& array_;
  std::vector<std::size_t> order_;
  std::vector<std::uint64_t> stride_;
  bool valid_ = true;
};

// One element of an array index: an address, and for filtered chunks the stored size and the filter mask.
struct ElementForm {
  bool filtered = false;
  std::uint64_t bytes = 8, chunk_bytes = 0;
  [[nodiscard]] bool valid() const { return filtered ? bytes >= 13 && bytes <= 20 : bytes == 8; }
  [[nodiscard]] ByteRange take(std::span<const unsigned char> data, std::uint64_t i, std::uint64_t base) const {
    Cursor c(data.subspan(i * bytes, bytes));
    ByteRange r;
    const std::uint64_t address = c.take(8);
    r.bytes = filtered ? c.take(bytes - 12) : chunk_bytes;
    r.filter_mask = filtered ? static_cast<std::uint32_t>(c.take(4)) : 0;
    r.offset = address == kNoAddress || address + base < address ? ByteRange::kAbsent : address + base;
    return r;
  }
};

// ---- fixed array: one data block, in pages when it is long

Result<Done> read_fixed_array(const RawFile& file, std::uint64_t address, const ChunkedArray& array,
                              std::vector<ByteRange>& chunks, bool* lost) {
  unsigned char head[24];
  if (!file.read(address, head)) return damaged("fixed array header outside the file");
  Cursor h(head);
  if (!h.matches("FAHD") || h.take(1) != 0) return damaged("no fixed array header");
  ElementForm form{h.take(1) == 1, h.take(1), array.chunk_bytes};
  const std::uint64_t page_bits = h.take(1), n = h.take(8), block = h.take(8);
  if (!form.valid() || form.filtered != array.filtered || page_bits > 32) return damaged("fixed array header");
  if (block == kNoAddress) return Done{};
  const ArrayOrder order(array);
  const auto element_bytes = checked_multiply(n, form.bytes);
  if (!order.valid() || !element_bytes || !file.inside(block, 0)) return damaged("fixed array size");
  const std::uint64_t page = std::uint64_t{1} << page_bits;
  const bool paged = n > page;
  const std::uint64_t n_pages = paged ? (n + page - 1) / page : 1;
  const std::uint64_t bitmap_bytes = paged ? (n_pages + 7) / 8 : 0;
  const std::uint64_t prefix = 14 + bitmap_bytes + (paged ? 4 : 0);
  if (!file.inside(block, prefix) || *element_bytes > file.bytes())
    return damaged("fixed array block outside the file");
  std::vector<unsigned char> start(prefix);
  if (!file.read(block, start)) return damaged("fixed array block");
  if (!Cursor(start).matches("FADB")) return damaged("no fixed array block");
  std::vector<unsigned char> data;
  std::uint64_t held = ~std::uint64_t{0};
  for (std::uint64_t flat = 0; flat < array.n_chunks; ++flat) {
    const std::uint64_t i = order.index(flat);
    if (i >= n) return damaged("fixed array is shorter than the dataset");
    const std::uint64_t p = paged ? i / page : 0;
    if (paged && !(start[14 + p / 8] & (0x80u >> (p % 8)))) continue;  // page never written
    if (p != held) {
      const std::uint64_t in_page = paged ? std::min(page, n - p * page) : n;
      data.resize(in_page * form.bytes);
      if (!file.read(block + prefix + p * (page * form.bytes + 4) * (paged ? 1 : 0), data)) {
        QUANTEM_TRY(outside(paged ? lost : nullptr, "fixed array page outside the file"));
        continue;
      }
      held = p;
    }
    chunks[flat] = form.take(data, paged ? i % page : i, file.base());
  }
  return Done{};
}

// ---- extensible array: an index block, data blocks that double, secondary blocks of data block addresses

struct ExtensibleArray {
  const RawFile& file;
  bool* lost = nullptr;
  ElementForm form{};
  std::uint64_t address = 0, max_bits = 0, in_index = 0, min_elements = 0, min_pointers = 0, page_bits = 0;
  std::uint64_t offset_bytes = 0;
  std::vector<unsigned char> index_block{}, held_block{}, super_block{};
  std::uint64_t held_at = kNoAddress, super_at = kNoAddress;

  Result<Done> open(std::uint64_t header, const ChunkedArray& array) {
    unsigned char head[12 + 6 * 8 + 8];
    if (!file.read(header, head)) return damaged("extensible array header outside the file");
    Cursor h(head);
    if (!h.matches("EAHD") || h.take(1) != 0) return damaged("no extensible array header");
    form = {h.take(1) == 1, h.take(1), array.chunk_bytes};
    max_bits = h.take(1);
    in_index = h.take(1);
    min_elements = h.take(1);
    min_pointers = h.take(1);
    page_bits = h.take(1);
    h.skip(48);
    address = h.take(8);
    if (!form.valid() || form.filtered != array.filtered || max_bits < 1 || max_bits > 64 || page_bits > 32 ||
        !std::has_single_bit(min_elements) || !std::has_single_bit(min_pointers) ||
        max_bits < static_cast<std::uint64_t>(std::bit_width(min_elements)) - 1)
      return damaged("extensible array header");
    offset_bytes = (max_bits + 7) / 8;
    if (address == kNoAddress) return Done{};
    index_block.resize(14 + in_index * form.bytes + 8 * (n_direct() + n_super()));
    if (!file.read(address, index_block) || !Cursor(index_block).matches("EAIB"))
      return damaged("no extensible array index block");
    return Done{};
  }
  [[nodiscard]] std::uint64_t log2(std::uint64_t power) const {
    return static_cast<std::uint64_t>(std::bit_width(power)) - 1;
  }
  [[nodiscard]] std::uint64_t n_direct() const {
    return 2 * (min_pointers - 1);
  }  // data blocks listed in the index block
  [[nodiscard]] std::uint64_t n_direct_supers() const { return 2 * log2(min_pointers); }  // super blocks these make up
  [[nodiscard]] std::uint64_t n_super() const {
    const std::uint64_t all = 1 + max_bits - log2(min_elements);
    return all > n_direct_supers() ? all - n_direct_supers() : 0;
  }
  [[nodiscard]] std::uint64_t address_at(std::span<const unsigned char> bytes, std::uint64_t at) const {
    return at + 8 <= bytes.size() ? Cursor(bytes.subspan(at)).take(8) : kNoAddress;
  }

  Result<ByteRange> lookup(std::uint64_t i) {
    if (address == kNoAddress) return ByteRange{};
    if (i < in_index) return form.take(std::span<const unsigned char>(index_block).subspan(14), i, file.base());
    i -= in_index;
    const std::uint64_t super = log2(i / min_elements + 1);
    const std::uint64_t blocks = std::uint64_t{1} << (super / 2), elements = min_elements << ((super + 1) / 2);
    i -= min_elements * ((std::uint64_t{1} << super) - 1);
    const std::uint64_t block = i / elements, page = std::uint64_t{1} << page_bits;
    const bool paged = elements > page;
    std::uint64_t data = kNoAddress;
    if (super < n_direct_supers()) {
      // blocks before this super block: both halves of every doubling
      std::uint64_t before = 0;
      for (std::uint64_t s = 0; s < super; ++s) before += std::uint64_t{1} << (s / 2);
      data = address_at(index_block, 14 + in_index * form.bytes + 8 * (before + block));
    } else {
      const std::uint64_t at =
          address_at(index_block, 14 + in_index * form.bytes + 8 * (n_direct() + super - n_direct_supers()));
      if (at == kNoAddress) return ByteRange{};
      const std::uint64_t pages = paged ? elements / page : 0, bitmap = paged ? blocks * ((pages + 7) / 8) : 0;
      if (!file.inside(at, 14 + offset_bytes + bitmap + 8 * blocks)) {
        QUANTEM_TRY(outside(lost, "extensible array block outside the file"));
        return ByteRange{};
      }
      if (at != super_at) {
        super_block.resize(14 + offset_bytes + bitmap + 8 * blocks);
        if (!file.read(at, super_block) || !Cursor(super_block).matches("EASB"))
          return damaged("no extensible array block");
        super_at = at;
      }
      if (paged) {
        const std::uint64_t bit = block * pages + i % elements / page;
        if (!(super_block[14 + offset_bytes + bit / 8] & (0x80u >> (bit % 8)))) return ByteRange{};
      }
      data = address_at(super_block, 14 + offset_bytes + bitmap + 8 * block);
    }
    if (data == kNoAddress) return ByteRange{};
    return element(data, i % elements, elements, paged ? page : elements, paged);
  }

  // Element i of the data block at `at`; long blocks are read a page at a time (each page and the head end in a checksum).
  Result<ByteRange> element(std::uint64_t at, std::uint64_t i, std::uint64_t elements, std::uint64_t page, bool paged) {
    std::uint64_t first = at + 14 + offset_bytes;
    if (paged) first += 4 + i / page * (page * form.bytes + 4);
    const std::uint64_t n = paged ? page : elements;
    if (first != held_at) {
      if (n > file.bytes() / form.bytes) return damaged("extensible array block larger than the file");
      held_block.resize(n * form.bytes);
      held_at = kNoAddress;
      if (!file.read(first, held_block)) {
        QUANTEM_TRY(outside(lost, "extensible array block outside the file"));
        return ByteRange{};
      }
      held_at = first;
    }
    return form.take(held_block, i % page, file.base());
  }
};

// ---- version-2 B-tree

struct BtreeV2 {
  const RawFile& file;
  const ChunkedArray& array;
  std::vector<ByteRange>& chunks;
  bool* lost = nullptr;
  std::uint64_t node_bytes = 0, record_bytes = 0, depth = 0, bytes_left = 0;
  std::vector<std::uint64_t> most{},
      most_below_bytes{};  // records a node of each level can hold; bytes of a subtree's total
  std::uint64_t count_bytes = 0;
  bool filtered = false;

  Result<Done> read(std::uint64_t header) {
    unsigned char head[34];
    if (!file.read(header, head)) return damaged("B-tree header outside the file");
    Cursor h(head);
    if (!h.matches("BTHD") || h.take(1) != 0) return damaged("no B-tree header");
    const std::uint64_t type = h.take(1);
    node_bytes = h.take(4);
    record_bytes = h.take(2);
    depth = h.take(2);
    h.skip(2);
    const std::uint64_t root = h.take(8), root_records = h.take(2);
    const std::uint64_t rank = array.shape.size();
    filtered = type == 11;
    if ((type != 10 && type != 11) || filtered != array.filtered || depth > 16 || node_bytes < 64 ||
        node_bytes > (1u << 24) ||
        (filtered ? record_bytes < 13 + 8 * rank || record_bytes > 20 + 8 * rank : record_bytes != 8 + 8 * rank))
      return damaged("B-tree header");
    if (root == kNoAddress) return Done{};
    most = {(node_bytes - 10) / record_bytes};
    most_below_bytes = {0};
    count_bytes = bytes_for(most[0]);
    std::uint64_t below = most[0];
    for (std::uint64_t level = 1; level <= depth; ++level) {
      const std::uint64_t pointer = 8 + count_bytes + most_below_bytes[level - 1];
      if (node_bytes < 10 + pointer + record_bytes) return damaged("B-tree node size");
      most.push_back((node_bytes - 10 - pointer) / (record_bytes + pointer));
      const auto product = checked_multiply(most[level] + 1, below);
      if (!product) return damaged("B-tree depth");
      below = *product + most[level];
      most_below_bytes.push_back(bytes_for(below));
    }
    bytes_left = file.bytes();
    return walk(root, root_records, depth);
  }

  Result<Done> walk(std::uint64_t at, std::uint64_t records, std::uint64_t level) {
    if (records > most[level]) return damaged("a B-tree node holds too many records");
    const std::uint64_t pointer = level ? 8 + count_bytes + most_below_bytes[level - 1] : 0;
    const std::uint64_t taken = 6 + records * record_bytes + (level ? (records + 1) * pointer : 0);
    if (taken > bytes_left) return damaged("more B-tree nodes than the file can hold");
    bytes_left -= taken;
    std::vector<unsigned char> bytes(taken);
    if (!file.read(at, bytes)) return outside(level == depth ? nullptr : lost, "a B-tree node lies outside the file");
    Cursor c(bytes);
    if (!(level ? c.matches("BTIN") : c.matches("BTLF"))) return damaged("no B-tree node where one should be");
    c.skip(2);
    for (std::uint64_t i = 0; i < records; ++i) QUANTEM_TRY(take_record(c));
    for (std::uint64_t i = 0; level && i <= records; ++i) {
      const std::uint64_t child = c.take(8), n = c.take(count_bytes);
      c.skip(most_below_bytes[level - 1]);
      QUANTEM_TRY(walk(child, n, level - 1));
    }
    return Done{};
  }

  Result<Done> take_record(Cursor& c) {
    const std::uint64_t rank = array.shape.size(), address = c.take(8);
    ByteRange r;
    r.bytes = filtered ? c.take(record_bytes - 12 - 8 * rank) : array.chunk_bytes;
    r.filter_mask = filtered ? static_cast<std::uint32_t>(c.take(4)) : 0;
    std::uint64_t flat = 0;
    bool inside = true;
    for (std::uint64_t d = 0; d < rank; ++d) {
      const std::uint64_t cell = c.take(8);
      inside = inside && cell < array.grid[d];
      flat = flat * array.grid[d] + cell;
    }
    if (!inside || address == kNoAddress || address + file.base() < address) return Done{};
    r.offset = address + file.base();
    chunks[flat] = r;
    return Done{};
  }
};

}  // namespace

Result<Done> read_chunk_index_v4(const RawFile& file, const LayoutMessage& layout, const ChunkedArray& array,
                                 std::vector<ByteRange>& chunks, bool* lost) {
  switch (layout.index) {
    case IndexKind::single:
      if (array.n_chunks != 1) return damaged("a single chunk for several");
      chunks[0] = {layout.address + file.base(), layout.single_is_filtered ? layout.bytes : array.chunk_bytes,
                   layout.filter_mask};
      return Done{};
    case IndexKind::implicit: {  // all chunks back to back, over the largest grid
      const ArrayOrder order(array);
      if (!order.valid()) return damaged("shape");
      for (std::uint64_t flat = 0; flat < array.n_chunks; ++flat) {
        const auto at = checked_multiply(order.index(flat), array.chunk_bytes);
        if (!at || !file.inside(layout.address, 0) || *at > file.bytes()) {
          QUANTEM_TRY(outside(lost, "chunks outside the file"));
          break;
        }
        chunks[flat] = {layout.address + file.base() + *at, array.chunk_bytes, 0};
      }
      return Done{};
    }
    case IndexKind::fixed_array:
      return read_fixed_array(file, layout.address, array, chunks, lost);
    case IndexKind::extensible_array: {
      ExtensibleArray index{file, lost};
      QUANTEM_TRY(index.open(layout.address, array));
      const ArrayOrder order(array);
      if (!order.valid()) return damaged("shape");
      for (std::uint64_t flat = 0; flat < array.n_chunks; ++flat) {
        QUANTEM_TRY_ASSIGN(range, index.lookup(order.index(flat)));
        chunks[flat] = range;
      }
      return Done{};
    }
    default:
      return BtreeV2{file, array, chunks, lost}.read(layout.address);
  }
}

}  // namespace quantem::hdf5
