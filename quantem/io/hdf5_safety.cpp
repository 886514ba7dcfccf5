#include "quantem/io/hdf5_safety.h"

namespace quantem::hdf5 {
namespace {

constexpr std::uint64_t kMaxRank = 32;

bool take_name(Cursor& c) {  // up to and with its NUL
  while (c.ok() && c.left() > 0)
    if (c.take(1) == 0) return true;
  return false;
}

// Blocks as first and last element, `width` bytes a number.
bool take_blocks(Cursor& c, std::uint64_t rank, std::uint64_t width) {
  const std::uint64_t blocks = c.take(width);
  if (!c.ok() || rank < 1 || rank > kMaxRank || blocks < 1 || blocks > c.left() / (2 * width * rank)) return false;
  for (std::uint64_t b = 0; b < blocks; ++b) {
    std::uint64_t start[kMaxRank];
    for (std::uint64_t d = 0; d < rank; ++d) start[d] = c.take(width);
    for (std::uint64_t d = 0; d < rank; ++d)
      if (c.take(width) < start[d]) return false;
  }
  return c.ok();
}

bool take_regular(Cursor& c, std::uint64_t rank, std::uint64_t width) {
  if (!c.ok() || rank < 1 || rank > kMaxRank || c.left() < 4 * width * rank) return false;
  for (std::uint64_t d = 0; d < rank; ++d) {
    c.skip(width);
    const std::uint64_t stride = c.take(width), count = c.take(width), block = c.take(width);
    if (stride == 0 || count == 0 || block == 0) return false;
  }
  return c.ok();
}

std::optional<std::string> fault_of_sources(const RawFile& file, const LayoutMessage& layout) {
  if (layout.address == kNoAddress) return std::nullopt;
  const auto heap = GlobalHeap::read(file, layout.address);
  const auto list = heap ? heap->object(layout.bytes) : std::nullopt;
  if (!list) return "the list of sources of this virtual dataset is damaged";
  Cursor c(*list);
  if (c.take(1) != 0) return std::nullopt;  // of a version that is not known here
  const std::uint64_t n = c.take(8);
  if (!c.ok() || n > list->size() / 34)  // two names and two selections take at least that
    return "this virtual dataset lists more sources than its file holds";
  for (std::uint64_t i = 0; i < n; ++i)
    if (!take_name(c) || !take_name(c) || !take_selection(c) || !take_selection(c))
      return "source " + std::to_string(i) + " of this virtual dataset is damaged";
  return std::nullopt;
}

// Versions 1 and 2, which parse_layout() leaves out: rank, and the size of what lies in the message.
bool old_layout_is_whole(std::span<const unsigned char> body) {
  Cursor c(body);
  c.skip(1);
  const std::uint64_t rank = c.take(1), kind = c.take(1);
  c.skip(5);
  if (kind != 0) c.skip(8);
  if (!c.ok() || rank > kMaxRank + 1 || c.left() / 4 < rank) return false;
  for (std::uint64_t d = 0; d < rank; ++d)
    if (c.take(4) == 0 && kind == 2) return false;
  if (kind != 0) return true;
  const std::uint64_t bytes = c.take(4);
  return c.ok() && bytes <= c.left();
}

std::optional<std::string> fault_of_layout(const RawFile& file, const HeaderMessage& m) {
  const std::uint64_t version = m.body.empty() ? 0 : m.body[0];
  if (version > 4) return std::nullopt;
  if (version == 1 || version == 2)
    return old_layout_is_whole(m.body) ? std::nullopt : std::optional<std::string>("its layout message is damaged");
  const auto layout = parse_layout(m.body, m.address);
  if (!layout) return "its layout message is damaged";
  for (const std::uint64_t n : layout->chunk)
    if (n == 0) return "its chunks have a side of 0";
  if (!layout->chunk.empty() && layout->element_bytes == 0) return "its chunks have elements of 0 bytes";
  return layout->kind == LayoutMessage::Class::virtual_ ? fault_of_sources(file, *layout) : std::nullopt;
}

bool pipeline_is_whole(std::span<const unsigned char> body) {
  Cursor c(body);
  const std::uint64_t version = c.take(1), n = c.take(1);
  if (version > 2) return true;  // not known here
  if (version < 1 || n > 32) return false;
  if (version == 1) c.skip(6);
  for (std::uint64_t i = 0; i < n; ++i) {
    const std::uint64_t id = c.take(2), name = version == 1 || id >= 256 ? c.take(2) : 0;
    c.skip(2);
    const std::uint64_t values = c.take(2), pad = version == 1 && values % 2 ? 4 : 0;
    c.skip(name);
    c.skip(4 * values);
    if (!c.ok()) return false;
    if (i + 1 < n) c.skip(pad);
  }
  return c.ok();
}

bool fill_is_whole(std::uint64_t type, std::span<const unsigned char> body) {
  Cursor c(body);
  if (type == 4) {
    const std::uint64_t bytes = c.take(4);
    return c.ok() && bytes <= c.left();
  }
  const std::uint64_t version = c.take(1);
  if (version > 3) return true;  // not known here
  if (version < 3) c.skip(2);
  const std::uint64_t flags = c.take(1);
  if (version == 3 ? !(flags & 0x20) : flags == 0) return c.ok();
  const auto bytes = static_cast<std::int32_t>(static_cast<std::uint32_t>(c.take(4)));
  return c.ok() && (bytes <= 0 || static_cast<std::uint64_t>(bytes) <= c.left());
}

// Where a shared message lies: the header of a named object, or nothing for a shared message table (libhdf5 reads those).
std::optional<std::uint64_t> shared_object(std::span<const unsigned char> body) {
  Cursor c(body);
  const std::uint64_t version = c.take(1), kind = c.take(1);
  if (version == 1) c.skip(6);
  const std::uint64_t address = c.take(8);
  return c.ok() && (version < 3 || kind == 2) ? std::optional(address) : std::nullopt;
}

class Inspector {
 public:
  Inspector(const RawFile& file, std::uint64_t leaf_k) : file_(file), leaf_k_(leaf_k) {}

  std::optional<std::string> object(std::uint64_t address, int depth) {
    if (depth > 3) return "its messages are shared in a circle";
    std::optional<std::string> fault;
    const char* header = walk_header(file_, address, [&](const HeaderMessage& m) {
      fault = message(m, depth);
      return !fault;
    });
    return fault ? fault : header ? std::optional<std::string>(header) : std::nullopt;
  }

 private:
  std::optional<std::string> message(const HeaderMessage& m, int depth) {
    if (m.shared) {
      const auto address = shared_object(m.body);
      return address ? object(*address, depth + 1) : std::nullopt;
    }
    const auto unless = [](bool good, const char* what) {
      return good ? std::nullopt : std::optional<std::string>(what);
    };
    Cursor c(m.body);
    SpaceFacts space;
    TypeFacts type;
    switch (m.type) {
      case 1:
        return unless(take_space(c, space), "its dataspace message is damaged");
      case 2:
      case 21: {
        const char* fault = fault_of_dense(file_, m.body, m.type == 2 ? 8 : 2);
        return unless(!fault, fault);
      }
      case 3:
        return unless(take_type(c, type), "its datatype message is damaged");
      case 4:
      case 5:
        return unless(fill_is_whole(m.type, m.body), "its fill value message is damaged");
      case kLayoutMessage:
        return fault_of_layout(file_, m);
      case 11:
        return unless(pipeline_is_whole(m.body), "its filter message is damaged");
      case 12: {
        const char* fault = fault_of_attribute(file_, m.body);
        return unless(!fault, fault);
      }
      case 17: {
        const std::uint64_t btree = c.take(8), heap = c.take(8);
        if (!c.ok()) return "its symbol table message is damaged";
        const char* fault = fault_of_group(file_, btree, heap, leaf_k_);
        return unless(!fault, fault);
      }
      default:
        return std::nullopt;
    }
  }

  const RawFile& file_;
  std::uint64_t leaf_k_;
};

}  // namespace

bool take_selection(Cursor& c) {
  const std::uint64_t kind = c.take(4), version = c.take(4);
  if (!c.ok() || version < 1 || version > 3) return false;
  if (kind == 0 || kind == 3) {  // none, all
    c.skip(8);
    return c.ok() && version == 1;
  }
  if (kind != 2) return false;  // points: never in a virtual dataset
  if (version == 1) {
    c.skip(8);
    const std::uint64_t rank = c.take(4);
    return take_blocks(c, rank, 4);
  }
  const std::uint64_t flags = c.take(1), width = version == 3 ? c.take(1) : 8;
  if (width != 2 && width != 4 && width != 8) return false;
  if (version == 2) c.skip(4);
  const std::uint64_t rank = c.take(4);
  return version == 2 || (flags & 1) ? take_regular(c, rank, width) : take_blocks(c, rank, width);
}

std::optional<std::string> fault_of_object(const RawFile& file, std::uint64_t header_address, std::uint64_t leaf_k) {
  return Inspector(file, leaf_k).object(header_address, 0);
}

}  // namespace quantem::hdf5
