#pragma once
// What tests of opening files say over and over.

#include <gtest/gtest.h>

#include <string>

#include "tests/support/frames.h"

namespace quantem::support {

using Sums = std::vector<std::optional<std::int64_t>>;

inline OpenOptions scan(std::uint32_t rows, std::uint32_t cols, Missing missing = Missing::error) {
  OpenOptions o;
  o.scan_shape = Extent{rows, cols};
  o.missing = missing;
  return o;
}

// per_frame * (k + start) for k below n; then `missing` positions without a value.
inline Sums ramp_sums(std::int64_t n, std::int64_t per_frame = 64, std::int64_t start = 0, std::size_t missing = 0) {
  Sums s;
  for (std::int64_t k = 0; k < n; ++k) s.emplace_back(per_frame * (k + start));
  s.resize(s.size() + missing);
  return s;
}

inline Container open(const std::filesystem::path& path, const OpenOptions& options = {}) {
  auto c = inspect(path, options);
  EXPECT_TRUE(c) << (c ? "" : c.error().message);
  return c ? *c : Container{};
}

// Opens, expects readiness and returns the sums.
inline Sums ready_sums(const std::filesystem::path& path, const OpenOptions& options = {}) {
  const Container c = open(path, options);
  EXPECT_FALSE(c.not_ready) << c.not_ready->message;
  return sum_image(c);
}

inline bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}
// Why a file is not opened or not ready; "ready" when it is.
inline Error refusal(const std::filesystem::path& path, const OpenOptions& options = {}) {
  const auto c = inspect(path, options);
  if (!c) return c.error();
  return c->not_ready ? *c->not_ready : Error(Code::internal, "ready");
}
inline bool warns(const Container& c, const std::string& part) {
  for (const auto& w : c.warnings)
    if (holds(w, part)) return true;
  return false;
}

}  // namespace quantem::support

#define EXPECT_HOLDS(text, part) \
  EXPECT_TRUE(::quantem::support::holds((text), (part))) << "'" << (part) << "' is not in: " << (text)
