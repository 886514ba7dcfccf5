#pragma once
// Values of options, from text. Every function is strict: the whole text, no sign where none makes sense, nothing
// clamped. Errors are invalid_argument: the option, the form expected, the text found.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "quantem/core/region.h"
#include "quantem/core/result.h"
#include "quantem/core/shape.h"
#include "quantem/io/container.h"

namespace quantem::cli {

Result<std::uint64_t> parse_unsigned(std::string_view text, std::string_view option);
Result<double> parse_number(std::string_view text, std::string_view option);    // finite
Result<double> parse_positive(std::string_view text, std::string_view option);  // finite, above 0
Result<Extent> parse_extent(std::string_view text, std::string_view option);    // "512x256", both above 0
Result<Extent> parse_bin(std::string_view text, std::string_view option);       // "2" or "2,3"
Result<Region> parse_region(std::string_view text, std::string_view option);    // "0:64,8:72", half-open
Result<Point> parse_point(std::string_view text, std::string_view option);      // "95.5,96"
Result<Pair> parse_step(std::string_view text, std::string_view option);        // "0.2" or "0.2,0.25", above 0
Result<std::uint64_t> parse_bytes(std::string_view text,
                                  std::string_view option);  // "8 GB" (10^9), "512MiB" (2^20), "1000"
Result<RawLayout> parse_raw(std::string_view text,
                            std::string_view option);  // "u16,192x192[,offset[,gap]]", ">u16": big-endian

std::vector<std::string_view> split(std::string_view text, char separator);
std::string format_bytes(std::uint64_t bytes);  // "1.51 GB"
std::string format_number(double value);        // at most 6 digits
std::string format_count(double value);         // whole numbers in full

// A library's message names its own parameters ("give scan_shape"); this adds the options that set them: " (--scan-shape)".
std::string with_option_names(const std::string& message);

}  // namespace quantem::cli
