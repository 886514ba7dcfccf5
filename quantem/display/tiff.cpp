#include "quantem/display/tiff.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace quantem {
namespace {

// Tags and field types by their numbers in the specification.
enum Tag : std::uint16_t {
  image_width = 256,
  image_length = 257,
  bits_per_sample = 258,
  compression = 259,
  photometric = 262,
  image_description = 270,
  strip_offsets = 273,
  samples_per_pixel = 277,
  rows_per_strip = 278,
  strip_byte_counts = 279,
  x_resolution = 282,
  y_resolution = 283,
  resolution_unit = 296,
  sample_format = 339,
};
enum Type : std::uint16_t { ascii = 2, u16 = 3, u32 = 4, rational = 5 };

constexpr std::uint32_t kHeaderBytes = 8, kEntryBytes = 12;

struct Entry {
  std::uint16_t tag, type;
  std::uint32_t count, value;  // or the offset of what does not fit
};

class Bytes {
 public:
  void put16(std::uint16_t v) { put(v, 2); }
  void put32(std::uint32_t v) { put(v, 4); }
  void append(const void* data, std::size_t n) {
    const auto* from = static_cast<const std::uint8_t*>(data);
    bytes_.insert(bytes_.end(), from, from + n);
  }
  std::vector<std::uint8_t> take() { return std::move(bytes_); }

 private:
  void put(std::uint32_t v, int n) {
    for (int i = 0; i < n; ++i) bytes_.push_back(static_cast<std::uint8_t>(v >> (8 * i)));
  }
  std::vector<std::uint8_t> bytes_;
};

std::string seven_bit(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) > 126 || c == '\0') c = '?';
  text += '\0';
  if (text.size() % 2) text += '\0';  // what follows begins at an even offset
  return text;
}

// n / d closest to `value` that 32 bits hold: large values as whole numbers, small ones with all digits below the point.
struct Ratio {
  std::uint32_t n, d;
};
std::optional<Ratio> ratio_of(double value) {
  constexpr double kMost = 4294967295.0;
  if (!(value > 0) || value > kMost) return std::nullopt;
  double d = 1;
  while (d < 1e6 && value * d * 10 <= kMost) d *= 10;
  const double n = std::nearbyint(value * d);
  if (n < 1) return std::nullopt;
  return Ratio{static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(d)};
}

// The fields in ascending order of their tags, which is also the order of what they point at.
std::vector<Entry> directory(Extent extent, std::uint32_t text_bytes, bool sized) {
  const std::uint32_t n_entries = sized ? 14 : 11;
  const std::uint32_t at_ratios = kHeaderBytes + 2 + n_entries * kEntryBytes + 4;
  const std::uint32_t at_description = at_ratios + (sized ? 16 : 0);
  std::vector<Entry> entries = {{image_width, u32, 1, extent.cols},
                                {image_length, u32, 1, extent.rows},
                                {bits_per_sample, u16, 1, 32},
                                {compression, u16, 1, 1},
                                {photometric, u16, 1, 1},  // black is the smallest value
                                {image_description, ascii, text_bytes, at_description},
                                {strip_offsets, u32, 1, at_description + text_bytes},
                                {samples_per_pixel, u16, 1, 1},
                                {rows_per_strip, u32, 1, extent.rows},
                                {strip_byte_counts, u32, 1, static_cast<std::uint32_t>(4 * extent.count())}};
  if (sized) {
    entries.push_back({x_resolution, rational, 1, at_ratios});
    entries.push_back({y_resolution, rational, 1, at_ratios + 8});
    entries.push_back({resolution_unit, u16, 1, 3});  // per centimetre
  }
  entries.push_back({sample_format, u16, 1, 3});  // IEEE float
  return entries;
}

}  // namespace

Result<std::vector<std::uint8_t>> encode_tiff(const Grid<float>& image, const TiffOptions& options) {
  static_assert(std::endian::native == std::endian::little);
  const std::uint64_t n = image.extent.count();
  if (n == 0 || image.values.size() != n)
    return Error{Code::invalid_argument, "tiff: an image of " + to_string(image.extent) + " has " + std::to_string(n) +
                                             " values, found " + std::to_string(image.values.size())};
  const std::string description = seven_bit(options.description);
  if (4 * n + description.size() + 1024 > 0xFFFFFFFFu)
    return Error{Code::unsupported, "tiff: an image of " + to_string(image.extent) + " passes 4 GB; write .npy"};

  constexpr double kAngstromPerCm = 1e8;
  std::optional<Ratio> x, y;
  if (options.pixel_size_A) {
    x = ratio_of(kAngstromPerCm / options.pixel_size_A->col);
    y = ratio_of(kAngstromPerCm / options.pixel_size_A->row);
  }
  // Header, directory, ratios, description, values.
  const std::vector<Entry> entries = directory(image.extent, static_cast<std::uint32_t>(description.size()), x && y);

  Bytes out;
  out.append("II", 2);
  out.put16(42);
  out.put32(kHeaderBytes);
  out.put16(static_cast<std::uint16_t>(entries.size()));
  for (const Entry& e : entries) {
    out.put16(e.tag);
    out.put16(e.type);
    out.put32(e.count);
    out.put32(e.value);  // little-endian: a u16 lies in the first two bytes
  }
  out.put32(0);  // no further image
  if (x && y)
    for (const std::uint32_t v : {x->n, x->d, y->n, y->d}) out.put32(v);
  out.append(description.data(), description.size());
  std::vector<float> values = image.values;
  for (std::uint64_t i = 0; i < n; ++i)
    if (!image.is_valid(i)) values[i] = std::numeric_limits<float>::quiet_NaN();
  out.append(values.data(), 4 * n);
  return out.take();
}

}  // namespace quantem
