#include "quantem/display/colormap.h"

#include <cmath>
#include <string>

#include "quantem/display/check.h"

namespace quantem {
namespace {

// clang-format off
constexpr ColorTable kTables[] = {
    {{
#include "quantem/display/data/gray.inc"
    }}, {{
#include "quantem/display/data/viridis.inc"
    }}, {{
#include "quantem/display/data/plasma.inc"
    }}, {{
#include "quantem/display/data/inferno.inc"
    }}, {{
#include "quantem/display/data/magma.inc"
    }}, {{
#include "quantem/display/data/magenta.inc"
    }}, {{
#include "quantem/display/data/hot.inc"
    }}, {{
#include "quantem/display/data/hsv.inc"
    }}, {{
#include "quantem/display/data/turbo.inc"
    }}, {{
#include "quantem/display/data/cividis.inc"
    }}, {{
#include "quantem/display/data/RdBu.inc"
    }}, {{
#include "quantem/display/data/RdBu_r.inc"
    }}, {{
#include "quantem/display/data/seismic.inc"
    }}, {{
#include "quantem/display/data/twilight.inc"
    }}, {{
#include "quantem/display/data/twilight_shifted.inc"
    }}};
// clang-format on

// In the order of kTables.
constexpr std::string_view kNames[] = {"gray",    "viridis", "plasma",  "inferno",  "magma",
                                       "magenta", "hot",     "hsv",     "turbo",    "cividis",
                                       "RdBu",    "RdBu_r",  "seismic", "twilight", "twilight_shifted"};
static_assert(std::size(kNames) == std::size(kTables));

}  // namespace

std::span<const std::string_view> colormap_names() {
  return kNames;
}

Result<const ColorTable*> colormap(std::string_view name) {
  std::string known;
  for (std::size_t i = 0; i < std::size(kNames); ++i) {
    if (kNames[i] == name) return &kTables[i];
    known += (i ? ", " : "") + std::string(kNames[i]);
  }
  return Error{Code::invalid_argument, "colormap '" + std::string(name) + "' is not known; use one of " + known};
}

bool is_cyclic_colormap(std::string_view name) {
  return name == "hsv" || name == "twilight" || name == "twilight_shifted";
}

Result<Rgba> colorize(const Grid<float>& image, const Window& window, std::string_view name, Color bad) {
  QUANTEM_TRY(check_grid(image, "colorize"));
  QUANTEM_TRY_ASSIGN(table, colormap(name));
  Rgba out(image.extent);
  for (std::uint64_t i = 0; i < image.values.size(); ++i) {
    const int level = image.is_valid(i) ? window.level(image.values[i]) : 256;
    if (level > 255) {
      out.set(i, bad);
    } else {
      const auto& row = (*table)[static_cast<std::size_t>(level)];
      out.set(i, {row[0], row[1], row[2], 255});
    }
  }
  return out;
}

}  // namespace quantem
