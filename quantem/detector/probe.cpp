#include "quantem/detector/probe.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <numbers>

#include "quantem/detector/message.h"

namespace quantem {
namespace {

// Calls f(flat index) for the up to 8 neighbours of (r, c), rows first.
template <class F>
void each_neighbour(Extent det, std::uint32_t r, std::uint32_t c, F f) {
  const std::uint32_t r0 = r ? r - 1 : 0, r1 = std::min(r + 1, det.rows - 1);
  const std::uint32_t c0 = c ? c - 1 : 0, c1 = std::min(c + 1, det.cols - 1);
  for (std::uint32_t i = r0; i <= r1; ++i)
    for (std::uint32_t j = c0; j <= c1; ++j)
      if (i != r || j != c) f(std::uint64_t{i} * det.cols + j);
}

// Step 1. False when no pixel has a value.
bool fill_bad_pixels(std::vector<double>& values, BitMask has, Extent det) {
  if (has.none()) return false;
  std::vector<std::uint64_t> missing;
  for (std::uint64_t p = 0; p < det.count(); ++p)
    if (!has[p]) missing.push_back(p);
  while (!missing.empty()) {
    std::vector<std::pair<std::uint64_t, double>> filled;  // applied after the pass, which reads only the previous one
    std::vector<std::uint64_t> left;
    for (const std::uint64_t p : missing) {
      double sum = 0;
      int n = 0;
      each_neighbour(det, static_cast<std::uint32_t>(p / det.cols), static_cast<std::uint32_t>(p % det.cols),
                     [&](std::uint64_t q) {
                       if (has[q]) sum += values[q], ++n;
                     });
      if (n)
        filled.emplace_back(p, sum / n);
      else
        left.push_back(p);
    }
    for (const auto& [p, v] : filled) values[p] = v, has.set(p);
    missing = std::move(left);
  }
  return true;
}

// Step 2.
std::vector<double> limit_hot_pixels(const std::vector<double>& values, Extent det) {
  std::vector<double> out = values;
  for (std::uint32_t r = 0; r < det.rows; ++r)
    for (std::uint32_t c = 0; c < det.cols; ++c) {
      double first = 0, second = 0;
      int n = 0;
      each_neighbour(det, r, c, [&](std::uint64_t q) {
        const double v = values[q];
        if (n == 0)
          first = v;
        else if (n == 1)
          second = std::min(first, v), first = std::max(first, v);
        else if (v > first)
          second = first, first = v;
        else if (v > second)
          second = v;
        ++n;
      });
      double& v = out[std::uint64_t{r} * det.cols + c];
      if (n >= 2) v = std::min(v, second);
    }
  return out;
}

double median(std::vector<double> v) {
  const std::size_t half = v.size() / 2;
  std::nth_element(v.begin(), v.begin() + half, v.end());
  const double upper = v[half];
  if (v.size() % 2) return upper;
  return (*std::max_element(v.begin(), v.begin() + half) + upper) / 2;
}

// Step 3: the plateau, or nothing when one side of the threshold is empty.
std::optional<double> plateau_by_threshold(const std::vector<double>& values) {
  double t = 0;
  for (const double v : values) t += v;
  t /= static_cast<double>(values.size());
  for (int i = 0; i < 100; ++i) {
    double above = 0, rest = 0;
    std::uint64_t n_above = 0;
    for (const double v : values) {
      if (v > t)
        above += v, ++n_above;
      else
        rest += v;
    }
    if (n_above == 0 || n_above == values.size()) return std::nullopt;
    const double next =
        (above / static_cast<double>(n_above) + rest / static_cast<double>(values.size() - n_above)) / 2;
    if (next == t) break;
    t = next;
  }
  std::vector<double> over;
  std::copy_if(values.begin(), values.end(), std::back_inserter(over), [t](double v) { return v > t; });
  if (over.empty() || over.size() == values.size()) return std::nullopt;
  return median(std::move(over));
}

// The pixels 4-connected to `seed` among those for which `in` holds, which are cleared in it.
std::vector<std::uint64_t> take_component(std::vector<std::uint8_t>& in, std::uint64_t seed, Extent det) {
  std::vector<std::uint64_t> pixels{seed};
  in[seed] = 0;
  for (std::size_t k = 0; k < pixels.size(); ++k) {
    const std::uint64_t p = pixels[k], r = p / det.cols, c = p % det.cols;
    const auto visit = [&](std::uint64_t q) {
      if (in[q]) in[q] = 0, pixels.push_back(q);
    };
    if (r > 0) visit(p - det.cols);
    if (r + 1 < det.rows) visit(p + det.cols);
    if (c > 0) visit(p - 1);
    if (c + 1 < det.cols) visit(p + 1);
  }
  return pixels;
}

// Step 4, one turn. Components are met in the order of their first flat index, so a tie keeps the smallest.
std::vector<std::uint64_t> largest_component(const std::vector<double>& values, double above, Extent det) {
  std::vector<std::uint8_t> in(values.size());
  for (std::size_t p = 0; p < values.size(); ++p) in[p] = values[p] > above;
  std::vector<std::uint64_t> best;
  double best_sum = 0;
  for (std::uint64_t p = 0; p < values.size(); ++p) {
    if (!in[p]) continue;
    std::vector<std::uint64_t> pixels = take_component(in, p, det);
    std::sort(pixels.begin(), pixels.end());  // the sum does not depend on the walk
    double sum = 0;
    for (const std::uint64_t q : pixels) sum += values[q];
    if (best.empty() || sum > best_sum) best = std::move(pixels), best_sum = sum;
  }
  return best;
}

// Step 5: the set with its holes, as bytes; counts what was filled.
std::vector<std::uint8_t> fill_holes(const std::vector<std::uint64_t>& set, Extent det, std::uint64_t& n_filled) {
  std::vector<std::uint8_t> outside(det.count(), 1);
  for (const std::uint64_t p : set) outside[p] = 0;
  std::vector<std::uint8_t> open = outside;
  const auto flood = [&](std::uint32_t r, std::uint32_t c) {
    const std::uint64_t p = std::uint64_t{r} * det.cols + c;
    if (open[p]) take_component(open, p, det);
  };
  for (std::uint32_t c = 0; c < det.cols; ++c) flood(0, c), flood(det.rows - 1, c);
  for (std::uint32_t r = 0; r < det.rows; ++r) flood(r, 0), flood(r, det.cols - 1);
  // What is still open was not reached from the border.
  n_filled = 0;
  std::vector<std::uint8_t> filled(det.count());
  for (std::uint64_t p = 0; p < det.count(); ++p) {
    filled[p] = !outside[p] || open[p];
    n_filled += open[p];
  }
  return filled;
}

Error no_disc(const std::string& reason, const Probe* candidate) {
  std::string text = "auto_probe: no disc (" + reason;
  if (candidate) {
    char place[96];
    std::snprintf(place, sizeof place, "; candidate (%.1f, %.1f) R %.1f", candidate->center.row, candidate->center.col,
                  candidate->radius);
    text += place;
  }
  return Error{Code::undetermined, text + "): pass center=(row, col) and radius="};
}

std::optional<std::string> touched_border(const std::vector<std::uint8_t>& set, Extent det) {
  for (std::uint64_t p = 0; p < det.count(); ++p) {
    if (!set[p]) continue;
    const std::uint64_t r = p / det.cols, c = p % det.cols;
    if (r == 0 || r + 1 == det.rows) return "row " + std::to_string(r);
    if (c == 0 || c + 1 == det.cols) return "col " + std::to_string(c);
  }
  return std::nullopt;
}

Probe measure(const std::vector<std::uint8_t>& set, Extent det, double plateau) {
  std::uint64_t n = 0, rows = 0, cols = 0;
  for (std::uint64_t p = 0; p < det.count(); ++p)
    if (set[p]) ++n, rows += p / det.cols, cols += p % det.cols;
  const double area = static_cast<double>(n);
  Probe probe;
  probe.center = {static_cast<double>(rows) / area, static_cast<double>(cols) / area};
  probe.radius = std::sqrt(area / std::numbers::pi);
  probe.area = n;
  probe.plateau = plateau;
  return probe;
}

Result<Probe> judge(const std::vector<std::uint8_t>& set, std::uint64_t n_filled, double plateau, Extent det) {
  const Probe probe = measure(set, det, plateau);
  const double area = static_cast<double>(probe.area);
  if (probe.area < 4) return no_disc("too_small: " + std::to_string(probe.area) + " pixels", &probe);
  if (const auto where = touched_border(set, det)) return no_disc("cut_off at " + *where, &probe);
  if (static_cast<double>(n_filled) > area / 5)
    return no_disc("not_a_disc: holes of " + std::to_string(n_filled) + " pixels", &probe);
  QUANTEM_TRY_ASSIGN(circle, disk(probe.center, probe.radius, det));
  std::uint64_t n_different = 0;
  for (std::uint64_t p = 0; p < det.count(); ++p) n_different += (set[p] != 0) != circle.bits[p];
  if (static_cast<double>(n_different) > area * (0.10 + 0.25 / probe.radius))
    return no_disc("not_a_disc: " + std::to_string(n_different) + " pixels differ from a circle", &probe);
  return probe;
}

}  // namespace

Result<Probe> auto_probe(const Pattern<double>& mean, const BitMask& valid_pixels) {
  const Extent det = mean.extent;
  if (det.count() == 0 || mean.values.size() != det.count() || valid_pixels.count() != det.count())
    return Error{Code::invalid_argument, "auto_probe: pattern is " + to_string(det) + " with " +
                                             std::to_string(mean.values.size()) + " values and " +
                                             std::to_string(valid_pixels.count()) + " pixels in its mask"};
  BitMask has = valid_pixels;
  for (std::uint64_t p = 0; p < det.count(); ++p)
    if (has[p] && (!mean.is_valid(p) || !std::isfinite(mean.values[p]))) has.set(p, false);
  std::vector<double> values = mean.values;
  if (!fill_bad_pixels(values, has, det)) return no_disc("flat: no pixel has a value", nullptr);
  values = limit_hot_pixels(values, det);
  const std::optional<double> start = plateau_by_threshold(values);
  if (!start) return no_disc("flat", nullptr);

  double plateau = *start;
  std::vector<std::uint64_t> set;
  for (int turn = 0; turn < 10; ++turn) {
    set = largest_component(values, plateau / 2, det);
    if (set.empty()) return no_disc("flat", nullptr);
    std::vector<double> inside;
    inside.reserve(set.size());
    for (const std::uint64_t p : set) inside.push_back(values[p]);
    const double next = median(std::move(inside));
    if (next == plateau) break;
    plateau = next;
  }
  std::uint64_t n_filled = 0;
  const std::vector<std::uint8_t> filled = fill_holes(set, det, n_filled);
  return judge(filled, n_filled, plateau, det);
}

Result<Probe> find_probe(const Pattern<double>& mean, const BitMask& valid_pixels, const ProbeOptions& options) {
  using detector_detail::number;
  if (options.center && !(std::isfinite(options.center->row) && std::isfinite(options.center->col)))
    return Error{
        Code::invalid_argument,
        "probe: center is " + detector_detail::point(options.center->row, options.center->col) + ", must be finite"};
  if (options.radius && !(*options.radius > 0 && std::isfinite(*options.radius)))
    return Error{Code::invalid_argument,
                 "probe: radius is " + number(*options.radius) + ", must be above 0 and finite"};
  Probe probe;
  if (!options.center || !options.radius) {
    QUANTEM_TRY_ASSIGN(measured, auto_probe(mean, valid_pixels));
    probe = measured;
  }
  if (options.center) probe.center = *options.center, probe.center_origin = Origin::caller;
  if (options.radius) probe.radius = *options.radius, probe.radius_origin = Origin::caller;
  return probe;
}

}  // namespace quantem
