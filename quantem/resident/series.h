#pragma once
// Many acquisitions resident together, named, in the order in which they came: a tilt series, a time series, a day's samples.
// Scan shapes, dtypes, storage and devices may differ from one to the next; the detector's shape is that of the first, so that one
// mask serves all (detector/series.h). A Series holds handles: copying it copies no counts.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quantem/core/result.h"
#include "quantem/core/shape.h"
#include "quantem/resident/volume.h"

namespace quantem {

// What an acquisition that cannot be had does to its series: ends it, or is left out and listed with the reason.
enum class OnError : std::uint8_t { fail, skip };
std::string_view on_error_name(OnError on_error);  // "fail", "skip"
Result<OnError> parse_on_error(std::string_view name);

struct SkippedAcquisition {
  std::string name;
  Error error;
};

class Series {
 public:
  explicit Series(OnError on_error = OnError::fail) : on_error_(on_error) {}

  // Appends the acquisition, or what came instead of it: `volume` may be the answer of load(). With OnError::skip a failed load, a closed
  // volume and a detector of another shape are listed in skipped() and the series goes on; otherwise each is an error that starts with
  // the name, and the series stays as it was. Always errors: invalid_argument for a name that is empty or taken; cancelled.
  Result<Done> add(const std::string& name, Result<Volume> volume);

  [[nodiscard]] std::uint64_t n_acquisitions() const { return volumes_.size(); }
  [[nodiscard]] bool empty() const { return volumes_.empty(); }
  [[nodiscard]] std::span<const Volume> volumes() const { return volumes_; }
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  [[nodiscard]] const std::vector<SkippedAcquisition>& skipped() const { return skipped_; }
  [[nodiscard]] OnError on_error() const { return on_error_; }
  // Of every acquisition; (0, 0) while there is none.
  [[nodiscard]] Extent detector() const { return volumes_.empty() ? Extent{0, 0} : volumes_.front().shape().det; }
  // Together, on all devices; counts that two names share are counted once.
  [[nodiscard]] std::uint64_t resident_bytes() const;
  // Lets go of all acquisitions; skipped() stays.
  void close();

 private:
  OnError on_error_;
  std::vector<std::string> names_;
  std::vector<Volume> volumes_;
  std::vector<SkippedAcquisition> skipped_;
};

}  // namespace quantem
