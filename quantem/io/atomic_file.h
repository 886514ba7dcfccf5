#pragma once
// A file that appears complete or not at all: written under a temporary name beside its target, then renamed.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "quantem/core/result.h"

namespace quantem {

// io when `target` exists and may not be replaced, or its directory is not there.
Result<Done> check_target(const std::filesystem::path& target, bool overwrite);

// Owns a temporary name. Destroyed before publish(): the temporary file goes.
class AtomicFile {
 public:
  // Checks the target, creates the temporary file, empty.
  static Result<AtomicFile> create(const std::filesystem::path& target, bool overwrite);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&& other) noexcept;
  ~AtomicFile();

  [[nodiscard]] const std::filesystem::path& temporary() const { return temporary_; }
  [[nodiscard]] const std::filesystem::path& target() const { return target_; }
  // Positioned write of all bytes; safe from several threads.
  Result<Done> write_at(std::uint64_t offset, std::span<const std::byte> bytes) const;
  // Flushes and renames. io when the target has appeared meanwhile and may not be replaced.
  Result<Done> publish();

 private:
  AtomicFile() = default;
  void discard();
  std::filesystem::path target_, temporary_;
  int descriptor_ = -1;
  bool overwrite_ = false;
};

}  // namespace quantem
