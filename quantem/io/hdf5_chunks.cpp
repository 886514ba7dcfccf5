#include "quantem/io/hdf5_chunks.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
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
// this is most of the time that opening takes. A child of a sound tree has the chunks between its key and the next one's, which are then
// its own to write; what it has beyond them is put in its place afterwards, in the order of the tree.
class BtreeV1 {
 public:
  // `chunks` has array.n_chunks elements.
  BtreeV1(const RawFile& file, const ChunkedArray& array, bool may_be_cut, std::vector<ByteRange>& chunks)
      : file_(file),
        array_(array),
        may_be_cut_(may_be_cut),
        chunks_(chunks),
        rank_(array.shape.size()),
        bytes_left_(file.bytes()) {}

  // First the root; then every child, in any order and at once; then finish().
  Result<Done> read_root(std::uint64_t root) {
    at_root_.end = array_.n_chunks;
    QUANTEM_TRY_ASSIGN(node, read_node(root, -1, at_root_));
    if (node.level == 0) return take_node(node, at_root_);
    root_ = std::move(node);
    found_.resize(root_.n_entries);
    errors_.resize(root_.n_entries);
    std::uint64_t end = array_.n_chunks;
    for (std::uint64_t i = root_.n_entries; i-- > 0;) {
      const auto first = place_of(entry(root_, i));
      found_[i].first = first ? std::min(first->flat, end) : end;
      found_[i].end = end;
      end = found_[i].first;
    }
    return Done{};
  }
  [[nodiscard]] std::uint64_t n_children() const { return found_.size(); }
  void read_child(std::uint64_t i) {
    if (auto done = walk(child(root_, i), root_.level, found_[i]); !done) errors_[i] = done.take_error();
  }
  // True where a piece of the tree lies beyond the end of a file that may be cut.
  Result<bool> finish() {
    bool lost = at_root_.lost;
    for (std::size_t i = 0; i < found_.size(); ++i) {
      if (errors_[i]) return *errors_[i];
      for (const auto& [flat, range] : found_[i].elsewhere) chunks_[flat] = range;
      lost |= found_[i].lost;
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
    std::uint64_t first = 0, end = 0;                            // places in the grid that nobody else writes
    std::vector<std::pair<std::uint64_t, ByteRange>> elsewhere;  // other places
    bool lost = false;
  };
  struct Place {
    std::uint64_t flat = 0;
    bool inside = true;
  };
  static constexpr const char* kNotAMultiple = "a chunk does not start at a multiple of the chunk shape";
  static constexpr std::size_t kHeadBytes = 24, kFirstRead = 4096;  // most nodes are read at once

  [[nodiscard]] std::size_t entry_bytes() const { return 8 + 8 * (rank_ + 1) + 8; }
  [[nodiscard]] std::span<const unsigned char> entry(const Node& node, std::uint64_t i) const {
    return std::span(node.bytes).subspan(kHeadBytes + i * entry_bytes(), entry_bytes());
  }
  [[nodiscard]] std::uint64_t child(const Node& node, std::uint64_t i) const {
    Cursor c(entry(node, i).last(8));
    return c.take(8);
  }
  // Where the chunk of a key lies in the grid; nothing when it starts inside another.
  [[nodiscard]] std::optional<Place> place_of(std::span<const unsigned char> key) const {
    Cursor c(key);
    c.skip(8);
    Place p;
    for (std::size_t d = 0; d < rank_; ++d) {
      const std::uint64_t at = c.take(8);
      if (at % array_.chunk[d] != 0) return std::nullopt;
      p.inside = p.inside && at / array_.chunk[d] < array_.grid[d];
      p.flat = p.flat * array_.grid[d] + at / array_.chunk[d];
    }
    return p;
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
    for (std::uint64_t i = 0; i < node.n_entries; ++i) QUANTEM_TRY(take_chunk(entry(node, i), found));
    return Done{};
  }

  Result<Node> outside(int parent_level, Found& found, const char* what) {  // the root must be there
    if (!may_be_cut_ || parent_level < 0) return damaged(what);
    found.lost = true;
    return Node{};
  }
  Result<Done> take_chunk(std::span<const unsigned char> e, Found& found) {
    const auto place = place_of(e);
    if (!place) return damaged(kNotAMultiple);
    Cursor sizes(e), last(e.last(8));
    ByteRange range;
    range.bytes = sizes.take(4);
    range.filter_mask = static_cast<std::uint32_t>(sizes.take(4));
    const std::uint64_t address = last.take(8);
    if (!place->inside || address == kNoAddress) return Done{};
    range.offset = address + file_.base();
    if (range.offset < address) return damaged("a chunk address passes 2^64");
    if (place->flat >= found.first && place->flat < found.end)
      chunks_[place->flat] = range;
    else
      found.elsewhere.emplace_back(place->flat, range);
    return Done{};
  }

  const RawFile& file_;
  const ChunkedArray& array_;
  bool may_be_cut_;
  std::vector<ByteRange>& chunks_;
  std::size_t rank_;
  std::atomic<std::int64_t> bytes_left_;
  Found at_root_;
  Node root_;  // of level 1 or more
  std::vector<Found> found_;
  std::vector<std::optional<Error>> errors_;
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

void read_chunk_indices(std::span<ChunkIndexTask> tasks) {
  std::vector<std::unique_ptr<BtreeV1>> trees(tasks.size());
  parallel_for(tasks.size(), [&](std::uint64_t i) {
    ChunkIndexTask& t = tasks[i];
    t.chunks.assign(t.array.n_chunks, ByteRange{});
    if (t.layout.address == kNoAddress) return;  // nothing was ever written
    Result<Done> done = Done{};
    if (t.layout.index == IndexKind::btree_v1) {
      trees[i] = std::make_unique<BtreeV1>(*t.file, t.array, t.may_be_cut, t.chunks);
      done = trees[i]->read_root(t.layout.address);
    } else {
      done = read_chunk_index_v4(*t.file, t.layout, t.array, t.chunks, t.may_be_cut ? &t.lost : nullptr);
    }
    if (!done) t.error = done.take_error();
  });
  std::vector<std::pair<std::size_t, std::uint64_t>> children;  // of all trees, so that no thread waits for a long one
  for (std::size_t i = 0; i < tasks.size(); ++i)
    for (std::uint64_t c = 0; trees[i] && !tasks[i].error && c < trees[i]->n_children(); ++c)
      children.emplace_back(i, c);
  parallel_for(children.size(), [&](std::uint64_t k) { trees[children[k].first]->read_child(children[k].second); });
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (!trees[i] || tasks[i].error) continue;
    if (auto lost = trees[i]->finish(); lost)
      tasks[i].lost = *lost;
    else
      tasks[i].error = lost.take_error();
  }
}

}  // namespace quantem::hdf5
