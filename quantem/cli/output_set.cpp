#include "quantem/cli/output_set.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <utility>

#include "quantem/runtime/thread_pool.h"

namespace quantem::cli {
namespace {

namespace fs = std::filesystem;

Error system_error(const fs::path& path, int number) {
  return Error{Code::io, path.string() + ": " + std::strerror(number)};
}

Error exists_error(const fs::path& path) {
  return Error{Code::invalid_argument, path.string() + " exists; --overwrite replaces it"};
}

Result<Done> write_bytes(const fs::path& path, std::string_view bytes) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file < 0) return system_error(path, errno);
  int failure = 0;
  while (!bytes.empty() && failure == 0) {
    const ssize_t n = ::write(file, bytes.data(), bytes.size());
    if (n >= 0)
      bytes.remove_prefix(static_cast<std::size_t>(n));
    else if (errno != EINTR)
      failure = errno;
  }
  if (failure == 0 && ::fsync(file) != 0 && errno != EINVAL && errno != EROFS) failure = errno;
  if (::close(file) != 0 && failure == 0) failure = errno;
  if (failure != 0) return system_error(path, failure);
  return Done{};
}

// Gives `temporary` its name. A hard link never replaces a file; where the file system has none, rename after a look.
Result<Done> give_name(const fs::path& temporary, const fs::path& path, bool overwrite) {
  if (!overwrite) {
    if (::link(temporary.c_str(), path.c_str()) == 0) {
      ::unlink(temporary.c_str());
      return Done{};
    }
    if (errno == EEXIST || ::access(path.c_str(), F_OK) == 0) return exists_error(path);
  }
  if (std::rename(temporary.c_str(), path.c_str()) != 0) return system_error(path, errno);
  return Done{};
}

}  // namespace

Result<Done> check_absent(const fs::path& path, bool overwrite) {
  std::error_code ignored;
  if (!overwrite && fs::exists(fs::symlink_status(path, ignored))) return exists_error(path);
  return Done{};
}

Result<Done> write_whole(const fs::path& path, std::string_view bytes, bool overwrite) {
  static std::atomic<unsigned> counter{0};
  const fs::path temporary =
      path.parent_path() / fmt::format(".{}.{}-{}.part", path.filename().string(), ::getpid(), counter++);
  auto written = write_bytes(temporary, bytes);
  if (written) written = give_name(temporary, path, overwrite);
  if (!written) ::unlink(temporary.c_str());
  return written;
}

Result<Done> OutputSet::check(const std::vector<std::string>& names) const {
  std::error_code ignored;
  const auto status = fs::status(folder_, ignored);
  if (fs::exists(status) && !fs::is_directory(status))
    return Error{Code::invalid_argument, "--out: " + folder_.string() + " is not a folder"};
  for (const std::string& name : names) QUANTEM_TRY(check_absent(folder_ / name, overwrite_));
  return Done{};
}

Result<Done> OutputSet::flush() {
  std::error_code failure;
  fs::create_directories(folder_, failure);
  if (failure) return system_error(folder_, failure.value());
  const auto files = std::exchange(files_, {});
  // Every file waits for the disk on its own.
  std::vector<std::optional<Error>> errors(files.size());
  parallel_for(files.size(), [&](std::uint64_t i) {
    auto written = write_whole(folder_ / files[i].first, files[i].second, overwrite_);
    if (!written) errors[i] = written.take_error();
  });
  for (const auto& error : errors)
    if (error) return *error;
  return Done{};
}

Result<Done> OutputSet::commit() {
  if (files_.empty()) return flush();
  const auto last = std::move(files_.back());
  files_.pop_back();
  QUANTEM_TRY(flush());
  return write_whole(folder_ / last.first, last.second, overwrite_);
}

}  // namespace quantem::cli
