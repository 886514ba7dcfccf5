#pragma once
// A known acquisition, built in both representations, and every product of it against plain loops. Under a second.

#include <string>
#include <vector>

#include "quantem/core/result.h"
#include "quantem/runtime/device.h"

namespace quantem::cli {

struct SelfCheck {
  std::string name;  // "encoded: masked sum, ring"
  bool equal = false;
  std::string found;  // what differed, or the error
};
std::vector<SelfCheck> self_test(const Device& device);

}  // namespace quantem::cli
