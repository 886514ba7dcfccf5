#include "quantem/cli/self_check.h"

#include <algorithm>
#include <cstring>

#include "quantem/core/array.h"
#include "quantem/detector/masked_sum.h"
#include "quantem/detector/mean_pattern.h"
#include "quantem/resident/volume.h"

namespace quantem::cli {
namespace {

constexpr Shape4 kShape{{23, 29}, {37, 41}};  // no side is a multiple of anything that a fast path likes
constexpr std::uint64_t kPositions = kShape.n_positions(), kPixels = kShape.frame_pixels();

// Mostly 0 to 3, now and then hundreds, and one pixel at full scale: every kind of stream that encoded storage has.
std::vector<std::uint16_t> known_counts() {
  std::vector<std::uint16_t> counts(kShape.n_values());
  std::uint32_t state = 12345;
  for (std::uint64_t i = 0; i < counts.size(); ++i) {
    state = state * 1664525u + 1013904223u;
    const std::uint32_t bits = state >> 16;
    counts[i] = static_cast<std::uint16_t>(bits % 97 == 0 ? bits % 1000 : bits & 3u);
  }
  counts[kPixels * 11 + 17] = 65535;
  return counts;
}

class Comparison {
 public:
  Comparison(std::string where, const Volume& volume, const std::vector<std::uint16_t>& counts)
      : where_(std::move(where)), volume_(volume), counts_(counts) {}

  void masked(const std::string& name, const Mask& mask) {
    std::vector<std::uint64_t> expected(kPositions, 0);
    for (std::uint64_t n = 0; n < kPositions; ++n)
      for (std::uint64_t p = 0; p < kPixels; ++p)
        if (mask.bits[p]) expected[n] += counts_[n * kPixels + p];
    const auto exact = masked_sum_exact(volume_, mask);
    record("exact sum, " + name, exact, [&](const auto& image) { return image.values == expected; });
    const std::vector<float> rounded(expected.begin(), expected.end());
    const auto image = masked_sum(volume_, mask);
    record("image, " + name, image, [&](const auto& found) { return found.values == rounded; });
  }

  void patterns() {
    std::vector<std::uint64_t> sum(kPixels, 0), largest(kPixels, 0);
    for (std::uint64_t n = 0; n < kPositions; ++n)
      for (std::uint64_t p = 0; p < kPixels; ++p) {
        sum[p] += counts_[n * kPixels + p];
        largest[p] = std::max<std::uint64_t>(largest[p], counts_[n * kPixels + p]);
      }
    std::vector<double> mean;
    for (const std::uint64_t s : sum) mean.push_back(static_cast<double>(s) / static_cast<double>(kPositions));
    record("sum pattern", sum_pattern(volume_), [&](const auto& found) { return found.values == sum; });
    record("mean pattern", mean_pattern(volume_), [&](const auto& found) { return found.values == mean; });
    record("max pattern", max_pattern(volume_), [&](const HostArray& found) {
      bool equal = found.buffer.n_bytes() >= kPixels * item_bytes(found.dtype);
      visit_count_dtype(found.dtype, [&]<class T>() {
        const auto values = found.as<T>();
        for (std::uint64_t p = 0; equal && p < kPixels; ++p)
          equal = static_cast<double>(values[p]) == static_cast<double>(largest[p]);
      });
      return equal;
    });
  }

  void moments() {
    std::vector<std::uint64_t> total(kPositions, 0), row(kPositions, 0), col(kPositions, 0);
    for (std::uint64_t n = 0; n < kPositions; ++n)
      for (std::uint64_t p = 0; p < kPixels; ++p) {
        const std::uint64_t v = counts_[n * kPixels + p];
        total[n] += v, row[n] += p / kShape.det.cols * v, col[n] += p % kShape.det.cols * v;
      }
    record("moments", moment_sums(volume_),
           [&](const MomentSums& found) { return found.total == total && found.row == row && found.col == col; });
  }

  void counts() {
    const auto same = [](const HostArray& found, const std::uint16_t* expected, std::uint64_t n) {
      return found.dtype == Dtype::u16 && found.buffer.n_bytes() >= 2 * n &&
             std::memcmp(found.buffer.data(), expected, 2 * n) == 0;
    };
    record("read", read(volume_, whole(kShape.scan), whole(kShape.det)),
           [&](const HostArray& found) { return same(found, counts_.data(), counts_.size()); });
    record("frame", frame(volume_, {5, 7}), [&](const HostArray& found) {
      return same(found, counts_.data() + (5 * kShape.scan.cols + 7) * kPixels, kPixels);
    });
  }

  std::vector<SelfCheck> checks;

  template <class T, class F>
  void record(const std::string& name, const Result<T>& found, F&& equals) {
    SelfCheck check{where_ + ": " + name, false, ""};
    if (!found)
      check.found = found.error().message;
    else if (!(check.equal = equals(*found)))
      check.found = "differs from the plain loops";
    checks.push_back(std::move(check));
  }

 private:
  std::string where_;
  const Volume& volume_;
  const std::vector<std::uint16_t>& counts_;
};

}  // namespace

std::vector<SelfCheck> self_test(const Device& device) {
  const std::vector<std::uint16_t> counts = known_counts();
  const ArrayView view{
      Dtype::u16, {kShape.scan.rows, kShape.scan.cols, kShape.det.rows, kShape.det.cols}, counts.data()};
  std::vector<SelfCheck> checks;
  for (const Representation kind : {Representation::dense, Representation::encoded}) {
    const std::string where = device.label() + " " + std::string(representation_name(kind));
    FromArrayOptions options;
    options.representation = kind;
    const auto volume = from_array(device, view, options);
    if (!volume) {
      checks.push_back({where + ": build", false, volume.error().message});
      continue;
    }
    Comparison comparison(where, *volume, counts);
    comparison.counts();
    const Point center{17.6, 20.3};
    for (const auto& [name, mask] :
         {std::pair{"disc", disk(center, 9.4, kShape.det)}, std::pair{"ring", annulus(center, 9.4, 18.8, kShape.det)},
          std::pair{"all", Result<Mask>(all_pixels(kShape.det))}})
      if (mask)
        comparison.masked(name, *mask);
      else
        checks.push_back({where + ": " + name, false, mask.error().message});
    comparison.patterns();
    comparison.moments();
    for (SelfCheck& check : comparison.checks) checks.push_back(std::move(check));
  }
  return checks;
}

}  // namespace quantem::cli
