// Many panels on one picture: title, what it is, the panels in rows, what was done to it.

#include <algorithm>
#include <cmath>
#include <string>

#include "quantem/display/figure.h"
#include "quantem/display/text.h"
#include "quantem/runtime/thread_pool.h"

namespace quantem {
namespace {

constexpr Px kMargin = 40, kGapCols = 28, kGapRows = 26, kMinSheet = 640;
constexpr std::uint64_t kMaxPixels = std::uint64_t{1} << 28;  // 1 GiB of RGBA

// Lines of at most `width`, broken at spaces; a word that is longer than a line is cut.
std::vector<std::string> wrapped(const std::vector<std::string>& lines, Px width) {
  std::vector<std::string> out;
  for (const std::string& line : lines) {
    std::string current;
    std::size_t from = 0;
    while (from <= line.size()) {
      const std::size_t space = std::min(line.find(' ', from), line.size());
      const std::string word = line.substr(from, space - from);
      const std::string longer = current.empty() ? word : current + " " + word;
      if (!current.empty() && text_width(longer, Font::regular) > width) {
        out.push_back(current);
        current = word;
      } else {
        current = longer;
      }
      from = space + 1;
    }
    out.push_back(fit_text(current, Font::regular, width));
  }
  return out;
}

struct Tiles {
  std::vector<Px> col_left, row_top;  // one more entry than columns and rows: the end, gap included
  std::uint64_t columns = 1;
  [[nodiscard]] Px cols() const { return col_left.back() - kGapCols; }
  [[nodiscard]] Px rows() const { return row_top.back() - kGapRows; }
};

Tiles arrange(const std::span<const Rgba* const> drawn, std::uint64_t columns) {
  Tiles t;
  t.columns = columns;
  const std::uint64_t n_rows = (drawn.size() + columns - 1) / columns;
  std::vector<Px> widths(columns, 0), heights(n_rows, 0);
  for (std::uint64_t i = 0; i < drawn.size(); ++i) {
    widths[i % columns] = std::max<Px>(widths[i % columns], drawn[i]->extent.cols);
    heights[i / columns] = std::max<Px>(heights[i / columns], drawn[i]->extent.rows);
  }
  t.col_left.push_back(0), t.row_top.push_back(0);
  for (const Px w : widths) t.col_left.push_back(t.col_left.back() + w + kGapCols);
  for (const Px h : heights) t.row_top.push_back(t.row_top.back() + h + kGapRows);
  return t;
}

// The number of columns whose sheet comes nearest to 16:10 without leaving much of its last row empty.
std::uint64_t choose_columns(const std::span<const Rgba* const> drawn) {
  std::uint64_t best = 1;
  double best_cost = 1e300;
  for (std::uint64_t columns = 1; columns <= std::min<std::uint64_t>(drawn.size(), 8); ++columns) {
    const Tiles t = arrange(drawn, columns);
    const std::uint64_t cells = (t.col_left.size() - 1) * (t.row_top.size() - 1);
    const double shape = static_cast<double>(t.cols()) / static_cast<double>(t.rows());
    const double empty = static_cast<double>(cells - drawn.size()) / static_cast<double>(cells);
    const double cost = std::fabs(std::log(shape / 1.6)) + 1.5 * empty;
    if (cost < best_cost) best_cost = cost, best = columns;
  }
  return best;
}

Region moved(const Region& r, Px row, Px col) {
  if (r.row_start == r.row_stop) return r;
  const auto down = static_cast<std::uint32_t>(row), right = static_cast<std::uint32_t>(col);
  return {r.row_start + down, r.row_stop + down, r.col_start + right, r.col_stop + right};
}

}  // namespace

Result<Rgba> contact_sheet(std::span<const Panel> panels, const Sheet& sheet, const FigureStyle& style,
                           std::vector<PanelLayout>* layouts) {
  std::vector<Rgba> pictures;
  std::vector<PanelLayout> found(panels.size());
  for (std::uint64_t i = 0; i < panels.size(); ++i) {
    QUANTEM_TRY_ASSIGN(picture, draw_panel(panels[i], style, &found[i]));
    pictures.push_back(std::move(picture));
  }
  std::vector<const Rgba*> drawn;
  for (const Rgba& picture : pictures) drawn.push_back(&picture);
  return sheet_of_drawn(drawn, sheet, style, layouts, std::move(found));
}

Result<Rgba> sheet_of_drawn(std::span<const Rgba* const> drawn, const Sheet& sheet, const FigureStyle& style,
                            std::vector<PanelLayout>* layouts, std::vector<PanelLayout> found) {
  if (drawn.empty()) return Error{Code::invalid_argument, "contact_sheet: there is no panel to show"};
  found.resize(drawn.size());
  const Tiles t =
      arrange(drawn, sheet.columns ? std::min<std::uint64_t>(sheet.columns, drawn.size()) : choose_columns(drawn));
  const Px inner = std::max(t.cols(), kMinSheet), line = line_height(Font::regular) + 2;
  const std::vector<std::string> header = wrapped(sheet.header, inner), footer = wrapped(sheet.footer, inner);
  const Px title_rows = sheet.title.empty() ? 0 : line_height(Font::title) + 6;
  const Px grid_top = kMargin - 10 + title_rows + line * static_cast<Px>(header.size()) + 22;
  const Px foot_top = grid_top + t.rows() + 18;
  const Px rows = foot_top + (footer.empty() ? 0 : 12 + line * static_cast<Px>(footer.size())) + kMargin / 2;
  const Px cols = inner + 2 * kMargin;
  if (static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(cols) > kMaxPixels)
    return Error{Code::unsupported, "contact_sheet: the sheet would have " + std::to_string(rows) + " x " +
                                        std::to_string(cols) + " pixels; show fewer or smaller panels"};

  Rgba out({static_cast<std::uint32_t>(rows), static_cast<std::uint32_t>(cols)}, style.background);
  Px top = kMargin - 10;
  draw_text(out, top, kMargin, fit_text(sheet.title, Font::title, inner), Font::title, style.ink);
  top += title_rows;
  for (const std::string& text : header) {
    draw_text(out, top, kMargin, text, Font::regular, style.faint);
    top += line;
  }
  parallel_for(drawn.size(), [&](std::uint64_t i) {
    paste(out, grid_top + t.row_top[i / t.columns], kMargin + t.col_left[i % t.columns], *drawn[i]);
  });
  for (std::uint64_t i = 0; i < drawn.size(); ++i) {
    const Px row = grid_top + t.row_top[i / t.columns], col = kMargin + t.col_left[i % t.columns];
    found[i] = {moved(found[i].image, row, col), moved(found[i].scale_bar, row, col),
                moved(found[i].color_bar, row, col)};
  }
  if (!footer.empty()) fill_rectangle(out, foot_top, kMargin, 1, inner, {200, 204, 210});
  top = foot_top + 12;
  for (const std::string& text : footer) {
    draw_text(out, top, kMargin, text, Font::regular, style.faint);
    top += line;
  }
  if (layouts) *layouts = std::move(found);
  return out;
}

}  // namespace quantem
