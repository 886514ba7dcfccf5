#pragma once
// The libraries that the program runs with, by the version that each reports at run time.

#include <string>
#include <utility>
#include <vector>

namespace quantem::cli {

std::vector<std::pair<std::string, std::string>> library_versions();

}  // namespace quantem::cli
