#pragma once
// The one check that every display operation makes of what it is given.

#include <string>
#include <string_view>

#include "quantem/core/array.h"
#include "quantem/core/result.h"

namespace quantem {

// invalid_argument, beginning with `what`, unless there is one value and, if any, one valid bit for each element of the
// extent.
template <class T>
Result<Done> check_grid(const Grid<T>& grid, std::string_view what) {
  const auto refuse = [&](const char* noun, std::uint64_t found) {
    return Error{Code::invalid_argument, std::string(what) + ": the extent is " + to_string(grid.extent) + ", " +
                                             std::to_string(grid.extent.count()) + " elements, but there are " +
                                             std::to_string(found) + " " + noun};
  };
  if (grid.extent.count() == 0) return Error{Code::invalid_argument, std::string(what) + ": the image is empty"};
  if (grid.values.size() != grid.extent.count()) return refuse("values", grid.values.size());
  if (grid.valid.count() != 0 && grid.valid.count() != grid.extent.count())
    return refuse("valid bits", grid.valid.count());
  return Done{};
}

}  // namespace quantem
