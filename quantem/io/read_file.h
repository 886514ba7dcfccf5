#pragma once
// Positioned reads that loop until everything is there.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "quantem/core/result.h"

namespace quantem {

// A descriptor open for reading, closed at the end.
class ReadOnlyFile {
 public:
  ReadOnlyFile() = default;
  static Result<ReadOnlyFile> open(const std::filesystem::path& path);  // io with the system's reason
  ReadOnlyFile(ReadOnlyFile&& other) noexcept : descriptor_(other.descriptor_) { other.descriptor_ = -1; }
  ReadOnlyFile& operator=(ReadOnlyFile&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~ReadOnlyFile();
  [[nodiscard]] bool is_open() const { return descriptor_ >= 0; }
  [[nodiscard]] int descriptor() const { return descriptor_; }
  // Fills `out` from `offset`. The system may give less than asked (one read is capped near 2 GiB): loops, at most 1 GiB a call.
  // io: the file ends early, or the system's reason.
  Result<Done> read(std::uint64_t offset, std::span<std::byte> out,
                    std::size_t most_per_call = std::size_t{1} << 30) const;

 private:
  int descriptor_ = -1;
};

}  // namespace quantem
