// Dataspaces, datatypes and attributes as messages describe them.

#include <algorithm>

#include "quantem/core/shape.h"
#include "quantem/io/hdf5_safety.h"

namespace quantem::hdf5 {
namespace {

constexpr std::uint64_t kMaxRank = 32;
constexpr int kMaxNesting = 32;

struct Head {
  std::uint64_t version = 0, bits = 0;
};

std::uint64_t up_to_8(std::uint64_t n) {
  return (n + 7) / 8 * 8;
}

// A name with its NUL, filled up to a multiple of 8 bytes before version 3.
bool take_member_name(Cursor& c, std::uint64_t version) {
  std::uint64_t n = 0;
  do {
    if (c.left() == 0) return false;
    ++n;
  } while (c.take(1) != 0);
  if (version < 3) c.skip(up_to_8(n) - n);
  return c.ok();
}

bool take_bits(Cursor& c, std::uint64_t bits) {  // offset and precision
  const std::uint64_t offset = c.take(2), precision = c.take(2);
  return c.ok() && precision > 0 && offset + precision <= bits;
}

bool take_float(Cursor& c, const Head& head, std::uint64_t bits) {
  if (!take_bits(c, bits)) return false;
  const std::uint64_t exponent_at = c.take(1), exponent = c.take(1), mantissa_at = c.take(1), mantissa = c.take(1);
  c.skip(4);
  return c.ok() && (head.bits >> 8 & 0xff) < bits && exponent_at + exponent <= bits && mantissa_at + mantissa <= bits;
}

bool take_compound(Cursor& c, const Head& head, std::uint64_t bytes, int depth) {
  const std::uint64_t members = head.bits & 0xffff;
  std::uint64_t width = 1;
  while (width < 4 && bytes >> (8 * width)) ++width;
  for (std::uint64_t i = 0; i < members; ++i) {
    if (!take_member_name(c, head.version)) return false;
    const std::uint64_t at = c.take(head.version >= 3 ? width : 4);
    std::uint64_t elements = 1;
    if (head.version == 1) {  // an array written into the member
      const std::uint64_t rank = c.take(1);
      c.skip(3 + 4 + 4);
      if (rank > 4) return false;
      for (std::uint64_t d = 0; d < 4; ++d) {
        const std::uint64_t n = c.take(4);
        if (d < rank) elements = checked_multiply(elements, n).value_or(0);
      }
    }
    TypeFacts member;
    if (!take_type(c, member, depth + 1)) return false;
    if (!member.known) return true;
    const auto total = checked_multiply(elements, member.bytes);
    if (!total || *total == 0 || *total > bytes || at > bytes - *total) return false;
  }
  return members > 0;
}

bool take_enumeration(Cursor& c, const Head& head, std::uint64_t bytes, int depth) {
  TypeFacts base;
  if (!take_type(c, base, depth + 1)) return false;
  if (!base.known) return true;
  if (base.kind != 0 || base.bytes != bytes) return false;
  const std::uint64_t members = head.bits & 0xffff;
  for (std::uint64_t i = 0; i < members; ++i)
    if (!take_member_name(c, head.version)) return false;
  if (c.left() / bytes < members) return false;
  c.skip(members * bytes);
  return c.ok();
}

bool take_array(Cursor& c, const Head& head, std::uint64_t bytes, int depth) {
  const std::uint64_t rank = c.take(1);
  if (head.version < 3) c.skip(3);
  if (!c.ok() || rank < 1 || rank > kMaxRank || head.version < 2) return false;
  std::uint64_t elements = 1;
  for (std::uint64_t d = 0; d < rank; ++d) elements = checked_multiply(elements, c.take(4)).value_or(0);
  if (head.version < 3) c.skip(4 * rank);
  TypeFacts base;
  if (!take_type(c, base, depth + 1)) return false;
  const auto total = checked_multiply(elements, base.known ? base.bytes : 1);
  return elements > 0 && total && *total <= bytes;
}

}  // namespace

bool take_space(Cursor& c, SpaceFacts& space) {
  const std::uint64_t version = c.take(1), rank = c.take(1), flags = c.take(1);
  if (version > 2) return true;  // not known here
  const std::uint64_t kind = version == 2 ? c.take(1) : 1;
  if (version == 1) c.skip(5);
  if (!c.ok() || version < 1 || rank > kMaxRank || kind > 2 || c.left() / 8 < rank * (flags & 1 ? 2 : 1)) return false;
  space.n_elements = kind == 2 ? 0 : 1;
  for (std::uint64_t d = 0; d < rank; ++d) {
    const auto product = checked_multiply(space.n_elements, c.take(8));
    if (!product) return false;
    space.n_elements = *product;
  }
  if (flags & 1) c.skip(8 * rank);
  return c.ok();
}

bool take_type(Cursor& c, TypeFacts& type, int depth) {
  if (depth > kMaxNesting) return false;
  const std::uint64_t first = c.take(1);
  const Head head{first >> 4, c.take(3)};
  type.kind = first & 15;
  type.bytes = c.take(4);
  if (!c.ok() || head.version < 1 || type.bytes == 0 || type.bytes > 0x7fffffff) return false;
  type.known = head.version <= 3 && type.kind <= 10;
  if (!type.known) return true;
  const std::uint64_t bits = 8 * type.bytes;
  switch (type.kind) {
    case 0:
    case 4:
      return take_bits(c, bits);
    case 1:
      return take_float(c, head, bits);
    case 2:
      c.skip(2);
      return c.ok();
    case 5:
      c.skip(up_to_8(head.bits & 0xff));
      return c.ok();
    case 6:
      return take_compound(c, head, type.bytes, depth);
    case 8:
      return take_enumeration(c, head, type.bytes, depth);
    case 9: {
      TypeFacts base;
      return take_type(c, base, depth + 1);
    }
    case 10:
      return take_array(c, head, type.bytes, depth);
    default:
      return true;  // strings and references: nothing more
  }
}

const char* fault_of_attribute(const RawFile& file, std::span<const unsigned char> body) {
  constexpr const char* kDamaged = "an attribute of it is damaged";
  Cursor c(body);
  const std::uint64_t version = c.take(1), flags = c.take(1);
  if (version > 3) return nullptr;  // not known here
  const std::uint64_t name_bytes = c.take(2), type_bytes = c.take(2), space_bytes = c.take(2);
  if (version == 3) c.skip(1);
  const auto section = [&](std::uint64_t n) -> std::span<const unsigned char> {
    const std::size_t at = c.at();
    c.skip(version == 1 ? up_to_8(n) : n);
    return c.ok() ? body.subspan(at, n) : std::span<const unsigned char>{};
  };
  const auto name = section(name_bytes), type_part = section(type_bytes), space_part = section(space_bytes);
  if (!c.ok() || version < 1 || std::find(name.begin(), name.end(), 0) == name.end()) return kDamaged;
  if (version > 1 && (flags & 3)) return nullptr;  // type or space shared: libhdf5 knows its size
  TypeFacts type;
  SpaceFacts space;
  Cursor type_at(type_part), space_at(space_part);
  if (!take_type(type_at, type) || !take_space(space_at, space)) return kDamaged;
  if (!type.known) return nullptr;
  const auto bytes = checked_multiply(space.n_elements, type.bytes);
  if (!bytes || *bytes > c.left()) return kDamaged;
  if (type.kind != 9 || type.bytes != 16) return nullptr;
  return referred_texts(file, body.subspan(c.at(), *bytes)) ? nullptr : "the text of an attribute of it is damaged";
}

}  // namespace quantem::hdf5
