// The order of the data files of a master, and how many frames the absent ones held.

#include <algorithm>

#include "quantem/io/arina.h"
#include "quantem/io/part_layout.h"

namespace quantem {
namespace {

// Why image numbers cannot order the parts, or nothing. `listed` is in the order of the link numbers.
std::string fault_of_numbers(const std::vector<ListedPart>& listed, std::uint64_t expected) {
  std::vector<const ListedPart*> present;
  for (const ListedPart& p : listed)
    if (p.n_frames) present.push_back(&p);
  for (const ListedPart* p : present) {
    if (!p->image_nr_low) return p->link + " has no image_nr_low";
    if (*p->image_nr_low > (std::uint64_t{1} << 60))
      return p->link + " has image_nr_low " + std::to_string(*p->image_nr_low);
    if (p->image_nr_high && *p->image_nr_high - *p->image_nr_low + 1 != *p->n_frames)
      return p->link + " holds " + std::to_string(*p->n_frames) + " frames, its image numbers " +
             std::to_string(*p->image_nr_low) + " to " + std::to_string(*p->image_nr_high) + " say otherwise";
  }
  std::stable_sort(present.begin(), present.end(),
                   [](const ListedPart* a, const ListedPart* b) { return *a->image_nr_low < *b->image_nr_low; });
  const bool some_absent = present.size() != listed.size();
  for (std::size_t i = 1; i < present.size(); ++i) {
    const std::uint64_t end = *present[i - 1]->image_nr_low + *present[i - 1]->n_frames,
                        next = *present[i]->image_nr_low;
    if (next < end)
      return "image numbers of " + present[i - 1]->link + " and " + present[i]->link + " overlap at " +
             std::to_string(next);
    const std::uint64_t last =
        *present.back()->image_nr_low + *present.back()->n_frames - *present.front()->image_nr_low;
    if (next > end && !some_absent && last != expected)
      return "image numbers leave a gap from " + std::to_string(end) + " to " + std::to_string(next - 1) + " between " +
             present[i - 1]->link + " and " + present[i]->link;
  }
  return {};
}

// Shares `frames` among absent parts: the usual number each, the last one the rest.
void share(std::vector<ListedPart*>& absent, std::uint64_t frames, std::optional<std::uint64_t> usual) {
  for (std::size_t i = 0; i < absent.size(); ++i) {
    const std::uint64_t left = absent.size() - i;
    const std::uint64_t n = left == 1 ? frames : std::min(frames, usual.value_or(frames / left));
    absent[i]->n_frames = n;
    frames -= n;
  }
  absent.clear();
}

// Frames of every present part but the last one listed, when they all agree.
std::optional<std::uint64_t> usual_number(const std::vector<ListedPart>& listed) {
  std::optional<std::uint64_t> usual;
  for (std::size_t i = 0; i + 1 < listed.size(); ++i) {
    if (!listed[i].n_frames) continue;
    if (usual && *usual != *listed[i].n_frames) return std::nullopt;
    usual = listed[i].n_frames;
  }
  return usual;
}

void append(Container& c, ListedPart& p, std::uint64_t first) {
  for (Part& part : p.parts) {
    part.first_frame += first;
    if (part.absent_reason.empty()) c.n_stored += part.n_frames;
    c.parts.push_back(std::move(part));
  }
  if (p.parts.empty()) {
    Part part;
    part.dataset = p.link;
    part.first_frame = first;
    part.n_frames = p.n_frames.value_or(0);
    part.absent_reason = p.absent_reason;
    c.parts.push_back(std::move(part));
  }
}

void place_by_numbers(Container& c, std::vector<ListedPart>& listed, std::optional<std::uint64_t> usual) {
  // Absent parts keep their place between the present neighbours of their link number.
  std::vector<ListedPart> order;
  std::vector<ListedPart> present;
  std::uint64_t base = ~std::uint64_t{0};
  for (const ListedPart& p : listed)
    if (p.n_frames) base = std::min(base, *p.image_nr_low);
  if (!listed.empty() && !listed.front().n_frames)
    base = std::min<std::uint64_t>(base, 1);  // the first file is absent: from 1
  std::vector<std::size_t> by_number;
  for (std::size_t i = 0; i < listed.size(); ++i)
    if (listed[i].n_frames) by_number.push_back(i);
  const std::vector<std::size_t> by_link = by_number;
  std::stable_sort(by_number.begin(), by_number.end(),
                   [&](std::size_t a, std::size_t b) { return *listed[a].image_nr_low < *listed[b].image_nr_low; });
  if (by_number != by_link)
    c.warnings.push_back("data files are ordered by image_nr_low, which is not the order of their names");
  std::uint64_t at = 0;
  std::vector<ListedPart*> waiting;
  std::size_t next_absent = 0;
  for (const std::size_t i : by_number) {
    for (; next_absent < i; ++next_absent)
      if (!listed[next_absent].n_frames) waiting.push_back(&listed[next_absent]);
    next_absent = std::max(next_absent, i);
    const std::uint64_t first = *listed[i].image_nr_low - base;
    std::vector<ListedPart*> here = waiting;
    share(waiting, first - at, usual);
    for (ListedPart* p : here) {
      append(c, *p, at);
      at += *p->n_frames;
    }
    if (first > at) {  // a gap that no listed file explains
      Part hole;
      hole.first_frame = at;
      hole.n_frames = first - at;
      hole.absent_reason =
          "images " + std::to_string(base + at) + " to " + std::to_string(base + first - 1) + " are in no data file";
      c.parts.push_back(std::move(hole));
    }
    append(c, listed[i], first);
    at = first + *listed[i].n_frames;
  }
  for (; next_absent < listed.size(); ++next_absent)
    if (!listed[next_absent].n_frames) waiting.push_back(&listed[next_absent]);
  std::vector<ListedPart*> here = waiting;
  share(waiting, c.n_expected > at ? c.n_expected - at : 0, usual);
  for (ListedPart* p : here) {
    append(c, *p, at);
    at += *p->n_frames;
  }
}

void place_by_link(Container& c, std::vector<ListedPart>& listed, std::optional<std::uint64_t> usual) {
  std::uint64_t stored = 0;
  std::vector<ListedPart*> absent;
  bool present_after_absent = false;
  for (ListedPart& p : listed) {
    if (p.n_frames) {
      stored += *p.n_frames;
      present_after_absent = present_after_absent || !absent.empty();
    } else {
      absent.push_back(&p);
    }
  }
  if (present_after_absent && absent.size() > 1 && !usual && !c.not_ready)
    c.not_ready = Error(Code::missing_data,
                        absent.front()->absent_reason + "; and nothing says how many frames it and " +
                            std::to_string(absent.size() - 1) + " more held, so the place of later frames is unknown");
  share(absent, c.n_expected > stored ? c.n_expected - stored : 0, usual);
  std::uint64_t at = 0;
  for (ListedPart& p : listed) {
    append(c, p, at);
    at += *p.n_frames;
  }
}

}  // namespace

void place_parts(Container& c, std::vector<ListedPart> listed) {
  std::stable_sort(listed.begin(), listed.end(),
                   [](const ListedPart& a, const ListedPart& b) { return a.link_number < b.link_number; });
  const std::optional<std::uint64_t> usual = usual_number(listed);
  const std::string fault = fault_of_numbers(listed, c.n_expected);
  const bool any =
      std::any_of(listed.begin(), listed.end(), [](const ListedPart& p) { return p.n_frames.has_value(); });
  const bool numbered =
      std::any_of(listed.begin(), listed.end(), [](const ListedPart& p) { return p.image_nr_low.has_value(); });
  if (any && fault.empty()) return place_by_numbers(c, listed, usual);
  if (numbered && listed.size() > 1) c.warnings.push_back("data files are ordered by name: " + fault);
  place_by_link(c, listed, usual);
}

}  // namespace quantem
