#include "quantem/core/dtype.h"

#include <string>

namespace quantem {
namespace {

struct Names {
  std::string_view name, short_name, descr;
};
// Indexed by Dtype, in its order.
constexpr Names kNames[] = {
    {"uint8", "u8", "|u1"}, {"uint16", "u16", "<u2"},  {"uint32", "u32", "<u4"},     {"int16", "", "<i2"},
    {"int32", "", "<i4"},   {"float32", "f32", "<f4"}, {"scaled_uint16", "", "<u2"}, {"uint64", "", "<u8"},
    {"int64", "", "<i8"},   {"float64", "", "<f8"},
};
static_assert(std::size(kNames) == static_cast<std::size_t>(Dtype::f64) + 1);

}  // namespace

std::string_view dtype_name(Dtype d) {
  return kNames[static_cast<std::size_t>(d)].name;
}
std::string_view npy_descr(Dtype d) {
  return kNames[static_cast<std::size_t>(d)].descr;
}

Result<Dtype> parse_dtype(std::string_view name) {
  for (std::size_t i = 0; i <= static_cast<std::size_t>(Dtype::scaled_u16); ++i)
    if (name == kNames[i].name || (!kNames[i].short_name.empty() && name == kNames[i].short_name))
      return static_cast<Dtype>(i);
  if (name == "u4")
    return Error{Code::invalid_argument,
                 "dtype 'u4' is ambiguous and not supported; omit dtype to keep native counts losslessly"};
  return Error{Code::invalid_argument,
               "dtype '" + std::string(name) + "' is not one of uint8 uint16 uint32 int16 int32 float32 scaled_uint16"};
}

}  // namespace quantem
