#include "quantem/core/result.h"

namespace quantem {
namespace {

// Indexed by Code, in its order.
constexpr CodeInfo kCodes[] = {
    {"invalid_argument", 2, 400}, {"wrong_dtype", 2, 400},  {"undetermined", 2, 422}, {"unsupported", 4, 501},
    {"out_of_memory", 5, 507},    {"missing_data", 3, 422}, {"corrupt_data", 3, 422}, {"unknown_schema", 3, 422},
    {"stale_source", 3, 409},     {"io", 3, 404},           {"device", 6, 503},       {"closed", 1, 410},
    {"cancelled", 130, 499},      {"internal", 1, 500},
};
static_assert(std::size(kCodes) == static_cast<std::size_t>(Code::internal) + 1);

}  // namespace

const CodeInfo& code_info(Code code) {
  return kCodes[static_cast<std::size_t>(code)];
}

Error with_context(std::string_view prefix, const Error& error) {
  return Error(error.code, std::string(prefix) + ": " + error.message, error.file, error.line);
}

}  // namespace quantem
