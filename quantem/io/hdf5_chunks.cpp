#include "quantem/io/hdf5_chunks.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "quantem/io/hdf5_header.h"

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

// Version-1 B-tree over the chunks of one dataset.
class BtreeV1 {
 public:
  BtreeV1(const RawFile& file, const ChunkedArray& array, std::vector<ByteRange>& chunks, bool* lost)
      : file_(file),
        array_(array),
        chunks_(chunks),
        lost_(lost),
        rank_(array.shape.size()),
        bytes_left_(file.bytes()) {}

  Result<Done> walk(std::uint64_t address, int parent_level) {
    unsigned char head[24];
    if (!file_.read(address, head)) return outside(parent_level, "a B-tree node lies outside the file");
    Cursor c(head);
    if (!c.matches("TREE") || c.take(1) != 1) return damaged("no B-tree node where one should be");
    const int level = static_cast<int>(c.take(1));
    const std::uint64_t entries = c.take(2);
    if (level > kMaxDepth || (parent_level >= 0 && level != parent_level - 1))
      return damaged("B-tree levels do not descend");
    const std::size_t entry = 8 + 8 * (rank_ + 1) + 8;
    // Nodes do not overlap: a tree that is larger than its file leads back to itself.
    if (24 + entries * entry > bytes_left_) return damaged("more B-tree nodes than the file can hold");
    bytes_left_ -= 24 + entries * entry;
    std::vector<unsigned char> bytes(entries * entry);
    if (!file_.read(address + 24, bytes)) return outside(parent_level, "a B-tree node ends outside the file");
    for (std::uint64_t i = 0; i < entries; ++i) {
      Cursor e(std::span<const unsigned char>(bytes).subspan(i * entry, entry));
      if (level == 0) {
        QUANTEM_TRY(take_chunk(e));
      } else {
        e.skip(entry - 8);
        QUANTEM_TRY(walk(e.take(8), level));
      }
    }
    return Done{};
  }

 private:
  Result<Done> outside(int parent_level, const char* what) {  // the root must be there
    if (!lost_ || parent_level < 0) return damaged(what);
    *lost_ = true;
    return Done{};
  }
  Result<Done> take_chunk(Cursor& e) {
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
    chunks_[flat] = range;
    return Done{};
  }

  const RawFile& file_;
  const ChunkedArray& array_;
  std::vector<ByteRange>& chunks_;
  bool* lost_;
  std::size_t rank_;
  std::uint64_t bytes_left_;
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
  return BtreeV1(file, array, chunks, lost).walk(layout.address, -1);
}

}  // namespace quantem::hdf5
