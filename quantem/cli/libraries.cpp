#include "quantem/cli/libraries.h"

#include <fmt/format.h>
#include <hdf5.h>
#include <hwy/highway.h>
#include <lz4.h>
#include <png.h>
#include <tbb/version.h>
#include <zlib.h>
#include <zstd.h>

#include <nlohmann/json.hpp>

namespace quantem::cli {

std::vector<std::pair<std::string, std::string>> library_versions() {
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return {{"HDF5", fmt::format("{}.{}.{}", major, minor, release)},
          {"LZ4", LZ4_versionString()},
          {"zstd", ZSTD_versionString()},
          {"zlib", zlibVersion()},
          {"libpng", png_get_libpng_ver(nullptr)},
          {"oneTBB", TBB_runtime_version()},
          {"Highway", fmt::format("{}.{}.{}", HWY_MAJOR, HWY_MINOR, HWY_PATCH)},
          {"fmt", fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100)},
          {"nlohmann-json", fmt::format("{}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR,
                                        NLOHMANN_JSON_VERSION_PATCH)}};
}

}  // namespace quantem::cli
