// Plans of weighted sums: what the rounds and the runs of a plan add up to, evaluated as the kernel does.

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "quantem/detector/sum_plan.h"

namespace quantem::detector_detail {
namespace {

struct Random {
  std::mt19937 engine;
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(engine() % n); }
};

// Rounds as a list of (stream, weight), by T and R as in the kernel; `warps` take neighbouring rounds.
std::uint64_t sum_of_rounds(const SumPlan& plan, std::uint32_t warps, const std::vector<std::uint64_t>& values) {
  std::uint64_t out = 0;
  for (std::uint32_t w = 0; w < warps; ++w) {
    std::uint64_t total = 0, result = 0, weight = 0;
    const std::uint32_t first = plan.n_rounds() * w / warps, stop = plan.n_rounds() * (w + 1) / warps;
    for (std::uint32_t r = first; r < stop; ++r) {
      const std::uint64_t here = plan.codes[r] & ~SumPlan::kMinus;
      if (r > first) result += (weight - here) * total;
      EXPECT_TRUE(r == first || here <= weight);
      weight = here;
      for (std::uint32_t i = 0; i < kRoundStreams; ++i)
        if (const std::uint32_t s = plan.streams[r * kRoundStreams + i]; s != kNoStream)
          total += plan.codes[r] & SumPlan::kMinus ? 0 - values[s] : values[s];
    }
    out += result + weight * total;
  }
  return out;
}

TEST(SumPlan, RoundsAndRunsAddUpToTheTerms) {
  Random random{std::mt19937(7)};
  for (int trial = 0; trial < 60; ++trial) {
    const std::uint32_t n_streams = 1 + random.below(700);
    std::vector<float> planes(n_streams), listed(n_streams, 1.0f);
    std::vector<std::uint64_t> values(n_streams);
    for (std::uint32_t s = 0; s < n_streams; ++s) {
      planes[s] = static_cast<float>(random.below(12));
      values[s] = random.engine();
    }
    std::vector<SumTerm> terms;
    const std::uint32_t heaviest = trial % 3 == 0 ? 1 : trial % 3 == 1 ? 9 : 40000;
    for (std::uint32_t i = random.below(2 * n_streams); i > 0; --i)
      terms.push_back({random.below(n_streams), (random.below(2) ? 1 : -1) * std::int64_t{1 + random.below(heaviest)}});
    std::uint64_t want = 0;
    for (const SumTerm& t : terms) want += static_cast<std::uint64_t>(t.weight) * values[t.stream];
    const SumPlan plan = make_sum_plan(terms, planes, listed);
    EXPECT_EQ(plan.streams.size(), plan.codes.size() * kRoundStreams);
    EXPECT_EQ(plan.weighted, std::any_of(terms.begin(), terms.end(), [](auto t) { return std::abs(t.weight) != 1; }));
    EXPECT_LT(plan.list_warps, kSumWarps);
    for (const std::uint32_t warps : {1u, 5u, 8u}) EXPECT_EQ(sum_of_rounds(plan, warps, values), want) << trial;
    std::uint64_t of_runs = 0;
    for (const SumRun& r : plan.runs)
      for (std::uint32_t s = r.first; s <= r.last; ++s) of_runs += static_cast<std::uint64_t>(r.weight) * values[s];
    EXPECT_EQ(of_runs, want) << trial;
  }
}

TEST(SumPlan, TermsOfMomentsCoverTheSelection) {
  const SlicedLayout layout({75, 70});
  Random random{std::mt19937(3)};
  BitMask valid(layout.n_pixels, true), selected(layout.n_pixels);
  for (std::uint32_t p = 0; p < layout.n_pixels; ++p) {
    if (random.below(20) == 0) valid.set(p, false);
    const double r = p / 70 - 30.0, c = p % 70 - 40.0;
    selected.set(p, valid[p] && (r * r + c * c < 900 || random.below(50) == 0));
  }
  for (const bool along_rows : {true, false}) {
    std::vector<std::int64_t> weight(layout.n_pixels);
    const auto add = [&](const Region& region, auto w) {
      for (std::uint32_t i = region.row_start; i < region.row_stop; ++i)
        for (std::uint32_t j = region.col_start; j < region.col_stop; ++j)
          if (valid[i * 70 + j]) weight[i * 70 + j] += w(i, j);
    };
    for (const SumTerm& t : terms_of_moment(layout, selected, valid, along_rows)) {
      if (t.stream < layout.n_pixels) {
        weight[layout.pixel_of_stream[t.stream]] += t.weight;
      } else {
        ASSERT_GE(t.stream, layout.tile32_stream(0));
        const std::uint32_t k = t.stream - layout.tile32_stream(0);
        const bool is_sum = k < layout.n_tiles32;
        const std::uint32_t tile = is_sum ? k : (t.stream - layout.row_moment_stream(0)) / 2;
        const Region region = layout.tile32_region(tile);
        const std::uint32_t moment = along_rows ? layout.row_moment_stream(tile) : layout.col_moment_stream(tile);
        ASSERT_TRUE(is_sum || t.stream == moment);
        add(region, [&](std::uint32_t i, std::uint32_t j) {
          return is_sum ? t.weight : t.weight * std::int64_t{along_rows ? i - region.row_start : j - region.col_start};
        });
      }
    }
    for (std::uint32_t p = 0; p < layout.n_pixels; ++p) {
      const std::int64_t want = selected[p] ? (along_rows ? p / 70 : p % 70) : 0;
      ASSERT_TRUE(!valid[p] || weight[p] == want) << p;
    }
  }
}

}  // namespace
}  // namespace quantem::detector_detail
