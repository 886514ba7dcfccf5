#include "quantem/core/array.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

namespace quantem {

Buffer::Buffer(std::uint64_t n_bytes) {
  const std::uint64_t rounded = (std::max<std::uint64_t>(n_bytes, 1) + 63) / 64 * 64;
  if (rounded < n_bytes) return;
  // Scattered reads of a large buffer cost a page walk each with small pages: ask for huge ones where a few fit.
  constexpr std::uint64_t kHugePage = std::uint64_t{2} << 20;
  const bool large = rounded >= 2 * kHugePage;
  void* memory = nullptr;
  if (posix_memalign(&memory, large ? kHugePage : 64, rounded) != 0) return;
  bytes_.reset(static_cast<std::byte*>(memory));
  n_bytes_ = n_bytes;
  if (large) madvise(bytes_.get(), rounded, MADV_HUGEPAGE);  // advice only: an error changes nothing
}

Result<Buffer> allocate_buffer(std::uint64_t n_bytes, std::string_view what) {
  Buffer buffer(n_bytes);
  if (!buffer.data())
    return Error{Code::out_of_memory, std::string(what) + ": " + std::to_string(n_bytes) + " bytes are not available"};
  return buffer;
}

Result<Buffer> allocate_zeroed_buffer(std::uint64_t n_bytes, std::string_view what) {
  QUANTEM_TRY_ASSIGN(buffer, allocate_buffer(n_bytes, what));
  std::memset(buffer.data(), 0, n_bytes);
  return buffer;
}

}  // namespace quantem
