#include "quantem/detector/sum_plan.h"

#include <algorithm>
#include <bit>

namespace quantem::detector_detail {
namespace {

std::uint64_t magnitude(std::int64_t w) {
  return w < 0 ? 0 - static_cast<std::uint64_t>(w) : static_cast<std::uint64_t>(w);
}

// How wide a stream is on average, and how many such streams a round takes: a warp works through wide ones in several steps.
enum Width : std::uint8_t { above_7, above_5, above_3, above_1, narrow };
constexpr std::uint32_t kStreamsOfRound[] = {4, 8, 16, 16, 16};
Width width_of(float mean_planes) {
  return mean_planes > 7.02f   ? above_7
         : mean_planes > 5.02f ? above_5
         : mean_planes > 3.02f ? above_3
         : mean_planes > 1.02f ? above_1
                               : narrow;
}

struct Placed {
  std::uint64_t weight;
  bool minus;
  Width width;
  std::uint32_t stream;
  [[nodiscard]] bool same_round(const Placed& o) const {
    return weight == o.weight && minus == o.minus && width == o.width;
  }
};

void deal_rounds(const std::vector<SumTerm>& terms, std::span<const float> mean_planes, SumPlan& plan) {
  std::vector<Placed> placed;
  placed.reserve(terms.size());
  for (const SumTerm& t : terms)
    placed.push_back({magnitude(t.weight), t.weight < 0, width_of(mean_planes[t.stream]), t.stream});
  std::sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) {
    if (a.weight != b.weight) return a.weight > b.weight;
    if (a.minus != b.minus) return b.minus;
    if (a.width != b.width) return a.width < b.width;
    return a.stream < b.stream;
  });
  std::uint32_t used = 0;
  for (std::size_t i = 0; i < placed.size(); ++i) {
    const Placed& p = placed[i];
    const std::uint32_t fill = kStreamsOfRound[p.width];
    if (i == 0 || used == fill || !p.same_round(placed[i - 1])) {
      used = 0;
      plan.codes.push_back(p.weight | (p.minus ? SumPlan::kMinus : 0));
      plan.streams.resize(plan.streams.size() + kRoundStreams, kNoStream);
    }
    // The two halves of the warp share the round evenly.
    const std::size_t slot = used % 2 * (kRoundStreams / 2) + used / 2;
    plan.streams[plan.streams.size() - kRoundStreams + slot] = p.stream;
    ++used;
  }
}

void find_runs(std::vector<SumTerm> terms, SumPlan& plan) {
  std::sort(terms.begin(), terms.end(), [](const SumTerm& a, const SumTerm& b) { return a.stream < b.stream; });
  std::size_t n = 0;
  for (std::size_t i = 0; i < terms.size();) {  // one term a stream
    SumTerm t = terms[i++];
    for (; i < terms.size() && terms[i].stream == t.stream; ++i) t.weight += terms[i].weight;
    if (t.weight != 0) terms[n++] = t;
  }
  terms.resize(n);
  for (const SumTerm& t : terms) {
    if (!plan.runs.empty() && plan.runs.back().last + 1 == t.stream && plan.runs.back().weight == t.weight)
      plan.runs.back().last = t.stream;
    else
      plan.runs.push_back({t.stream, t.stream, t.weight});
  }
}

}  // namespace

SumPlan make_sum_plan(std::vector<SumTerm> terms, std::span<const float> mean_planes,
                      std::span<const float> mean_listed) {
  SumPlan plan;
  plan.n_terms = terms.size();
  for (const SumTerm& t : terms) {
    plan.weighted |= magnitude(t.weight) != 1;
    plan.n_planes += mean_planes[t.stream];
    plan.n_listed += mean_listed[t.stream];
  }
  deal_rounds(terms, mean_planes, plan);
  find_runs(std::move(terms), plan);
  if (plan.runs.empty()) return plan;
  // Fitted to measured times on an H200, in planes: a listed bit 0.28, a run 5, a stream 3.3.
  const double lists = 0.28 * plan.n_listed + 5.0 * static_cast<double>(plan.runs.size());
  const double planes = plan.n_planes + 3.3 * static_cast<double>(plan.n_terms);
  const int warps = std::clamp(static_cast<int>(kSumWarps * lists / (lists + planes) + 0.2), 1, 6);
  plan.list_warps = warps > 3 && plan.runs.size() > 256 ? 0 : static_cast<std::uint32_t>(warps);
  return plan;
}

std::vector<SumTerm> terms_of(const MaskPlan& plan) {
  std::vector<SumTerm> terms;
  terms.reserve(plan.terms.size());
  for (const PlanTerm& t : plan.terms) terms.push_back({t.stream, t.sign});
  return terms;
}

std::vector<SumTerm> terms_of_weights(const Planner& planner, std::span<const std::int64_t> weights) {
  std::uint64_t any = 0;
  for (const std::int64_t w : weights) any |= magnitude(w);
  std::vector<SumTerm> terms;
  for (; any; any &= any - 1) {
    const int bit = std::countr_zero(any);
    BitMask plus(weights.size()), minus(weights.size());
    for (std::uint64_t p = 0; p < weights.size(); ++p)
      if (magnitude(weights[p]) >> bit & 1) (weights[p] < 0 ? minus : plus).set(p);
    for (const PlanTerm& t : planner.plan(plus, minus).terms)
      terms.push_back({t.stream, t.sign * (std::int64_t{1} << bit)});
  }
  return terms;
}

std::vector<SumTerm> terms_of_moment(const SlicedLayout& layout, const BitMask& selected, const BitMask& valid,
                                     bool along_rows) {
  std::vector<SumTerm> terms;
  const auto add = [&](std::uint32_t stream, std::int64_t weight) {
    if (weight != 0) terms.push_back({stream, weight});
  };
  for (std::uint32_t tile = 0; tile < layout.n_tiles32; ++tile) {
    const Region r = layout.tile32_region(tile);
    const auto each = [&](auto f) {
      for (std::uint32_t i = r.row_start; i < r.row_stop; ++i)
        for (std::uint32_t j = r.col_start; j < r.col_stop; ++j)
          f(std::uint64_t{i} * layout.det.cols + j, std::int64_t{along_rows ? i : j});
    };
    std::uint64_t n_in = 0, n_valid = 0;
    each([&](std::uint64_t p, std::int64_t) { n_in += selected[p], n_valid += valid[p]; });
    if (n_in == 0) continue;
    const bool whole = 2 * n_in > n_valid;
    if (whole) {
      add(layout.tile32_stream(tile), along_rows ? r.row_start : r.col_start);
      add(along_rows ? layout.row_moment_stream(tile) : layout.col_moment_stream(tile), 1);
    }
    if (whole && n_in == n_valid) continue;
    each([&](std::uint64_t p, std::int64_t coordinate) {
      if (!whole && selected[p]) add(layout.stream_of_pixel[p], coordinate);
      if (whole && valid[p] && !selected[p]) add(layout.stream_of_pixel[p], -coordinate);
    });
  }
  return terms;
}

}  // namespace quantem::detector_detail
