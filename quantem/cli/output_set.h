#pragma once
// Files that belong together, written at the end of a command: each appears complete or not at all, and none replaces an
// existing one unless that was asked for.

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "quantem/core/result.h"

namespace quantem::cli {

// Writes beside `path` under a temporary name, flushes, then renames. Errors: io with the system's reason;
// invalid_argument when the file exists and overwrite is false.
Result<Done> write_whole(const std::filesystem::path& path, std::string_view bytes, bool overwrite);

// invalid_argument when `path` exists and overwrite is false.
Result<Done> check_absent(const std::filesystem::path& path, bool overwrite);

class OutputSet {
 public:
  OutputSet(std::filesystem::path folder, bool overwrite) : folder_(std::move(folder)), overwrite_(overwrite) {}
  // Before any work: the folder is one or can be made, and holds none of the names unless overwriting.
  Result<Done> check(const std::vector<std::string>& names) const;
  void add(std::string name, std::string bytes) { files_.emplace_back(std::move(name), std::move(bytes)); }
  Result<Done> flush();   // writes what was added, side by side
  Result<Done> commit();  // the same, but the last one, which can list the others, after all of them
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
  bool overwrite_;
  std::vector<std::pair<std::string, std::string>> files_;
};

}  // namespace quantem::cli
