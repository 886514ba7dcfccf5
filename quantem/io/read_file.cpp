#include "quantem/io/read_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <string>
#include <system_error>

namespace quantem {
namespace {

std::string reason(int number) {
  return std::generic_category().message(number);
}

}  // namespace

Result<ReadOnlyFile> ReadOnlyFile::open(const std::filesystem::path& path) {
  ReadOnlyFile file;
  do file.descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  while (file.descriptor_ < 0 && errno == EINTR);
  if (file.descriptor_ < 0) return Error(Code::io, path.string() + ": " + reason(errno));
  return file;
}

ReadOnlyFile::~ReadOnlyFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<Done> ReadOnlyFile::read(std::uint64_t offset, std::span<std::byte> out, std::size_t most_per_call) const {
  std::size_t done = 0;
  while (done < out.size()) {
    if (offset + done > static_cast<std::uint64_t>(std::numeric_limits<off_t>::max()))
      return Error(Code::io, "read at byte " + std::to_string(offset) + ": past the largest offset of the system");
    const ssize_t n = ::pread(descriptor_, out.data() + done, std::min(out.size() - done, most_per_call),
                              static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Error(Code::io, "read at byte " + std::to_string(offset + done) + ": " + reason(errno));
    if (n == 0)
      return Error(Code::io, "the file ends at byte " + std::to_string(offset + done) + ", " +
                                 std::to_string(out.size() - done) + " bytes before the end of what is to be read");
    done += static_cast<std::size_t>(n);
  }
  return Done{};
}

}  // namespace quantem
