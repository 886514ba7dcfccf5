#include "quantem/detector/plan.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace quantem {

StreamCosts stream_costs(std::span<const float> mean_width, std::span<const float> mean_listed,
                         const CostModel& model) {
  StreamCosts costs;
  costs.of_stream.resize(mean_width.size());
  for (std::size_t s = 0; s < mean_width.size(); ++s)
    costs.of_stream[s] = model.stream + model.plane * mean_width[s] + model.listed * mean_listed[s];
  return costs;
}

StreamCosts stream_costs(const SlicedStorage& storage, const CostModel& model, std::uint32_t n_samples) {
  const std::uint32_t n_streams = storage.layout.n_streams;
  std::vector<float> width(n_streams), listed(n_streams);
  const std::uint64_t n = std::min<std::uint64_t>(n_samples, storage.n_blocks());
  for (std::uint64_t k = 0; k < n; ++k) {
    const SlicedBlock& block = storage.blocks[(2 * k + 1) * storage.n_blocks() / (2 * n)];
    for (std::uint32_t s = 0; s < n_streams; ++s) {
      width[s] += static_cast<float>(block.width(s));
      listed[s] += static_cast<float>(block.list_stop(s) - block.list_begin(s));
    }
  }
  for (std::uint32_t s = 0; n && s < n_streams; ++s)
    width[s] /= static_cast<float>(n), listed[s] /= static_cast<float>(n);
  return stream_costs(width, listed, model);
}

Planner::Planner(const SlicedLayout& layout, StreamCosts costs, const BitMask& valid_pixels)
    : layout_(layout), costs_(std::move(costs)), of_tile32_(layout.n_tiles32) {
  std::uint32_t stream = 0;
  for (std::uint32_t t = 0; t < layout_.n_tiles8; ++t) {
    const Region r = layout_.tile8_region(t);
    const std::uint32_t tile32 = r.row_start / 32 * layout_.tiles32.cols + r.col_start / 32;
    Tile8 tile{stream,
               r.row_start,
               r.col_start,
               tile32,
               static_cast<std::uint8_t>(r.row_stop - r.row_start),
               static_cast<std::uint8_t>(r.col_stop - r.col_start),
               0,
               0};
    tile.valid = tile_bits(valid_pixels, tile);
    tile.cost = cost_of(tile, tile.valid);
    tiles_.push_back(tile);
    of_tile32_[tile32].push_back(t);
    stream += static_cast<std::uint32_t>(tile.rows) * tile.cols;
  }
}

std::uint64_t Planner::tile_bits(const BitMask& mask, const Tile8& tile) const {
  const std::vector<std::uint64_t>& words = mask.words();
  std::uint64_t bits = 0;
  for (std::uint32_t i = 0; i < tile.rows; ++i) {
    const std::uint64_t at = std::uint64_t{tile.row + i} * layout_.det.cols + tile.col;
    std::uint64_t row = words[at / 64] >> (at % 64);
    if (at % 64 + tile.cols > 64) row |= words[at / 64 + 1] << (64 - at % 64);
    bits |= (row & ((std::uint64_t{1} << tile.cols) - 1)) << (i * tile.cols);
  }
  return bits;
}

float Planner::cost_of(const Tile8& tile, std::uint64_t pixels) const {
  float cost = 0;
  for (; pixels; pixels &= pixels - 1) cost += costs_.of_stream[tile.first_stream + std::countr_zero(pixels)];
  return cost;
}

namespace {

// What one tile costs when its pixels are covered, by sums of its own and of the larger tiles together, e = -1, 0 or +1 times.
struct TileChoice {
  std::uint64_t plus, minus;  // valid pixels that are wanted
  float inside[3];            // cost of the smaller tiles and pixels that then remain, by e + 1
  // The best e when the larger tiles give d, by d + 1, and its cost.
  std::int32_t best[3];
  float cost[3];
};

void choose(TileChoice& t, float tile_cost) {
  for (std::int32_t d = -1; d <= 1; ++d) {
    t.cost[d + 1] = std::numeric_limits<float>::infinity();
    // e = 0 first, so that it wins ties; a pixel may be left with +1, 0 or -1, no more.
    for (const std::int32_t e : {0, 1, -1}) {
      if (e - d > 1 || d - e > 1 || (e == 1 && t.minus) || (e == -1 && t.plus)) continue;
      const float cost = t.inside[e + 1] + (e == d ? 0.0f : tile_cost);
      if (cost < t.cost[d + 1]) t.cost[d + 1] = cost, t.best[d + 1] = e;
    }
  }
}

// A mask's edge runs through the tile: whether its 4x4 tiles may help.
bool is_mixed(const TileChoice& t, std::uint64_t valid) {
  return (t.plus | t.minus) != 0 && t.plus != valid && t.minus != valid;
}

}  // namespace

std::uint32_t Planner::tiles4_of(std::uint32_t tile8, Tile4 (&tiles)[4]) const {
  const Extent n = layout_.tiles4_of(tile8);
  const Tile8& tile = tiles_[tile8];
  const std::uint32_t first = layout_.tile4_stream(layout_.first_tile4(tile8));
  for (std::uint32_t i = 0; i < n.rows * n.cols; ++i) {
    const std::uint32_t row = i / n.cols * 4, col = i % n.cols * 4, cols = std::min<std::uint32_t>(4, tile.cols - col);
    tiles[i] = {first + i, 0};
    for (std::uint32_t r = row; r < std::min<std::uint32_t>(row + 4, tile.rows); ++r)
      tiles[i].bits |= ((std::uint64_t{1} << cols) - 1) << (r * tile.cols + col);
  }
  return n.rows * n.cols;
}

MaskPlan Planner::plan_signed(const BitMask& plus, const BitMask* minus) const {
  MaskPlan plan;
  std::vector<TileChoice> choices(tiles_.size());
  std::vector<PlanTerm> tile32_terms, tile8_terms, tile4_terms;
  // Of a part of a tile's pixels: the cost of what remains of them without a sum over just this part.
  const auto count_pixels = [&](const Tile8& tile, std::uint64_t valid, float valid_cost, TileChoice& t) {
    const float c_plus = t.plus == valid ? valid_cost : cost_of(tile, t.plus);
    const float c_minus = t.minus == valid ? valid_cost : cost_of(tile, t.minus);
    t.inside[0] = t.minus == valid ? 0 : valid_cost - c_minus;
    t.inside[1] = c_plus + c_minus;
    t.inside[2] = t.plus == valid ? 0 : valid_cost - c_plus;
  };
  const auto choose_tile4 = [&](const Tile8& tile, const TileChoice& of, const Tile4& small) {
    const std::uint64_t valid = tile.valid & small.bits;
    TileChoice t{of.plus & small.bits, of.minus & small.bits, {}, {}, {}};
    count_pixels(tile, valid, cost_of(tile, valid), t);
    choose(t, costs_.of_stream[small.stream]);
    return t;
  };
  std::vector<std::int32_t> cover(tiles_.size());
  for (std::uint32_t big = 0; big < layout_.n_tiles32; ++big) {
    float cost[3] = {costs_.of_stream[layout_.tile32_stream(big)], 0, costs_.of_stream[layout_.tile32_stream(big)]};
    for (const std::uint32_t k : of_tile32_[big]) {
      const Tile8& tile = tiles_[k];
      TileChoice& t = choices[k];
      t.plus = tile_bits(plus, tile) & tile.valid;
      t.minus = minus ? tile_bits(*minus, tile) & tile.valid : 0;
      if (Tile4 small[4]; layout_.has_tiles_4() && is_mixed(t, tile.valid)) {
        std::fill_n(t.inside, 3, 0.0f);
        for (std::uint32_t i = 0, n = tiles4_of(k, small); i < n; ++i) {
          const TileChoice chosen = choose_tile4(tile, t, small[i]);
          for (int e = 0; e < 3; ++e) t.inside[e] += chosen.cost[e];
        }
      } else {
        count_pixels(tile, tile.valid, tile.cost, t);
      }
      choose(t, costs_.of_stream[layout_.tile8_stream(k)]);
      for (int d = 0; d < 3; ++d) cost[d] += t.cost[d];
    }
    std::int32_t d = 0;
    if (cost[2] < cost[d + 1]) d = 1;
    if (cost[0] < cost[d + 1]) d = -1;
    plan.cost += cost[d + 1];
    if (d) tile32_terms.push_back({layout_.tile32_stream(big), d});
    for (const std::uint32_t k : of_tile32_[big]) {
      cover[k] = choices[k].best[d + 1];
      if (cover[k] != d) tile8_terms.push_back({layout_.tile8_stream(k), cover[k] - d});
    }
  }
  for (std::uint32_t k = 0; k < tiles_.size(); ++k) {
    const TileChoice& t = choices[k];
    // What is wanted less what the tiles gave.
    std::uint64_t add = 0, take = 0;
    const auto rest = [&](const TileChoice& of, std::uint64_t valid, std::int32_t given) {
      add |= given == 0 ? of.plus : given == -1 ? valid & ~of.minus : 0;
      take |= given == 0 ? of.minus : given == 1 ? valid & ~of.plus : 0;
    };
    if (Tile4 small[4]; layout_.has_tiles_4() && is_mixed(t, tiles_[k].valid)) {
      for (std::uint32_t i = 0, n = tiles4_of(k, small); i < n; ++i) {
        const TileChoice chosen = choose_tile4(tiles_[k], t, small[i]);
        const std::int32_t given = chosen.best[cover[k] + 1];
        if (given != cover[k]) tile4_terms.push_back({small[i].stream, given - cover[k]});
        rest(chosen, tiles_[k].valid & small[i].bits, given);
      }
    } else {
      rest(t, tiles_[k].valid, cover[k]);
    }
    for (std::uint64_t left = add | take; left; left &= left - 1) {
      const int i = std::countr_zero(left);
      plan.terms.push_back({tiles_[k].first_stream + static_cast<std::uint32_t>(i), add >> i & 1 ? 1 : -1});
    }
  }
  std::sort(tile8_terms.begin(), tile8_terms.end(), [](PlanTerm a, PlanTerm b) { return a.stream < b.stream; });
  plan.terms.insert(plan.terms.end(), tile8_terms.begin(), tile8_terms.end());
  plan.terms.insert(plan.terms.end(), tile32_terms.begin(), tile32_terms.end());
  plan.terms.insert(plan.terms.end(), tile4_terms.begin(), tile4_terms.end());  // tile after tile: ascending
  return plan;
}

MaskPlan Planner::plan_change(const BitMask& from, const BitMask& to) const {
  BitMask plus = ~from, minus = ~to;
  plus &= to;
  minus &= from;
  return plan(plus, minus);
}

}  // namespace quantem
