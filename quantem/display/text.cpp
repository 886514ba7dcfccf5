#include "quantem/display/text.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace quantem {
namespace {

struct Glyph {
  std::uint32_t code;
  std::int16_t advance, left, top, width, height;  // px; left and top from the pen on the base line
  std::string_view coverage;                       // one hexadecimal digit a pixel
};

constexpr Glyph kRegular[] = {
#include "quantem/display/data/font_regular.inc"
};
constexpr Glyph kBold[] = {
#include "quantem/display/data/font_bold.inc"
};
constexpr Glyph kTitle[] = {
#include "quantem/display/data/font_title.inc"
};

struct Face {
  std::span<const Glyph> glyphs;
  Px ascent, line_height;
};
const Face& face(Font font) {
  static constexpr Face kFaces[] = {{kRegular, 18, 24}, {kBold, 22, 29}, {kTitle, 32, 43}};
  return kFaces[static_cast<std::size_t>(font)];
}

const Glyph& glyph(const Face& f, std::uint32_t code) {
  const auto find = [&](std::uint32_t wanted) {
    return std::lower_bound(f.glyphs.begin(), f.glyphs.end(), wanted,
                            [](const Glyph& g, std::uint32_t c) { return g.code < c; });
  };
  auto found = find(code);
  if (found == f.glyphs.end() || found->code != code) found = find('?');
  return *found;
}

// Takes the next code point off `rest`; a broken sequence gives U+FFFD and one byte.
std::uint32_t next_code(std::string_view& rest) {
  const auto byte = [&](std::size_t i) { return std::uint32_t{static_cast<std::uint8_t>(rest[i])}; };
  const std::uint32_t first = byte(0);
  const std::size_t n = first < 0x80 ? 1 : first >> 5 == 6 ? 2 : first >> 4 == 14 ? 3 : first >> 3 == 30 ? 4 : 0;
  std::uint32_t code = n == 1 ? first : first & (0xffu >> (n + 1));
  bool good = n > 0 && n <= rest.size();
  for (std::size_t i = 1; good && i < n; ++i) {
    good = byte(i) >> 6 == 2;
    code = code << 6 | (byte(i) & 63);
  }
  rest.remove_prefix(good ? n : 1);
  return good ? code : 0xFFFD;
}

std::uint8_t mix(std::uint8_t under, std::uint8_t over, double share) {
  return static_cast<std::uint8_t>(std::lround(under + (over - under) * share));
}

}  // namespace

Px text_width(std::string_view text, Font font) {
  Px width = 0;
  while (!text.empty()) width += glyph(face(font), next_code(text)).advance;
  return width;
}

Px line_height(Font font) {
  return face(font).line_height;
}
Px ascent(Font font) {
  return face(font).ascent;
}

void blend(Rgba& picture, Px row, Px col, Color color, double coverage) {
  if (row < 0 || col < 0 || row >= picture.extent.rows || col >= picture.extent.cols) return;
  const auto r = static_cast<std::uint64_t>(row), c = static_cast<std::uint64_t>(col);
  const double share = coverage * color.a / 255.0;
  if (share >= 1) return picture.set(r, c, color);
  const Color under = picture.at(r, c);
  picture.set(r, c, {mix(under.r, color.r, share), mix(under.g, color.g, share), mix(under.b, color.b, share), 255});
}

void draw_text(Rgba& picture, Px top, Px left, std::string_view text, Font font, Color color) {
  const Face& f = face(font);
  while (!text.empty()) {
    const Glyph& g = glyph(f, next_code(text));
    for (Px r = 0; r < g.height; ++r)
      for (Px c = 0; c < g.width; ++c) {
        const char digit = g.coverage[static_cast<std::size_t>(r * g.width + c)];
        if (digit == '0') continue;
        const int ink = digit <= '9' ? digit - '0' : digit - 'a' + 10;
        blend(picture, top + f.ascent + g.top + r, left + g.left + c, color, ink / 15.0);
      }
    left += g.advance;
  }
}

std::string fit_text(std::string_view text, Font font, Px width) {
  if (text_width(text, font) <= width) return std::string(text);
  const Px room = width - text_width("…", font);
  Px used = 0;
  std::string_view rest = text;
  std::size_t kept = 0;
  while (!rest.empty()) {
    used += glyph(face(font), next_code(rest)).advance;
    if (used > room) break;
    kept = text.size() - rest.size();
  }
  return std::string(text.substr(0, kept)) + "…";
}

void fill_rectangle(Rgba& picture, Px row, Px col, Px rows, Px cols, Color color) {
  for (Px r = std::max<Px>(row, 0); r < std::min<Px>(row + rows, picture.extent.rows); ++r)
    for (Px c = std::max<Px>(col, 0); c < std::min<Px>(col + cols, picture.extent.cols); ++c)
      blend(picture, r, c, color);
}

void draw_frame(Rgba& picture, Px row, Px col, Px rows, Px cols, Color color) {
  fill_rectangle(picture, row - 1, col - 1, 1, cols + 2, color);
  fill_rectangle(picture, row + rows, col - 1, 1, cols + 2, color);
  fill_rectangle(picture, row, col - 1, rows, 1, color);
  fill_rectangle(picture, row, col + cols, rows, 1, color);
}

void draw_circle(Rgba& picture, Point center, double radius_rows, double radius_cols, double width, Color color,
                 const ClipBox& clip) {
  // |q| of pixels that the line can touch, with room for rounding: |grad |q|| is at most 1 / the shorter radius.
  const double reach = (width / 2 + 0.5) / std::min(radius_rows, radius_cols) + 1e-9;
  const double inside = reach < 1 ? (1 - reach) * (1 - reach) * (1 - 1e-9) : 0,
               outside = (1 + reach) * (1 + reach) * (1 + 1e-9);
  for (Px r = clip.row; r < clip.row + clip.rows; ++r)
    for (Px c = clip.col; c < clip.col + clip.cols; ++c) {
      const double dr = static_cast<double>(r) - center.row, dc = static_cast<double>(c) - center.col;
      const double a = dr / radius_rows, b = dc / radius_cols, q2 = a * a + b * b;
      if (q2 < inside || q2 > outside) continue;
      // Distance to the ellipse to first order: (|q| - 1) / |grad |q||, exact for a circle.
      const double q = std::hypot(dr / radius_rows, dc / radius_cols);
      if (!(q > 0)) continue;
      const double slope = std::hypot(dr / (radius_rows * radius_rows), dc / (radius_cols * radius_cols)) / q;
      const double coverage = std::clamp(width / 2 + 0.5 - std::fabs(q - 1) / slope, 0.0, 1.0);
      if (coverage > 0) blend(picture, r, c, color, coverage);
    }
}

void paste(Rgba& picture, Px row, Px col, const Rgba& what) {
  const bool fits = row >= 0 && col >= 0 && row + what.extent.rows <= picture.extent.rows &&
                    col + what.extent.cols <= picture.extent.cols;
  for (std::uint32_t r = 0; r < what.extent.rows; ++r)
    for (std::uint32_t c = 0; c < what.extent.cols; ++c) {
      const Color color = what.at(r, c);
      if (fits && color.a == 255)
        picture.set(static_cast<std::uint64_t>(row + r), static_cast<std::uint64_t>(col + c), color);
      else
        blend(picture, row + r, col + c, color);
    }
}

Color hatch(Px row, Px col) {
  return (row + col) % 8 < 5 ? kNoValue : Color{255, 176, 246};
}

}  // namespace quantem
