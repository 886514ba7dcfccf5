#include "quantem/io/load_series.h"

#include <algorithm>

namespace quantem {
namespace {

// `device` with what the series leaves of the budget as its limit, so that a load is refused, or stopped where it grows past its
// estimate, as any load is.
Result<Device> with_the_rest(const Device& device, std::uint64_t budget, std::uint64_t taken) {
  DeviceOptions options = device.options();
  options.memory_limit_bytes = std::max<std::uint64_t>(budget > taken ? budget - taken : 0, 1);  // 0 would be no limit
  return open_device(device.backend(), device.index(), options);
}

Result<Volume> load_one(const Device& device, const SeriesSource& source, const LoadOptions& how, const Job& job) {
  QUANTEM_TRY_ASSIGN(container, inspect(source.path, source.open));
  return load(device, container, how, job);
}

}  // namespace

Result<Series> load_series(const Device& device, std::span<const SeriesSource> sources, const SeriesOptions& options,
                           const Job& job) {
  const std::uint64_t budget =
      options.memory_limit_bytes ? options.memory_limit_bytes : device.options().memory_limit_bytes;
  Series series(options.on_error);
  for (const SeriesSource& source : sources) {
    if (job.stop.stop_requested())
      return Error{Code::cancelled, "series: cancelled before " + source.name + "; nothing is kept"};
    Device limited = device;
    if (budget) {
      QUANTEM_TRY_ASSIGN(rest, with_the_rest(device, budget, series.resident_bytes()));
      limited = std::move(rest);
    }
    QUANTEM_TRY(series.add(source.name, load_one(limited, source, options.load, job)));
  }
  return series;
}

}  // namespace quantem
