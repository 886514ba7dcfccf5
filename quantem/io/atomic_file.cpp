#include "quantem/io/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

namespace quantem {
namespace {

Error io_error(const std::filesystem::path& path, const std::string& what) {
  return Error{Code::io, path.string() + ": " + what};
}
Error exists_error(const std::filesystem::path& path) {
  return io_error(path, "exists already, nothing was written: choose another name, or ask to overwrite");
}

// Renames without replacing. link + unlink where the file system has no such rename.
int rename_new(const std::filesystem::path& from, const std::filesystem::path& to) {
#if defined(__linux__) && defined(RENAME_NOREPLACE)
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return -1;
#endif
  if (::link(from.c_str(), to.c_str()) != 0) return -1;
  ::unlink(from.c_str());
  return 0;
}

}  // namespace

Result<Done> check_target(const std::filesystem::path& target, bool overwrite) {
  std::error_code ignored;
  const std::filesystem::path directory = target.has_parent_path() ? target.parent_path() : std::filesystem::path(".");
  if (!target.has_filename()) return Error{Code::invalid_argument, "'" + target.string() + "' names no file"};
  if (!std::filesystem::is_directory(directory, ignored)) return io_error(target, "its directory does not exist");
  const auto status = std::filesystem::symlink_status(target, ignored);
  if (std::filesystem::is_directory(std::filesystem::status(target, ignored)))
    return io_error(target, "is a directory");
  if (std::filesystem::exists(status) && !overwrite) return exists_error(target);
  return Done{};
}

Result<AtomicFile> AtomicFile::create(const std::filesystem::path& target, bool overwrite) {
  QUANTEM_TRY(check_target(target, overwrite));
  static std::atomic<unsigned> counter{0};
  AtomicFile f;
  f.target_ = target;
  f.overwrite_ = overwrite;
  for (int attempt = 0; attempt < 100; ++attempt) {
    f.temporary_ = target;
    f.temporary_.replace_filename("." + target.filename().string() + "." + std::to_string(::getpid()) + "-" +
                                  std::to_string(counter.fetch_add(1)) + ".tmp");
    f.descriptor_ = ::open(f.temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (f.descriptor_ >= 0) return f;
    if (errno != EEXIST) break;
  }
  const std::string reason = std::strerror(errno);
  f.temporary_.clear();
  return io_error(target, "cannot be written: " + reason);
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : target_(std::move(other.target_)),
      temporary_(std::exchange(other.temporary_, {})),
      descriptor_(std::exchange(other.descriptor_, -1)),
      overwrite_(other.overwrite_) {}

AtomicFile& AtomicFile::operator=(AtomicFile&& other) noexcept {
  if (this != &other) {
    discard();
    target_ = std::move(other.target_);
    temporary_ = std::exchange(other.temporary_, {});
    descriptor_ = std::exchange(other.descriptor_, -1);
    overwrite_ = other.overwrite_;
  }
  return *this;
}

AtomicFile::~AtomicFile() {
  discard();
}

void AtomicFile::discard() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  temporary_.clear();
}

Result<Done> AtomicFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return io_error(target_, "cannot be written: " + std::string(std::strerror(n < 0 ? errno : ENOSPC)));
    offset += static_cast<std::uint64_t>(n);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return Done{};
}

Result<Done> AtomicFile::publish() {
  const auto failed = [&] { return io_error(target_, "cannot be written: " + std::string(std::strerror(errno))); };
  if (::fsync(descriptor_) != 0 && errno != EINVAL && errno != EROFS) return failed();
  if (::close(std::exchange(descriptor_, -1)) != 0) return failed();
  const int result = overwrite_ ? std::rename(temporary_.c_str(), target_.c_str()) : rename_new(temporary_, target_);
  if (result != 0) return errno == EEXIST ? exists_error(target_) : failed();
  temporary_.clear();
  return Done{};
}

}  // namespace quantem
