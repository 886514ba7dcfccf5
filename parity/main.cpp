// quantem-parity: every operation on every backend and storage against plain loops.
//   run [WORD]   runs the rows whose name contains WORD; a line for each failure, then the totals
//   list         one line a row
//   support      docs/support.md on standard output

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <future>
#include <string>

#include "parity/table.h"

namespace quantem::parity {
namespace {

struct Tally {
  int passed = 0, failed = 0, skipped = 0;
  void add(const Tally& other) { passed += other.passed, failed += other.failed, skipped += other.skipped; }
};

template <class T>
std::string difference(const std::vector<T>& want, const std::vector<T>& got, double bound) {
  if (want.size() != got.size()) return fmt::format("{} elements, expected {}", got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    bool equal = std::memcmp(&want[i], &got[i], sizeof(T)) == 0 || want[i] == got[i];
    if constexpr (std::is_floating_point_v<T>) {
      const bool nan_want = std::isnan(want[i]), nan_got = std::isnan(got[i]);
      equal = nan_want == nan_got && (nan_want || want[i] == got[i] ||
                                      std::abs(static_cast<double>(want[i]) - static_cast<double>(got[i])) <= bound);
    }
    if (!equal) return fmt::format("element {}: expected {}, got {}", i, want[i], got[i]);
  }
  return "";
}

std::string compare(const std::vector<Output>& want, const Outcome& got, double bound, Column column) {
  if (want.size() != got.outputs.size()) return fmt::format("{} outputs, expected {}", got.outputs.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (want[i].index() != got.outputs[i].index()) return fmt::format("output {} has another type", i);
    const std::string text = std::visit(
        [&](const auto& w) { return difference(w, std::get<std::decay_t<decltype(w)>>(got.outputs[i]), bound); },
        want[i]);
    if (!text.empty()) return fmt::format("output {}: {}", i, text);
  }
  const std::string_view backend = column == Column::cpu_dense || column == Column::cpu_encoded ? "cpu" : "cuda";
  if (!got.path.empty() && !got.path.starts_with(backend))
    return fmt::format("path {} ran, {} was asked for", got.path, backend);
  return "";
}

Expect expect_of(Code code) {
  switch (code) {
    case Code::wrong_dtype:
      return Expect::wrong_dtype;
    case Code::unsupported:
      return Expect::unsupported;
    default:
      return Expect::invalid;
  }
}

// "" when the cell does what the table says, else what it did.
std::string check_cell(const Operation& op, const Truth& truth, const std::vector<Output>& want, Column column,
                       const Device& device, bool tiles_4) {
  const Expect expected = op.expect(column, truth.dtype, truth.shape);
  FromArrayOptions options;
  options.representation =
      column == Column::cpu_dense || column == Column::cuda_dense ? Representation::dense : Representation::encoded;
  options.tiles_4 = tiles_4;
  options.valid_pixels = truth.valid_pixels;
  options.valid_positions = truth.valid_positions;
  const Shape4& s = truth.shape;
  const ArrayView view{truth.dtype, {s.scan.rows, s.scan.cols, s.det.rows, s.det.cols}, truth.counts.data()};
  const auto volume = from_array(device, view, options);
  Result<Outcome> outcome = volume ? op.run(*volume, truth) : Result<Outcome>(volume.error());
  if (!outcome) {
    const Expect got = expect_of(outcome.error().code);
    if (got == expected) return "";
    return fmt::format("the table says {}, it was refused: {}", expect_name(expected), outcome.error().message);
  }
  if (expected != Expect::runs) return fmt::format("the table says {}, it ran", expect_name(expected));
  return compare(want, *outcome, op.bound, column);
}

// The checks of the acquisition that passes 2^32 counts whose names contain `word`, on one column.
Tally run_large(const std::string& word, Column column, const Device& device) {
  Tally tally;
  const auto name_of = [](const LargeCheck& check) {
    return fmt::format("{} {} {}", check.name, to_string(large_shape()), dtype_name(kLargeDtype));
  };
  std::vector<LargeCheck> checks = large_checks();
  std::erase_if(checks, [&](const LargeCheck& check) { return name_of(check).find(word) == std::string::npos; });
  if (checks.empty()) return tally;
  const auto volume =
      make_large(device, column == Column::cuda_dense ? Representation::dense : Representation::encoded);
  for (const LargeCheck& check : checks) {
    const Result<Outcome> outcome = volume ? check.run(*volume) : Result<Outcome>(volume.error());
    const std::string text = outcome ? compare(check.want, *outcome, 0, column) : outcome.error().message;
    ++(text.empty() ? tally.passed : tally.failed);
    if (!text.empty()) fmt::print("FAILED {} [{}]: {}\n", name_of(check), column_name(column), text);
  }
  return tally;
}

int run(const std::string& word) {
  Tally tally;
  const auto cpu = open_device(Backend::cpu);
  const auto cuda = open_device(Backend::cuda);
  if (!cpu) return 1;
  // Encoding 4.3 GB takes as long as most of the table: beside it.
  auto large = std::async(std::launch::async, [&] { return run_large(word, Column::cpu_encoded, *cpu); });
  std::uint64_t seed = 0;  // by place in the table: a row has the same counts whatever else runs, and whatever fails
  for (const Shape& shape : shapes())
    for (const Dtype dtype : dtypes()) {
      if (!shape.has(Column::cpu_encoded, dtype)) continue;
      const Truth truth = make_truth(shape.shape, dtype, ++seed, shape.at_the_top);
      for (const Operation& op : operations()) {
        const std::string name = fmt::format("{} {} {}", op.name, shape.name(), dtype_name(dtype));
        if (name.find(word) == std::string::npos) continue;
        const bool has_oracle = op.expect(Column::cpu_dense, dtype, shape.shape) == Expect::runs;
        const std::vector<Output> want = has_oracle ? op.oracle(truth) : std::vector<Output>{};
        for (const Column column : kColumns) {
          if (!shape.has(column, dtype)) continue;
          const bool on_cpu = column == Column::cpu_dense || column == Column::cpu_encoded;
          if (!on_cpu && !cuda) {
            ++tally.skipped;
            continue;
          }
          const std::string text = check_cell(op, truth, want, column, on_cpu ? *cpu : *cuda, shape.tiles_4);
          ++(text.empty() ? tally.passed : tally.failed);
          if (!text.empty()) fmt::print("FAILED {} [{}]: {}\n", name, column_name(column), text);
        }
      }
    }
  tally.add(large.get());
  for (const Column column : {Column::cuda_dense, Column::cuda_encoded})
    if (cuda) tally.add(run_large(word, column, *cuda));
  if (tally.skipped) fmt::print("skipped {}: {}\n", tally.skipped, cuda.error().message);
  fmt::print("{} passed, {} failed, {} skipped\n", tally.passed, tally.failed, tally.skipped);
  return tally.failed ? 1 : 0;
}

int list() {
  for (const Shape& shape : shapes())
    for (const Dtype dtype : dtypes())
      for (const Operation& op : operations()) {
        if (!shape.has(Column::cpu_encoded, dtype)) continue;
        fmt::print("{:26s} {:22s} {:8s}", op.name, shape.name(), dtype_name(dtype));
        for (const Column column : kColumns)
          if (shape.has(column, dtype))
            fmt::print("  {}: {}", column_name(column), expect_name(op.expect(column, dtype, shape.shape)));
        fmt::print("  equal: {}\n", op.bound > 0 ? fmt::format("within {}", op.bound) : "bitwise");
      }
  return 0;
}

// The dtypes with which a column runs, for one operation.
std::string dtypes_that_run(const Operation& op, Column column) {
  std::string text;
  for (const Dtype dtype : dtypes())
    if (op.expect(column, dtype, {{2, 2}, {2, 2}}) == Expect::runs)
      text += fmt::format("{}{}", text.empty() ? "" : " ", dtype_name(dtype));
  return text.empty() ? "-" : text;
}

int support() {
  fmt::print(
      "# What runs where\n\nWritten by `./run parity support` from the parity table; `./run test` runs every cell of "
      "the backends that the machine has (and counts the others as skipped) and compares this page.\n"
      "A cell names the dtypes with which an operation runs; everything else is refused with the reason. Equal means "
      "equal to plain\nloops over the counts.\n\n"
      "| operation | equal |");
  for (const Column column : kColumns) fmt::print(" {} |", column_name(column));
  fmt::print("\n|---|---|---|---|---|---|\n");
  for (const Operation& op : operations()) {
    fmt::print("| `{}` | {} |", op.name, op.bound > 0 ? fmt::format("within {}", op.bound) : "bitwise");
    for (const Column column : kColumns) fmt::print(" {} |", dtypes_that_run(op, column));
    fmt::print("\n");
  }
  fmt::print("\nShapes (scan rows, scan columns, detector rows, detector columns), each with every dtype:\n\n");
  for (const Shape& shape : shapes())
    fmt::print("- {}: {}{}\n", to_string(shape.shape), shape.why,
               shape.tiles_4 ? " (`tiles_4`; encoded, u8 u16 u32)" : "");
  fmt::print("\nOne acquisition of more than 2^32 counts, {} {}, everywhere but on `cpu dense`:\n\n",
             to_string(large_shape()), dtype_name(kLargeDtype));
  for (const LargeCheck& check : large_checks()) fmt::print("- `{}`\n", check.name);
  return 0;
}

}  // namespace
}  // namespace quantem::parity

int main(int argc, char** argv) {
  const std::string verb = argc > 1 ? argv[1] : "";
  if (verb == "run") return quantem::parity::run(argc > 2 ? argv[2] : "");
  if (verb == "list") return quantem::parity::list();
  if (verb == "support") return quantem::parity::support();
  fmt::print(stderr, "usage: quantem-parity run [WORD] | list | support\n");
  return 2;
}
