#pragma once
// Files -> Series: many acquisitions resident together under one memory budget.

#include <filesystem>
#include <span>
#include <string>

#include "quantem/io/load.h"
#include "quantem/resident/series.h"

namespace quantem {

struct SeriesSource {
  std::string name;  // unique in the series
  std::filesystem::path path;
  OpenOptions open = {};
};

struct SeriesOptions {
  OnError on_error = OnError::fail;
  LoadOptions load = {};  // of every acquisition
  // For all volumes together and the load at hand; 0: the device's memory_limit_bytes, else what is free when each load begins. An
  // acquisition whose estimate passes what the others leave of it is out_of_memory before anything is allocated, with the numbers.
  std::uint64_t memory_limit_bytes = 0;
};

// inspect() and load() of each, in order. Errors: theirs, with the acquisition's name, or listed (OnError::skip; never `cancelled` or
// a name that is taken). Volumes equal those of load().
Result<Series> load_series(const Device& device, std::span<const SeriesSource> sources,
                           const SeriesOptions& options = {}, const Job& job = {});

}  // namespace quantem
