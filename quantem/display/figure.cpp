#include "quantem/display/figure.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "quantem/display/panel_scale.h"
#include "quantem/display/text.h"

namespace quantem {
namespace {

constexpr Px kPad = 8, kHead = 58, kBarGap = 14, kBarWidth = 20, kTickLength = 5, kWheel = 110, kMinWidth = 280;
constexpr Px kStrip = 34, kLine = 27, kTickSpacing = 50;

// Everything that is measured before anything is drawn.
struct Plan {
  Px image_rows, image_cols, side_cols, cols, rows;
  Pair scale;  // drawn pixels along a pixel of the source
  std::vector<double> ticks;
  TickLabels labels;
  ScaleBar bar;
  std::vector<std::pair<Color, std::string>> legend;
  bool wheel, color_bar;
};

Plan plan_panel(const Panel& panel) {
  Plan p{};
  const Pair drawn = drawn_scale(panel);
  p.image_rows = std::max<Px>(1, std::llround(panel.picture.extent.rows * drawn.row));
  p.image_cols = std::max<Px>(1, std::llround(panel.picture.extent.cols * drawn.col));
  p.scale = {drawn.row / panel.reduced_by, drawn.col / panel.reduced_by};
  p.wheel = panel.full_scale.has_value();
  p.color_bar = panel.window.has_value();
  if (p.color_bar) {
    p.ticks = nice_ticks(*panel.window, static_cast<std::uint32_t>(p.image_rows), kTickSpacing);
    p.labels = tick_labels(*panel.window, p.ticks);
    if (panel.window->flat()) p.labels.texts = {short_number(panel.window->lo)};
    Px widest = 0;
    for (const std::string& text : p.labels.texts) widest = std::max(widest, text_width(text, Font::regular));
    p.side_cols = kBarGap + kBarWidth + kTickLength + 5 + widest;
  }
  if (p.wheel) p.side_cols = kBarGap + kWheel + 30;
  const PixelStep step = panel.step.value_or(PixelStep{});
  p.bar = nice_scale_bar(step.size.col, step.unit, panel.source.cols);
  if (!step.note.empty()) p.bar.label += ", " + step.note;
  for (const Circle& circle : panel.circles)
    if (!circle.label.empty()) p.legend.emplace_back(circle.color, circle.label);
  if (panel.n_without_value)
    p.legend.emplace_back(kNoValue, std::to_string(panel.n_without_value) + " px without a value");
  p.cols = std::max(p.image_cols + p.side_cols, kMinWidth) + 2 * kPad;
  p.rows = kHead + p.image_rows + kStrip + kLine * static_cast<Px>(p.legend.size()) + kPad;
  return p;
}

Region region_of(Px row, Px col, Px rows, Px cols) {
  return {static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(row + rows), static_cast<std::uint32_t>(col),
          static_cast<std::uint32_t>(col + cols)};
}

// Nearest pixel; what has no value is hatched.
void draw_picture(Rgba& out, Px top, Px left, const Plan& p, const Rgba& picture) {
  for (Px r = 0; r < p.image_rows; ++r)
    for (Px c = 0; c < p.image_cols; ++c) {
      const Color color = picture.at(static_cast<std::uint64_t>(r * picture.extent.rows / p.image_rows),
                                     static_cast<std::uint64_t>(c * picture.extent.cols / p.image_cols));
      if (color.a == 255)
        out.set(static_cast<std::uint64_t>(top + r), static_cast<std::uint64_t>(left + c), color);
      else
        blend(out, top + r, left + c, color.a ? color : hatch(r, c));
    }
}

void draw_mark(Rgba& out, Px top, Px left, const Plan& p, const Circle& circle) {
  const ClipBox clip{top, left, p.image_rows, p.image_cols};
  const Point center{static_cast<double>(top) + (circle.center.row + 0.5) * p.scale.row - 0.5,
                     static_cast<double>(left) + (circle.center.col + 0.5) * p.scale.col - 0.5};
  if (!std::isfinite(center.row) || !std::isfinite(center.col) || !std::isfinite(circle.radius_px)) return;
  if (circle.radius_px > 0) {
    const double rows = circle.radius_px * p.scale.row, cols = circle.radius_px * p.scale.col;
    draw_circle(out, center, rows, cols, 4, {0, 0, 0, 110}, clip);  // readable on bright ground too
    draw_circle(out, center, rows, cols, 2, circle.color, clip);
    return;
  }
  const Px row = std::llround(center.row), col = std::llround(center.col);
  for (Px i = -8; i <= 8; ++i)
    for (const auto& [r, c] : {std::pair{row + i, col}, std::pair{row, col + i}})
      if (r >= top && r < top + p.image_rows && c >= left && c < left + p.image_cols) blend(out, r, c, circle.color);
}

void draw_color_bar(Rgba& out, Px top, Px left, const Plan& p, const Panel& panel, const FigureStyle& style) {
  const auto table = colormap(panel.colormap);
  if (!table) return;
  for (Px r = 0; r < p.image_rows; ++r) {
    const Px level = panel.window->flat() ? 128 : 255 - r * 256 / p.image_rows;
    const auto& row = (**table)[static_cast<std::size_t>(level)];
    fill_rectangle(out, top + r, left, 1, kBarWidth, {row[0], row[1], row[2]});
  }
  draw_frame(out, top, left, p.image_rows, kBarWidth, style.faint);
  for (std::size_t i = 0; i < p.labels.texts.size(); ++i) {
    const double t = panel.window->flat() ? 0.5 : panel.window->fraction(p.ticks[i]);
    const Px row = top + std::llround((1 - t) * static_cast<double>(p.image_rows - 1));
    fill_rectangle(out, row, left + kBarWidth + 1, 1, kTickLength, style.ink);
    const Px text_top = std::clamp(row - 11, top - 8, std::max(top - 8, top + p.image_rows - 16));
    draw_text(out, text_top, left + kBarWidth + kTickLength + 5, p.labels.texts[i], Font::regular, style.ink);
  }
}

void draw_wheel(Rgba& out, Px top, Px left, const Panel& panel, const FigureStyle& style) {
  const auto wheel = color_wheel(static_cast<std::uint32_t>(kWheel), panel.colormap);
  if (wheel) paste(out, top, left, *wheel);
  draw_text(out, top + kWheel + 8, left, "rim: |V| =", Font::regular, style.faint);
  draw_text(out, top + kWheel + 32, left, short_number(*panel.full_scale), Font::regular, style.ink);
  draw_text(out, top + kWheel + 56, left, pretty_unit(panel.value_unit), Font::regular, style.ink);
}

void draw_head(Rgba& out, const Plan& p, const Panel& panel, const FigureStyle& style) {
  const Px inner = p.cols - 2 * kPad;
  draw_text(out, 0, kPad, fit_text(panel.title, Font::bold, inner), Font::bold, style.ink);
  Px room = inner;
  if (p.color_bar) {
    std::string unit = p.labels.factor;
    if (!panel.value_unit.empty()) unit += (unit.empty() ? "" : " ") + pretty_unit(panel.value_unit);
    unit = fit_text(unit, Font::regular, inner * 2 / 3);
    const Px width = text_width(unit, Font::regular), bar_left = kPad + p.image_cols + kBarGap;
    const Px left = std::max(kPad, std::min(bar_left, p.cols - kPad - width));
    draw_text(out, 30, left, unit, Font::regular, style.ink);
    if (width) room = left - kPad - 10;
  }
  draw_text(out, 30, kPad, fit_text(panel.subtitle, Font::regular, std::max<Px>(room, 0)), Font::regular, style.faint);
}

// Scale bar at the left, size of the data at the right, then one line for each mark.
void draw_foot(Rgba& out, Px top, const Plan& p, const Panel& panel, const FigureStyle& style, PanelLayout& layout) {
  const Px bar_cols = std::max<Px>(1, std::llround(p.bar.pixels * p.scale.col)), bar_top = top + 16;
  Px used = 0;
  if (p.bar.length > 0) {
    fill_rectangle(out, bar_top, kPad, 5, bar_cols, style.ink);
    layout.scale_bar = region_of(bar_top, kPad, 5, bar_cols);
    draw_text(out, bar_top - 9, kPad + bar_cols + 8, p.bar.label, Font::regular, style.ink);
    used = bar_cols + 8 + text_width(p.bar.label, Font::regular) + 14;
  }
  std::string size = std::to_string(panel.source.rows) + " × " + std::to_string(panel.source.cols) + " px";
  if (panel.reduced_by > 1) size += ", drawn 1:" + std::to_string(panel.reduced_by);
  const Px width = text_width(size, Font::regular);
  const Px left = std::max(p.image_cols, kMinWidth) - width;
  if (left >= used) draw_text(out, bar_top - 9, kPad + left, size, Font::regular, style.faint);
  Px line = top + kStrip + 4;
  for (const auto& [color, text] : p.legend) {
    for (Px r = 0; r < 14; ++r)
      for (Px c = 0; c < 14; ++c) blend(out, line + 5 + r, kPad + c, color == kNoValue ? hatch(r, c) : color);
    draw_text(out, line, kPad + 24, fit_text(text, Font::regular, p.cols - 2 * kPad - 24), Font::regular, style.ink);
    line += kLine;
  }
}

}  // namespace

Result<Rgba> draw_panel(const Panel& panel, const FigureStyle& style, PanelLayout* layout) {
  if (panel.picture.extent.count() == 0 || panel.source.count() == 0 || panel.reduced_by == 0 ||
      panel.picture.bytes.size() != 4 * panel.picture.extent.count())
    return Error{Code::invalid_argument,
                 "draw_panel: panel '" + panel.title + "' holds no picture; fill it with show_image or show_vectors"};
  const Plan p = plan_panel(panel);
  Rgba out({static_cast<std::uint32_t>(p.rows), static_cast<std::uint32_t>(p.cols)}, style.background);
  PanelLayout found;
  draw_head(out, p, panel, style);
  draw_picture(out, kHead, kPad, p, panel.picture);
  for (const Circle& circle : panel.circles) draw_mark(out, kHead, kPad, p, circle);
  draw_frame(out, kHead, kPad, p.image_rows, p.image_cols, style.faint);
  found.image = region_of(kHead, kPad, p.image_rows, p.image_cols);
  const Px side = kPad + p.image_cols + kBarGap;
  if (p.color_bar) {
    draw_color_bar(out, kHead, side, p, panel, style);
    found.color_bar = region_of(kHead, side, p.image_rows, kBarWidth);
  }
  if (p.wheel) draw_wheel(out, kHead, side, panel, style);
  draw_foot(out, kHead + p.image_rows, p, panel, style, found);
  if (layout) *layout = found;
  return out;
}

}  // namespace quantem
