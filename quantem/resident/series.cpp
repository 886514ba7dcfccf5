#include "quantem/resident/series.h"

#include <algorithm>

namespace quantem {
namespace {

// What keeps `volume` out of a series over `detector`.
Result<Done> check_member(const Volume& volume, Extent detector) {
  QUANTEM_TRY(volume.check_open());
  if (detector.count() && volume.shape().det != detector)
    return Error{Code::invalid_argument, "its detector is " + to_string(volume.shape().det) +
                                             ", the series has acquisitions of " + to_string(detector) +
                                             ": one mask cannot serve both; load it with a detector region or bin that "
                                             "gives the same shape, or make a series of its own"};
  return Done{};
}

}  // namespace

std::string_view on_error_name(OnError on_error) {
  return on_error == OnError::fail ? "fail" : "skip";
}
Result<OnError> parse_on_error(std::string_view name) {
  for (const OnError o : {OnError::fail, OnError::skip})
    if (name == on_error_name(o)) return o;
  return Error{Code::invalid_argument, "on_error: expected fail or skip, found '" + std::string(name) + "'"};
}

Result<Done> Series::add(const std::string& name, Result<Volume> volume) {
  const auto is_name = [&](const std::string& taken) { return taken == name; };
  if (name.empty())
    return Error{Code::invalid_argument,
                 "series: acquisition " + std::to_string(volumes_.size() + skipped_.size()) + " has no name"};
  if (std::any_of(names_.begin(), names_.end(), is_name) ||
      std::any_of(skipped_.begin(), skipped_.end(), [&](const auto& s) { return is_name(s.name); }))
    return Error{Code::invalid_argument,
                 "series: there is already an acquisition '" + name + "'; give each its own name"};
  const Result<Done> good = volume ? check_member(*volume, detector()) : Result<Done>(volume.error());
  if (good) {
    names_.push_back(name);
    volumes_.push_back(*std::move(volume));
    return Done{};
  }
  if (on_error_ == OnError::fail || good.error().code == Code::cancelled)
    return with_context("series: " + name, good.error());
  skipped_.push_back({name, good.error()});
  return Done{};
}

std::uint64_t Series::resident_bytes() const {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < volumes_.size(); ++i) {
    const auto end =
        volumes_.begin() + static_cast<std::ptrdiff_t>(i);  // info() lies with the counts: one address, one acquisition
    if (std::none_of(volumes_.begin(), end, [&](const Volume& v) { return &v.info() == &volumes_[i].info(); }))
      bytes += volumes_[i].resident_bytes();
  }
  return bytes;
}

void Series::close() {
  names_.clear();
  volumes_.clear();
}

}  // namespace quantem
