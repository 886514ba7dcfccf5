#include "quantem/io/hdf5_header.h"

#include <vector>

namespace quantem::hdf5 {
namespace {

constexpr std::size_t kMaxHeaderBlocks = 4096;
constexpr std::uint64_t kMaxBlockBytes = std::uint64_t{1} << 22, kMaxHeaderBytes = std::uint64_t{1} << 26;
constexpr std::uint64_t kNull = 0, kContinuation = 16;

struct Block {
  std::uint64_t address = 0, bytes = 0;
};

struct Header {
  int version = 1;
  bool ordered = false;  // version 2: messages carry their creation order
  Block first;
};

const char* read_prefix(const RawFile& file, std::uint64_t address, Header& header) {
  unsigned char head[64] = {};
  const std::uint64_t available = file.inside(address, 64) ? 64 : file.inside(address, 16) ? 16 : 0;
  if (available == 0 || !file.read(address, std::span(head).first(available)))
    return "its object header lies outside the file";
  Cursor c(std::span<const unsigned char>(head, available));
  if (c.matches("OHDR")) {
    header.version = 2;
    if (c.take(1) != 2) return "its object header has an unknown version";
    const std::uint64_t flags = c.take(1);
    header.ordered = flags & 4;
    if (flags & 0x20) c.skip(16);
    if (flags & 0x10) c.skip(4);
    header.first.bytes = c.take(std::size_t{1} << (flags & 3));
    header.first.address = address + c.at();
    return c.ok() ? nullptr : "its object header is cut";
  }
  Cursor v1(std::span<const unsigned char>(head, available));
  if (v1.take(1) != 1) return "no object header where one should be";
  v1.skip(7);
  header.first = {address + 16, v1.take(4)};
  return nullptr;
}

// Version 1 has 8-byte message heads, version 2 has 4 or 6. `go_on` is cleared when visit has seen enough.
const char* walk_block(const RawFile& file, const Header& header, Block block,
                       const std::function<bool(const HeaderMessage&)>& visit, std::vector<Block>& more, bool& go_on) {
  if (block.bytes > kMaxBlockBytes) return "a block of its object header is absurdly long";
  std::vector<unsigned char> bytes(block.bytes);
  if (!file.read(block.address, bytes)) return "its object header ends outside the file";
  Cursor c(bytes);
  const std::size_t head = header.version == 1 ? 8 : header.ordered ? 6 : 4;
  while (go_on && c.left() >= head) {
    HeaderMessage m;
    m.type = c.take(header.version == 1 ? 2 : 1);
    const std::uint64_t n = c.take(2);
    m.shared = c.take(1) & 2;
    c.skip(head - (header.version == 1 ? 5 : 4));
    if (n > c.left()) return "a message of its object header is longer than its block";
    m.address = block.address + c.at();
    m.body = std::span<const unsigned char>(bytes).subspan(c.at(), n);
    if (m.type == kContinuation) {
      Cursor link(m.body);
      const std::uint64_t address = link.take(8), length = link.take(8);
      if (!link.ok()) return "a continuation of its object header is damaged";
      more.push_back({address, length});
    } else if (m.type != kNull) {
      go_on = visit(m);
    }
    c.skip(n);
  }
  return nullptr;
}

}  // namespace

const char* walk_header(const RawFile& file, std::uint64_t address,
                        const std::function<bool(const HeaderMessage&)>& visit) {
  Header header;
  if (const char* fault = read_prefix(file, address, header)) return fault;
  std::vector<Block> blocks{header.first};
  std::uint64_t total = 0;
  bool go_on = true;
  for (std::size_t i = 0; go_on && i < blocks.size(); ++i) {
    Block block = blocks[i];
    if (i > 0 && header.version == 2) {  // "OCHK" in front, a checksum behind
      if (block.bytes < 8) return "a continuation of its object header is damaged";
      block = {block.address + 4, block.bytes - 8};
    }
    std::vector<Block> more;
    if (const char* fault = walk_block(file, header, block, visit, more, go_on)) return fault;
    total += block.bytes;
    blocks.insert(blocks.end(), more.begin(), more.end());
    if (blocks.size() > kMaxHeaderBlocks || total > kMaxHeaderBytes) return "its object header has no end";
  }
  return nullptr;
}

}  // namespace quantem::hdf5
