#include "quantem/io/hdf5_chunks.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "quantem/io/hdf5_header.h"
#include "quantem/runtime/thread_pool.h"

namespace quantem::hdf5 {
namespace {

constexpr int kMaxDepth = 16;

Error damaged(const char* what) {
  return Error(Code::corrupt_data, std::string("chunk index is damaged: ") + what);
}

}  // namespace

std::optional<LayoutMessage> parse_layout(std::span<const unsigned char> message, std::uint64_t address) {
  Cursor c(message);
  const std::uint64_t version = c.take(1), kind = c.take(1);
  LayoutMessage m;
  if ((version != 3 && version != 4) || kind > 3) return std::nullopt;
  m.kind = static_cast<LayoutMessage::Class>(kind);
  if (kind == 0) {
    m.bytes = c.take(2);
    m.address = address + c.at();
    if (m.bytes > c.left()) return std::nullopt;
  } else if (kind == 1) {
    m.address = c.take(8);
    m.bytes = c.take(8);
  } else if (kind == 2 && version == 3) {
    const std::uint64_t n = c.take(1);
    if (n < 2 || n > 33) return std::nullopt;
    m.address = c.take(8);
    for (std::uint64_t i = 0; i + 1 < n; ++i) m.chunk.push_back(c.take(4));
    m.element_bytes = c.take(4);
  } else if (kind == 2) {
    const std::uint64_t flags = c.take(1), n = c.take(1), width = c.take(1);
    if (n < 2 || n > 33 || width < 1 || width > 8) return std::nullopt;
    for (std::uint64_t i = 0; i + 1 < n; ++i) m.chunk.push_back(c.take(width));
    m.element_bytes = c.take(width);
    const std::uint64_t index = c.take(1);
    if (index < 1 || index > 5) return std::nullopt;
    m.index = static_cast<IndexKind>(index);
    if (m.index == IndexKind::single && (flags & 2)) {
      m.single_is_filtered = true;
      m.bytes = c.take(8);
      m.filter_mask = static_cast<std::uint32_t>(c.take(4));
    }
    if (m.index == IndexKind::fixed_array) c.skip(1);
    if (m.index == IndexKind::extensible_array) c.skip(5);
    if (m.index == IndexKind::btree_v2) c.skip(6);
    m.address = c.take(8);
  } else if (kind == 3) {
    m.address = c.take(8);  // of the global heap that lists the sources, and the object there
    m.bytes = c.take(4);
  }
  return c.ok() ? std::optional(std::move(m)) : std::nullopt;
}

namespace {

// Version-1 B-tree over the chunks of one dataset. The children of the root are read by all threads: where chunks of one frame are many,
// this is most of the time that opening takes. What each found is put together in the order of the tree.
class BtreeV1 {
 public:
  BtreeV1(const RawFile& file, const ChunkedArray& array, bool may_be_cut)
      : file_(file), array_(array), may_be_cut_(may_be_cut), rank_(array.shape.size()), bytes_left_(file.bytes()) {}

  // Fills `chunks`; true where a piece of the tree lies beyond the end of a file that may be cut.
  Result<bool> read(std::uint64_t root, std::vector<ByteRange>& chunks) {
    Found at_root;
    QUANTEM_TRY_ASSIGN(node, read_node(root, -1, at_root));
    if (node.level == 0) {
      QUANTEM_TRY(take_node(node, at_root));
      place(at_root, chunks);
      return at_root.lost;
    }
    std::vector<Found> found(node.n_entries);
    std::vector<std::optional<Error>> errors(node.n_entries);
    parallel_for(node.n_entries, [&](std::uint64_t i) {
      if (auto done = walk(child(node, i), node.level, found[i]); !done) errors[i] = done.take_error();
    });
    bool lost = false;
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (errors[i]) return *errors[i];
      place(found[i], chunks);
      lost |= found[i].lost;
    }
    return lost;
  }

 private:
  struct Node {
    int level = -1;  // -1: beyond the end of a cut file
    std::uint64_t n_entries = 0;
    std::vector<unsigned char> bytes;  // head and entries
  };
  struct Found {
    std::vector<std::pair<std::uint64_t, ByteRange>> chunks;  // place in the grid
    bool lost = false;
  };
  static constexpr std::size_t kHeadBytes = 24, kFirstRead = 4096;  // most nodes are read at once

  [[nodiscard]] std::size_t entry_bytes() const { return 8 + 8 * (rank_ + 1) + 8; }
  [[nodiscard]] std::span<const unsigned char> entry(const Node& node, std::uint64_t i) const {
    return std::span(node.bytes).subspan(kHeadBytes + i * entry_bytes(), entry_bytes());
  }
  [[nodiscard]] std::uint64_t child(const Node& node, std::uint64_t i) const {
    Cursor c(entry(node, i).last(8));
    return c.take(8);
  }
  static void place(const Found& found, std::vector<ByteRange>& chunks) {
    for (const auto& [flat, range] : found.chunks) chunks[flat] = range;
  }

  Result<Node> read_node(std::uint64_t address, int parent_level, Found& found) {
    Node node;
    node.bytes.resize(file_.inside(address, kFirstRead) ? kFirstRead : kHeadBytes);
    if (!file_.read(address, node.bytes)) return outside(parent_level, found, "a B-tree node lies outside the file");
    Cursor c(std::span(node.bytes).first(kHeadBytes));
    if (!c.matches("TREE") || c.take(1) != 1) return damaged("no B-tree node where one should be");
    const int level = static_cast<int>(c.take(1));
    node.n_entries = c.take(2);
    if (level > kMaxDepth || (parent_level >= 0 && level != parent_level - 1))
      return damaged("B-tree levels do not descend");
    // Nodes do not overlap: a tree that is larger than its file leads back to itself.
    const std::uint64_t n_bytes = kHeadBytes + node.n_entries * entry_bytes();
    if (bytes_left_.fetch_sub(static_cast<std::int64_t>(n_bytes)) < static_cast<std::int64_t>(n_bytes))
      return damaged("more B-tree nodes than the file can hold");
    if (const std::size_t have = node.bytes.size(); have < n_bytes) {
      node.bytes.resize(n_bytes);
      if (!file_.read(address + have, std::span(node.bytes).subspan(have)))
        return outside(parent_level, found, "a B-tree node ends outside the file");
    }
    node.level = level;
    return node;
  }

  Result<Done> walk(std::uint64_t address, int parent_level, Found& found) {
    QUANTEM_TRY_ASSIGN(node, read_node(address, parent_level, found));
    if (node.level <= 0) return take_node(node, found);
    for (std::uint64_t i = 0; i < node.n_entries; ++i) QUANTEM_TRY(walk(child(node, i), node.level, found));
    return Done{};
  }

  Result<Done> take_node(const Node& node, Found& found) {
    if (node.level < 0) return Done{};
    for (std::uint64_t i = 0; i < node.n_entries; ++i) QUANTEM_TRY(take_chunk(Cursor(entry(node, i)), found));
    return Done{};
  }

  Result<Node> outside(int parent_level, Found& found, const char* what) {  // the root must be there
    if (!may_be_cut_ || parent_level < 0) return damaged(what);
    found.lost = true;
    return Node{};
  }
  Result<Done> take_chunk(Cursor e, Found& found) {
    ByteRange range;
    range.bytes = e.take(4);
    range.filter_mask = static_cast<std::uint32_t>(e.take(4));
    std::uint64_t flat = 0;
    bool inside = true;
    for (std::size_t d = 0; d < rank_; ++d) {
      const std::uint64_t at = e.take(8);
      if (at % array_.chunk[d] != 0) return damaged("a chunk does not start at a multiple of the chunk shape");
      inside = inside && at / array_.chunk[d] < array_.grid[d];
      flat = flat * array_.grid[d] + at / array_.chunk[d];
    }
    e.skip(8);
    const std::uint64_t address = e.take(8);
    if (!inside || address == kNoAddress) return Done{};
    range.offset = address + file_.base();
    if (range.offset < address) return damaged("a chunk address passes 2^64");
    found.chunks.emplace_back(flat, range);
    return Done{};
  }

  const RawFile& file_;
  const ChunkedArray& array_;
  bool may_be_cut_;
  std::size_t rank_;
  std::atomic<std::int64_t> bytes_left_;
};

}  // namespace

RawFile::RawFile(const std::filesystem::path& path, std::uint64_t base)
    : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)), base_(base) {
  struct stat s {};
  if (descriptor_ >= 0 && ::fstat(descriptor_, &s) == 0 && s.st_size > 0)
    bytes_ = static_cast<std::uint64_t>(s.st_size);
}

RawFile::~RawFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool RawFile::read(std::uint64_t address, std::span<unsigned char> out) const {
  if (!inside(address, out.size())) return false;
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t n =
        ::pread(descriptor_, out.data() + done, out.size() - done, static_cast<off_t>(base_ + address + done));
    if (n <= 0) return false;
    done += static_cast<std::size_t>(n);
  }
  return true;
}

std::optional<LayoutMessage> read_layout(const RawFile& file, std::uint64_t header_address) {
  std::optional<LayoutMessage> layout;
  walk_header(file, header_address, [&](const HeaderMessage& m) {
    if (m.type != kLayoutMessage) return true;
    layout = parse_layout(m.body, m.address);
    return false;
  });
  return layout;
}

Result<Done> read_chunk_index(const RawFile& file, const LayoutMessage& layout, const ChunkedArray& array,
                              std::vector<ByteRange>& chunks, bool* lost) {
  chunks.assign(array.n_chunks, ByteRange{});
  if (layout.address == kNoAddress) return Done{};  // nothing was ever written
  if (layout.index != IndexKind::btree_v1) return read_chunk_index_v4(file, layout, array, chunks, lost);
  QUANTEM_TRY_ASSIGN(cut, BtreeV1(file, array, lost != nullptr).read(layout.address, chunks));
  if (cut) *lost = true;
  return Done{};
}

}  // namespace quantem::hdf5
