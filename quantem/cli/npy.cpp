#include "quantem/cli/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <numeric>

#include "quantem/cli/parse.h"
#include "quantem/core/shape.h"

namespace quantem::cli {
namespace {

constexpr std::uint64_t kMaxElements = std::uint64_t{1} << 28;

struct Header {
  std::string descr;
  bool fortran = false;
  std::vector<std::uint64_t> shape;
};

// The text after "'key':" in a header dictionary, which NumPy writes in one form only.
Result<std::string_view> after(std::string_view header, std::string_view key) {
  const std::size_t at = header.find(key);
  if (at == std::string_view::npos) return Error{Code::corrupt_data, fmt::format("header has no {}", key)};
  std::string_view rest = header.substr(at + key.size());
  while (rest.starts_with(' ')) rest.remove_prefix(1);
  return rest;
}

Result<Header> parse_header(std::string_view text) {
  Header header;
  QUANTEM_TRY_ASSIGN(descr, after(text, "'descr':"));
  const std::size_t quote = descr.size() > 1 ? descr.find('\'', 1) : std::string_view::npos;
  if (!descr.starts_with('\'') || quote == std::string_view::npos)
    return Error{Code::unsupported, "structured dtypes are not read"};
  header.descr = descr.substr(1, quote - 1);
  QUANTEM_TRY_ASSIGN(order, after(text, "'fortran_order':"));
  header.fortran = order.starts_with("True");
  QUANTEM_TRY_ASSIGN(shape, after(text, "'shape':"));
  const std::size_t end = shape.find(')');
  if (!shape.starts_with('(') || end == std::string_view::npos) return Error{Code::corrupt_data, "header has no shape"};
  for (std::string_view piece : split(shape.substr(1, end - 1), ',')) {
    while (piece.starts_with(' ')) piece.remove_prefix(1);
    if (piece.empty()) continue;
    QUANTEM_TRY_ASSIGN(n, parse_unsigned(piece, "shape"));
    header.shape.push_back(n);
  }
  return header;
}

template <class T>
void convert(const std::string& bytes, bool swap, std::vector<double>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    char item[sizeof(T)];
    std::memcpy(item, bytes.data() + i * sizeof(T), sizeof(T));
    if (swap) std::reverse(item, item + sizeof(T));
    T value;
    std::memcpy(&value, item, sizeof(T));
    values[i] = static_cast<double>(value);
  }
}

using Convert = void (*)(const std::string&, bool, std::vector<double>&);
struct Kind {
  std::string_view code;
  std::size_t bytes;
  Convert convert;
};
constexpr Kind kKinds[] = {
    {"b1", 1, convert<std::uint8_t>},  {"u1", 1, convert<std::uint8_t>},  {"u2", 2, convert<std::uint16_t>},
    {"u4", 4, convert<std::uint32_t>}, {"u8", 8, convert<std::uint64_t>}, {"i1", 1, convert<std::int8_t>},
    {"i2", 2, convert<std::int16_t>},  {"i4", 4, convert<std::int32_t>},  {"i8", 8, convert<std::int64_t>},
    {"f4", 4, convert<float>},         {"f8", 8, convert<double>}};

void to_c_order(std::vector<double>& values, const std::vector<std::uint64_t>& shape) {
  std::vector<double> sorted(values.size());
  std::vector<std::uint64_t> index(shape.size(), 0);
  for (const double value : values) {  // Fortran order: the first index runs fastest
    std::uint64_t flat = 0;
    for (std::size_t axis = 0; axis < shape.size(); ++axis) flat = flat * shape[axis] + index[axis];
    sorted[flat] = value;
    for (std::size_t axis = 0; axis < shape.size() && ++index[axis] == shape[axis]; ++axis) index[axis] = 0;
  }
  values = std::move(sorted);
}

Result<NpyArray> read_stream(std::ifstream& in) {
  unsigned char start[12] = {};
  if (!in.read(reinterpret_cast<char*>(start), 8) || std::memcmp(start, "\x93NUMPY", 6) != 0)
    return Error{Code::corrupt_data, "expected a .npy file (it does not begin with \\x93NUMPY)"};
  const int n_size_bytes = start[6] == 1 ? 2 : 4;
  if (!in.read(reinterpret_cast<char*>(start) + 8, n_size_bytes)) return Error{Code::corrupt_data, "header is cut off"};
  std::uint32_t n_header = 0;
  for (int i = n_size_bytes; i-- > 0;) n_header = n_header << 8 | start[8 + i];
  if (n_header > 65536) return Error{Code::corrupt_data, fmt::format("header of {} bytes", n_header)};
  std::string text(n_header, ' ');
  if (!in.read(text.data(), n_header)) return Error{Code::corrupt_data, "header is cut off"};
  QUANTEM_TRY_ASSIGN(header, parse_header(text));
  const Kind* kind = nullptr;
  for (const Kind& k : kKinds)
    if (header.descr.size() == 3 && header.descr.substr(1) == k.code) kind = &k;
  if (!kind) return Error{Code::unsupported, fmt::format("dtype '{}' is not read; convert to float64", header.descr)};
  std::uint64_t n = 1;
  for (const std::uint64_t extent : header.shape) {
    const auto product = checked_multiply(n, extent);
    if (!product || *product > kMaxElements)
      return Error{Code::out_of_memory, fmt::format("over {} elements, too many for this use", kMaxElements)};
    n = *product;
  }
  std::string bytes(n * kind->bytes, '\0');
  if (!in.read(bytes.data(), static_cast<std::streamsize>(bytes.size())))
    return Error{Code::corrupt_data, fmt::format("expected {} bytes of values, found {}", bytes.size(), in.gcount())};
  NpyArray array{header.shape, std::vector<double>(n), header.descr};
  kind->convert(bytes, header.descr[0] == '>', array.values);
  if (header.fortran) to_c_order(array.values, array.shape);
  return array;
}

}  // namespace

std::string npy_shape_text(const std::vector<std::uint64_t>& shape) {
  std::string text;
  for (const std::uint64_t n : shape) text += (text.empty() ? "" : ", ") + std::to_string(n);
  return "(" + text + (shape.size() == 1 ? ",)" : ")");
}

std::string npy_bytes(Dtype dtype, std::span<const std::uint64_t> shape, std::span<const std::byte> values) {
  static_assert(std::endian::native == std::endian::little);
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", npy_descr(dtype),
                                   npy_shape_text({shape.begin(), shape.end()}));
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(header.size() & 255);
  bytes += static_cast<char>(header.size() >> 8);
  bytes += header;
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size());
  return bytes;
}

Result<NpyArray> read_npy(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return Error{Code::io, path.string() + ": " + std::strerror(errno)};
  auto array = read_stream(in);
  if (!array) return with_context(path.string(), array.error());
  return array;
}

}  // namespace quantem::cli
