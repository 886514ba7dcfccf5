#include "quantem/io/npy.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <fstream>
#include <optional>

#include "quantem/io/flat_file.h"

namespace quantem {
namespace {

constexpr std::uint64_t kMaxHeaderBytes = 1 << 20;  // NumPy itself refuses dict literals above 10,000 characters

// The dict literal of a header: {'descr': '<u2', 'fortran_order': False, 'shape': (3, 4), }. Keys in any order.
class HeaderText {
 public:
  explicit HeaderText(std::string_view text) : text_(text) {}

  // Nothing when it parsed; otherwise what was expected.
  std::optional<std::string> parse(NpyHeader& h) {
    bool has_descr = false, has_order = false, has_shape = false;
    if (!take('{')) return "'{'";
    while (!take('}')) {
      const auto key = text_literal();
      if (!key || !take(':')) return "a quoted key and ':'";
      if (*key == "descr") {
        if (peek() == '[') {
          h.descr = "[";  // a structure: its fields do not matter
          skip_list();
        } else {
          const auto value = text_literal();
          if (!value) return "a quoted descr";
          h.descr = *value;
        }
        has_descr = true;
      } else if (*key == "fortran_order") {
        if (word("True"))
          h.fortran_order = true;
        else if (!word("False"))
          return "True or False";
        has_order = true;
      } else if (*key == "shape") {
        if (!shape(h.shape)) return "a tuple of integers below 2^64";
        has_shape = true;
      } else {
        return "the keys descr, fortran_order and shape only";
      }
      if (!take(',') && peek() != '}') return "',' or '}'";
    }
    if (!has_descr || !has_order || !has_shape) return "descr, fortran_order and shape";
    return std::nullopt;
  }

 private:
  void skip_space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  char peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    if (peek() != c || at_ >= text_.size()) return false;
    ++at_;
    return true;
  }
  bool word(std::string_view w) {
    skip_space();
    if (text_.substr(at_, w.size()) != w) return false;
    at_ += w.size();
    return true;
  }
  std::optional<std::string> text_literal() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') return std::nullopt;
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) return std::nullopt;
    std::string value(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return value;
  }
  void skip_list() {
    int depth = 0;
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '[' || c == '(') ++depth;
      if ((c == ']' || c == ')') && --depth == 0) return;
    }
  }
  bool shape(std::vector<std::uint64_t>& shape) {
    shape.clear();
    if (!take('(')) return false;
    while (!take(')')) {
      std::uint64_t n = 0;
      if (!std::isdigit(static_cast<unsigned char>(peek()))) return false;
      for (; at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])); ++at_) {
        const auto ten = checked_multiply(n, 10);
        const auto more = ten ? checked_add(*ten, static_cast<std::uint64_t>(text_[at_] - '0')) : std::nullopt;
        if (!more) return false;
        n = *more;
      }
      word("L");  // Python 2 wrote long integers so
      shape.push_back(n);
      if (shape.size() > 32 || (!take(',') && peek() != ')')) return false;
    }
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

std::string shape_text(const std::vector<std::uint64_t>& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + (shape.size() == 1 ? ",)" : ")");
}

struct ElementType {
  Dtype dtype = Dtype::u16;
  bool big_endian = false;
};
Result<ElementType> element_type(const std::string& descr, const std::string& name) {
  const auto refuse = [&](const std::string& what, const std::string& conversion) {
    return Error{Code::unsupported, name + ": " + what + " is not read; convert with numpy: " + conversion};
  };
  if (descr.starts_with('[')) return refuse("a structured dtype", "a['field']");
  const char order = descr.empty() ? ' ' : descr[0];
  const std::string kind = descr.empty() ? "" : descr.substr(1);
  if (order == '<' || order == '>' || order == '|') {
    const bool big = order == '>';
    if (kind == "u1") return ElementType{Dtype::u8, false};
    if (order != '|') {
      if (kind == "u2") return ElementType{Dtype::u16, big};
      if (kind == "u4") return ElementType{Dtype::u32, big};
      if (kind == "i2") return ElementType{Dtype::i16, big};
      if (kind == "i4") return ElementType{Dtype::i32, big};
      if (kind == "f4") return ElementType{Dtype::f32, big};
    }
    const std::string quoted = "dtype '" + descr + "'";
    if (kind == "b1") return refuse(quoted, "a.view('uint8')");
    if (kind == "i1") return refuse(quoted, "a.astype('int16')");
    if (kind == "u8" || kind == "i8") return refuse(quoted, "a.astype('uint32') after looking at a.min() and a.max()");
    if (kind == "f2" || kind == "f8" || kind == "f16") return refuse(quoted, "a.astype('float32')");
    if (kind == "c8" || kind == "c16") return refuse(quoted, "abs(a).astype('float32')");
    if (kind.starts_with('O')) return refuse("dtype object", "numpy.stack(list(a)).astype('uint16')");
  }
  return refuse("dtype '" + descr + "'", "a.astype('uint16')");
}

// Frames and detector of an array's shape (C8).
std::optional<Error> layout_of(const NpyHeader& h, const std::string& name, FlatLayout& layout) {
  const std::size_t rank = h.shape.size();
  const std::string found = name + ": shape " + shape_text(h.shape);
  if (rank < 2 || rank > 4)
    return Error{Code::unsupported,
                 found + " has " + std::to_string(rank) +
                     " dimensions; 2 (one frame), 3 (frames) or 4 (scan rows, scan columns, rows, columns) are read"};
  for (const std::uint64_t n : h.shape)
    if (n == 0) return Error{Code::invalid_argument, found + " has no elements"};
  if (h.fortran_order)
    return Error{Code::unsupported,
                 name + ": fortran_order is True; C order is read: numpy.save(path, numpy.ascontiguousarray(a))"};
  if (h.shape[rank - 1] > kMaxFramePixels || h.shape[rank - 2] > kMaxFramePixels ||
      h.shape[rank - 1] * h.shape[rank - 2] > kMaxFramePixels)
    return Error{Code::unsupported, found + ": a frame has more than " + std::to_string(kMaxFramePixels) + " pixels"};
  layout.det = {static_cast<std::uint32_t>(h.shape[rank - 2]), static_cast<std::uint32_t>(h.shape[rank - 1])};
  layout.n_frames = 1;
  for (std::size_t d = 0; d + 2 < rank; ++d) {
    const auto n = checked_multiply(layout.n_frames, h.shape[d]);
    if (!n) return Error{Code::corrupt_data, found + " has more than 2^64 frames"};
    layout.n_frames = *n;
  }
  if (rank == 4 && (h.shape[0] > 0xffffffffu || h.shape[1] > 0xffffffffu))
    return Error{Code::unsupported, found + ": a scan side above 2^32 - 1"};
  if (!checked_multiply(layout.n_frames, layout.det.count() * 8))
    return Error{Code::corrupt_data, found + " passes 2^64 bytes"};
  return std::nullopt;
}

}  // namespace

Result<NpyHeader> parse_npy_header(std::span<const std::byte> start) {
  const auto byte = [&](std::size_t i) { return std::to_integer<std::uint64_t>(start[i]); };
  if (start.size() < 10 || std::memcmp(start.data(), "\x93NUMPY", 6) != 0)
    return Error{Code::corrupt_data, "no .npy header: a .npy file starts with \\x93NUMPY, a version and a length"};
  if (byte(6) < 1 || byte(6) > 3)
    return Error{Code::unsupported,
                 ".npy version " + std::to_string(byte(6)) + "." + std::to_string(byte(7)) + ", 1 to 3 are read"};
  const std::size_t text_at = byte(6) == 1 ? 10 : 12;
  if (start.size() < text_at) return Error{Code::corrupt_data, ".npy header is cut off"};
  const std::uint64_t n =
      byte(6) == 1 ? byte(8) | byte(9) << 8 : byte(8) | byte(9) << 8 | byte(10) << 16 | byte(11) << 24;
  if (n > kMaxHeaderBytes || n > start.size() - text_at)
    return Error{Code::corrupt_data, ".npy header of " + std::to_string(n) + " bytes, " +
                                         std::to_string(start.size() - text_at) + " are there"};
  NpyHeader h;
  h.data_offset = text_at + n;
  HeaderText text({reinterpret_cast<const char*>(start.data()) + text_at, static_cast<std::size_t>(n)});
  if (const auto expected = text.parse(h)) return Error{Code::corrupt_data, ".npy header: expected " + *expected};
  return h;
}

Result<Container> inspect_npy(const std::filesystem::path& path, const OpenOptions& options) {
  QUANTEM_TRY_ASSIGN(container, flat_container(path, options, "npy"));
  const std::string name = path.filename().string();
  const std::uint64_t file_bytes = container.identity[0].bytes;
  std::vector<std::byte> start(static_cast<std::size_t>(std::min(file_bytes, kMaxHeaderBytes + 12)));
  std::ifstream in(path, std::ios::binary);
  if (!in.read(reinterpret_cast<char*>(start.data()), static_cast<std::streamsize>(start.size())))
    return Error{Code::io, path.string() + ": cannot be read"};
  auto header = parse_npy_header(start);
  if (!header) return with_context(name, header.error());
  QUANTEM_TRY_ASSIGN(type, element_type(header->descr, name));

  container.dtype = type.dtype;
  FlatLayout layout;
  layout.dtype = type.dtype;
  layout.big_endian = type.big_endian;
  layout.offset_bytes = header->data_offset;
  if (auto refusal = layout_of(*header, name, layout)) {
    container.not_ready = std::move(refusal);
    return container;
  }
  const std::uint64_t frame_bytes = layout.det.count() * item_bytes(layout.dtype);
  const std::uint64_t expected = header->data_offset + layout.n_frames * frame_bytes;  // checked in layout_of
  container.n_expected = layout.n_frames;
  if (file_bytes != expected) {
    const std::string sizes = name + ": " + std::to_string(file_bytes) + " bytes, header and " +
                              shape_text(header->shape) + " " + std::string(dtype_name(layout.dtype)) + " take " +
                              std::to_string(expected);
    if (file_bytes > expected) {
      container.not_ready = Error{Code::corrupt_data, sizes + ": something else follows the array"};
    } else {
      layout.n_frames = (file_bytes - header->data_offset) / frame_bytes;
      const std::string text = sizes + ": " + std::to_string(layout.n_frames) + " of " +
                               std::to_string(container.n_expected) + " frames are whole; copy the file again";
      if (options.missing == Missing::mark)
        container.warnings.push_back(text);
      else
        container.not_ready = Error{Code::missing_data, text + ", or missing=\"mark\" loads them"};
    }
  }
  std::optional<Extent> scan;
  if (header->shape.size() == 4)
    scan = {static_cast<std::uint32_t>(header->shape[0]), static_cast<std::uint32_t>(header->shape[1])};
  finish_flat_container(container, layout, scan);
  return container;
}

std::string npy_header(Dtype dtype, std::span<const std::uint64_t> shape) {
  std::string dict = "{'descr': '" + std::string(npy_descr(dtype)) +
                     "', 'fortran_order': False, 'shape': " + shape_text({shape.begin(), shape.end()}) + ", }";
  const std::size_t prefix = 10 + dict.size() + 1 > 65000 ? 12 : 10;
  dict.append((64 - (prefix + dict.size() + 1) % 64) % 64, ' ');
  dict += '\n';
  std::string header = "\x93NUMPY";
  header += prefix == 10 ? '\1' : '\2';
  header += '\0';
  for (std::size_t i = 0; i < prefix - 8; ++i) header += static_cast<char>(dict.size() >> (8 * i));
  return header + dict;
}

}  // namespace quantem
