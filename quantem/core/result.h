#pragma once
// Result<T>: a value, or an Error that says what was expected, what was found, where, and what to do.
// Library code neither throws nor prints nor aborts; every fallible function returns one of these.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace quantem {

// The kinds of failure. One table (code_info) maps each to its name, its exit status and its HTTP status.
enum class Code : std::uint8_t {
  invalid_argument,
  wrong_dtype,
  undetermined,
  unsupported,
  out_of_memory,
  missing_data,
  corrupt_data,
  unknown_schema,
  stale_source,
  io,
  device,
  closed,
  cancelled,
  internal
};

struct CodeInfo {
  std::string_view name;  // as printed and as written to JSON: "corrupt_data"
  int exit_status;        // of the command line program
  int http_status;        // of the server
};
const CodeInfo& code_info(Code code);

struct Error {
  Code code;
  std::string message;
  const char* file;
  int line;

  Error(Code code_, std::string message_, const char* file_ = __builtin_FILE(), int line_ = __builtin_LINE())
      : code(code_), message(std::move(message_)), file(file_), line(line_) {}
};

// The value of an operation that only succeeds or fails.
struct Done {};

// Test it, then use *r or r->, or r.error(). Using the value of a failed result is a programming error.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  [[nodiscard]] bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& operator*() & { return *std::get_if<0>(&state_); }
  const T& operator*() const& { return *std::get_if<0>(&state_); }
  T&& operator*() && { return std::move(*std::get_if<0>(&state_)); }
  T* operator->() { return std::get_if<0>(&state_); }
  const T* operator->() const { return std::get_if<0>(&state_); }
  [[nodiscard]] const Error& error() const { return *std::get_if<1>(&state_); }
  [[nodiscard]] Error take_error() { return std::move(*std::get_if<1>(&state_)); }

 private:
  std::variant<T, Error> state_;
};

// An error with more said in front of it: `prefix: message`, code and place kept.
Error with_context(std::string_view prefix, const Error& error);

}  // namespace quantem

// Leaves the function with the error of `expression`, or goes on.
#define QUANTEM_TRY(expression)                                                                              \
  do {                                                                                                       \
    if (auto quantem_try_result = (expression); !quantem_try_result) return quantem_try_result.take_error(); \
  } while (false)

// Declares `name` as the value of `expression`, or leaves the function with its error.
#define QUANTEM_TRY_ASSIGN(name, expression)             \
  auto name##_result = (expression);                     \
  if (!name##_result) return name##_result.take_error(); \
  auto name = *std::move(name##_result)
