#pragma once
// Element types of counts and products. Names are NumPy's; the short forms count bits (u16 is 16 bits).

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "quantem/core/result.h"

namespace quantem {

enum class Dtype : std::uint8_t { u8, u16, u32, i16, i32, f32, scaled_u16, u64, i64, f64 };
// u64, i64 and f64 are types of results, never of counts (is_count_dtype).

constexpr std::size_t item_bytes(Dtype d) {
  switch (d) {
    case Dtype::u8:
      return 1;
    case Dtype::u16:
    case Dtype::i16:
    case Dtype::scaled_u16:
      return 2;
    case Dtype::u32:
    case Dtype::i32:
    case Dtype::f32:
      return 4;
    case Dtype::u64:
    case Dtype::i64:
    case Dtype::f64:
      return 8;
  }
  return 0;
}
constexpr bool is_unsigned_count(Dtype d) {
  return d == Dtype::u8 || d == Dtype::u16 || d == Dtype::u32;
}
constexpr bool is_signed_count(Dtype d) {
  return d == Dtype::i16 || d == Dtype::i32;
}
constexpr bool is_integer_count(Dtype d) {
  return is_unsigned_count(d) || is_signed_count(d);
}
constexpr bool is_count_dtype(Dtype d) {
  return is_integer_count(d) || d == Dtype::f32;
}

std::string_view dtype_name(Dtype d);  // "uint16"
std::string_view npy_descr(Dtype d);   // "<u2", "|u1"
// uint8 uint16 uint32 int16 int32 float32 scaled_uint16 and u8 u16 u32 f32. 'u4' is refused: four bytes to NumPy, four bits elsewhere.
Result<Dtype> parse_dtype(std::string_view name);

template <class T>
constexpr Dtype dtype_of() {
  if constexpr (std::is_same_v<T, std::uint8_t>)
    return Dtype::u8;
  else if constexpr (std::is_same_v<T, std::uint16_t>)
    return Dtype::u16;
  else if constexpr (std::is_same_v<T, std::uint32_t>)
    return Dtype::u32;
  else if constexpr (std::is_same_v<T, std::int16_t>)
    return Dtype::i16;
  else if constexpr (std::is_same_v<T, std::int32_t>)
    return Dtype::i32;
  else if constexpr (std::is_same_v<T, float>)
    return Dtype::f32;
  else if constexpr (std::is_same_v<T, std::uint64_t>)
    return Dtype::u64;
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return Dtype::i64;
  else if constexpr (std::is_same_v<T, double>)
    return Dtype::f64;
  else
    static_assert(!sizeof(T), "no Dtype for this type");
}

// Calls f.template operator()<T>() with the C++ type of a count dtype (u8 u16 u32 i16 i32 f32; scaled_u16 as u16).
template <class F>
auto visit_count_dtype(Dtype d, F&& f) {
  switch (d) {
    case Dtype::u8:
      return f.template operator()<std::uint8_t>();
    case Dtype::u32:
      return f.template operator()<std::uint32_t>();
    case Dtype::i16:
      return f.template operator()<std::int16_t>();
    case Dtype::i32:
      return f.template operator()<std::int32_t>();
    case Dtype::f32:
      return f.template operator()<float>();
    default:
      return f.template operator()<std::uint16_t>();
  }
}

}  // namespace quantem
