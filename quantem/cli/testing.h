#pragma once
// For the tests of this area: the program run in-process, and a folder that goes away.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "quantem/cli/cli.h"

namespace quantem::cli {

struct Ran {
  int status;
  std::string out, err;
  [[nodiscard]] nlohmann::json json() const { return nlohmann::json::parse(out); }
};

inline Ran ran(const std::vector<std::string>& arguments, const CliHost& host = {}) {
  std::ostringstream out, err;
  const int status = run_cli(arguments, out, err, host);
  return {status, out.str(), err.str()};
}

inline bool holds(const std::string& text, std::string_view piece) {
  return text.find(piece) != std::string::npos;
}

class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::string& name = "files") {
    const std::string test = ::testing::UnitTest::GetInstance()->current_test_info()
                                 ? ::testing::UnitTest::GetInstance()->current_test_info()->name()
                                 : "shared";
    static int n_made = 0;  // two folders of one test must not remove each other
    root_ = std::filesystem::temp_directory_path() /
            ("quantem_cli_" + test + "_" + std::to_string(::getpid()) + "_" + std::to_string(n_made++));
    path_ = root_ / name;
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  [[nodiscard]] std::string string() const { return path_.string(); }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_))
      names.push_back(entry.path().filename().string());
    return names;
  }

 private:
  std::filesystem::path root_, path_;
};

inline std::string file_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
inline void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace quantem::cli
