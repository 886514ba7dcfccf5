#pragma once
// Where the chunks of a dataset lie, read from the bytes of the file by this program, in one pass. libhdf5 before 1.12.3 has no
// such pass (H5Dget_chunk_info is linear per call). Every address, size and depth is checked against the file.

#include <bit>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "quantem/core/result.h"
#include "quantem/io/container.h"

namespace quantem::hdf5 {

inline constexpr std::uint64_t kNoAddress = ~std::uint64_t{0};

// Positioned reads of a file, addresses as the file counts them (from `base`).
class RawFile {
 public:
  RawFile(const std::filesystem::path& path, std::uint64_t base);
  ~RawFile();
  RawFile(const RawFile&) = delete;
  RawFile& operator=(const RawFile&) = delete;
  [[nodiscard]] bool is_open() const { return descriptor_ >= 0; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] std::uint64_t base() const { return base_; }
  [[nodiscard]] bool inside(std::uint64_t address, std::uint64_t n) const {
    return address <= bytes_ && base_ <= bytes_ - address && n <= bytes_ - address - base_;
  }
  bool read(std::uint64_t address, std::span<unsigned char> out) const;  // false: not inside the file, or not readable

 private:
  int descriptor_ = -1;
  std::uint64_t base_ = 0, bytes_ = 0;
};

// A cursor over little-endian bytes; reading past the end gives zeros and clears ok().
class Cursor {
 public:
  explicit Cursor(std::span<const unsigned char> bytes) : bytes_(bytes) {}
  std::uint64_t take(std::size_t n) {
    if (n > bytes_.size() - at_) {
      ok_ = false;
      at_ = bytes_.size();
      return 0;
    }
    std::uint64_t v = 0;
    if (std::endian::native == std::endian::little && n <= 8)
      std::memcpy(&v, bytes_.data() + at_, n);
    else
      for (std::size_t i = 0; i < n && i < 8; ++i) v |= std::uint64_t{bytes_[at_ + i]} << (8 * i);
    at_ += n;
    return v;
  }
  void skip(std::size_t n) { take(n); }
  bool matches(const char (&word)[5]) {
    for (int i = 0; i < 4; ++i)
      if (take(1) != static_cast<unsigned char>(word[i])) return false;
    return ok_;
  }
  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] std::size_t at() const { return at_; }
  [[nodiscard]] std::size_t left() const { return bytes_.size() - at_; }

 private:
  std::span<const unsigned char> bytes_;
  std::size_t at_ = 0;
  bool ok_ = true;
};

enum class IndexKind : std::uint8_t {
  btree_v1 = 0,
  single = 1,
  implicit = 2,
  fixed_array = 3,
  extensible_array = 4,
  btree_v2 = 5
};

// The data layout message of an object header (message 8), versions 3 and 4.
struct LayoutMessage {
  enum class Class : std::uint8_t { compact = 0, contiguous = 1, chunked = 2, virtual_ = 3 } kind = Class::contiguous;
  // Contiguous, compact: where the values lie. Chunked: the index. Virtual: a global heap, and the number of an object there.
  std::uint64_t address = kNoAddress, bytes = 0;
  std::vector<std::uint64_t> chunk;  // without the element size
  std::uint64_t element_bytes = 0;
  IndexKind index = IndexKind::btree_v1;
  bool single_is_filtered = false;  // then `bytes` and `filter_mask` belong to the one chunk
  std::uint32_t filter_mask = 0;
};
inline constexpr std::uint64_t kLayoutMessage = 8;
// The message's body, which lies at `address`. Nothing when it is damaged or of another version.
std::optional<LayoutMessage> parse_layout(std::span<const unsigned char> message, std::uint64_t address);
// That of the object at `header_address`. Nothing when the header is of a kind that is not known here (the caller then asks
// libhdf5).
std::optional<LayoutMessage> read_layout(const RawFile& file, std::uint64_t header_address);

// The array that an index describes.
struct ChunkedArray {
  std::vector<std::uint64_t> shape, max_shape, chunk;  // max_shape kNoAddress: unlimited
  std::vector<std::uint64_t> grid;                     // chunks along each axis
  std::uint64_t n_chunks = 0, chunk_bytes = 0;
  bool filtered = false;
  bool operator==(const ChunkedArray&) const = default;
};
// Where the chunks of one array lie: what is asked, and the answer.
struct ChunkIndexTask {
  const RawFile* file = nullptr;
  LayoutMessage layout;  // chunked
  ChunkedArray array;
  bool may_be_cut = false;  // the file is cut off: see `lost`

  std::vector<ByteRange> chunks;  // n_chunks, absent where nothing is said; offsets are in the file
  // corrupt_data: what is wrong with the index. Pieces of it that lie beyond the end of the file are wrong too, but where the file may be
  // cut they set `lost` and their chunks stay absent; only the start of the index must be there.
  std::optional<Error> error;
  bool lost = false;
};
// All of them at once, with all threads.
void read_chunk_indices(std::span<ChunkIndexTask> tasks);
// The kinds of file format 1.10 (all but the version-1 B-tree), called by the one above; `lost` is given where the file may be cut.
Result<Done> read_chunk_index_v4(const RawFile& file, const LayoutMessage& layout, const ChunkedArray& array,
                                 std::vector<ByteRange>& chunks, bool* lost);

}  // namespace quantem::hdf5
