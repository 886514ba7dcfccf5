// More than 2^32 counts: an index of 32 bits anywhere on the way of a count gives a wrong answer here.

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "parity/table.h"
#include "quantem/detector/mean_pattern.h"
#include "tests/support/splitmix64.h"

namespace quantem::parity {
namespace {

// A frame of u8 is one page. The period is no divisor of 2^20 positions, so the position that a wrapped index finds has another frame.
constexpr Shape4 kPeriod{{1, 1025}, {64, 64}};
constexpr std::uint32_t kRepeats = 1024;

Truth make_period() {
  Truth t = make_truth({{1, 1}, {1, 1}}, kLargeDtype, 1);
  t.shape = kPeriod;
  t.counts = Buffer(kPeriod.n_values());
  t.values.assign(kPeriod.n_values(), 0);
  t.valid_pixels = BitMask(kPeriod.frame_pixels(), true);
  for (const std::uint64_t p : {std::uint64_t{0}, std::uint64_t{2080}}) t.valid_pixels.set(p, false);
  t.valid_positions = BitMask(kPeriod.n_positions(), true);
  const auto counts = t.counts.as<std::uint8_t>();
  for (std::uint64_t i = 0; i < counts.size(); ++i) {
    const std::uint64_t bits = support::splitmix64(0x4000000000u + i);
    counts[i] =
        bits >> 56 == 0 ? static_cast<std::uint8_t>(1 + bits % 255) : 0;  // about 16 of the 4096 pixels of a frame
    if (t.valid_pixels[i % kPeriod.frame_pixels()]) t.values[i] = counts[i];
  }
  return t;
}
const Truth& period() {
  static const Truth t = make_period();
  return t;
}

// The counts as one array of the address space, every period the same memory.
class Repeated {
 public:
  static Result<Repeated> make() {
    const std::uint64_t n_bytes = kPeriod.n_values();
    const int file = ::memfd_create("quantem-parity", 0);
    const auto failed = [&] {
      if (file >= 0) ::close(file);
      return Error{Code::io, std::string("cannot map the repeated counts: ") + std::strerror(errno)};
    };
    if (file < 0 || ::ftruncate(file, static_cast<off_t>(n_bytes)) != 0) return failed();
    Repeated r;
    void* all = ::mmap(nullptr, n_bytes * kRepeats, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) return failed();
    r.data_ = static_cast<std::byte*>(all);
    for (std::uint64_t i = 0; i < kRepeats; ++i)
      if (::mmap(r.data_ + i * n_bytes, n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED)
        return failed();
    ::close(file);
    std::memcpy(r.data_, period().counts.data(), n_bytes);
    return Result<Repeated>(std::move(r));
  }
  Repeated(Repeated&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  Repeated& operator=(Repeated&&) = delete;
  ~Repeated() {
    if (data_) ::munmap(data_, kPeriod.n_values() * kRepeats);
  }
  [[nodiscard]] const std::byte* data() const { return data_; }

 private:
  Repeated() = default;
  std::byte* data_ = nullptr;
};

// How the answer for all positions follows from that for one period.
enum class From : std::uint8_t { repeated, times_repeats, same };

std::vector<Output> extended(std::vector<Output> of_period, From from) {
  for (Output& output : of_period)
    std::visit(
        [&]<class T>(std::vector<T>& values) {
          const std::vector<T> one = values;
          for (std::uint32_t i = 1; from == From::repeated && i < kRepeats; ++i)
            values.insert(values.end(), one.begin(), one.end());
          for (T& value : values)
            if (from == From::times_repeats) value = static_cast<T>(value * kRepeats);
        },
        output);
  return of_period;
}

// The frame of the last position and the last pixels of the last positions.
constexpr Region kLastPositions{kRepeats - 1, kRepeats, 1020, 1025}, kLastPixels{60, 64, 0, 64};
std::vector<Output> want_last() {
  std::vector<double> frame, part;
  for (std::uint64_t p = 0; p < kPeriod.frame_pixels(); ++p) frame.push_back(period().at(1024, p));
  for (std::uint64_t n = kLastPositions.col_start; n < kLastPositions.col_stop; ++n)
    for (std::uint64_t p = 60 * 64; p < kPeriod.frame_pixels(); ++p) part.push_back(period().at(n, p));
  return {frame, part};
}
std::vector<double> as_doubles(const HostArray& a) {
  const auto s = a.as<std::uint8_t>();
  return {s.begin(), s.end()};
}
Result<Outcome> run_last(const Volume& v) {
  QUANTEM_TRY_ASSIGN(one, frame(v, {kRepeats - 1, 1024}));
  QUANTEM_TRY_ASSIGN(part, read(v, kLastPositions, kLastPixels));
  return Outcome{{as_doubles(one), as_doubles(part)}, one.provenance.path};
}

}  // namespace

Shape4 large_shape() {
  return {{kRepeats, kPeriod.scan.cols}, kPeriod.det};
}

std::vector<LargeCheck> large_checks() {
  constexpr std::pair<std::string_view, From> kChecks[] = {
      {"masked_sum_exact", From::repeated}, {"masked_sum", From::repeated},       {"moment_sums", From::repeated},
      {"center_of_mass", From::repeated},   {"sum_pattern", From::times_repeats}, {"mean_pattern", From::same},
      {"max_pattern", From::same}};
  std::vector<LargeCheck> checks;
  for (const auto& [name, from] : kChecks)
    for (const Operation& op : operations())
      if (op.name == name)
        checks.push_back({op.name, extended(op.oracle(period()), from),
                          [run = op.run](const Volume& v) { return run(v, period()); }});
  checks.push_back({"frame, read", want_last(), run_last});
  return checks;
}

Result<Volume> make_large(const Device& device, Representation representation) {
  QUANTEM_TRY_ASSIGN(counts, Repeated::make());
  FromArrayOptions options;
  options.representation = representation;
  options.valid_pixels = period().valid_pixels;
  const Shape4 s = large_shape();
  return from_array(device, {kLargeDtype, {s.scan.rows, s.scan.cols, s.det.rows, s.det.cols}, counts.data()}, options);
}

}  // namespace quantem::parity
