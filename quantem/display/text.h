#pragma once
// Text and simple shapes on an opaque picture. Everything is clipped to the picture. Coordinates are picture pixels.

#include <cstdint>
#include <string>
#include <string_view>

#include "quantem/core/shape.h"
#include "quantem/display/rgba.h"

namespace quantem {

// Antialiased glyphs kept as data (data/font_*.csv): 19 px, bold 23 px, bold 34 px.
enum class Font : std::uint8_t { regular, bold, title };

// A pixel count on the screen; may be negative or lie outside the picture.
using Px = std::int64_t;

Px text_width(std::string_view utf8, Font font);
Px line_height(Font font);  // from one line's top to the next one's
Px ascent(Font font);       // from a line's top to its base line
// `top` is the line's top, `left` where the pen starts. A letter that no font has is drawn as "?".
void draw_text(Rgba& picture, Px top, Px left, std::string_view utf8, Font font, Color color);
// The longest beginning that fits `width`, with "…" when something was cut.
std::string fit_text(std::string_view utf8, Font font, Px width);

// `color` over what is there, by color.a and `coverage` (0 to 1).
void blend(Rgba& picture, Px row, Px col, Color color, double coverage = 1);
void fill_rectangle(Rgba& picture, Px row, Px col, Px rows, Px cols, Color color);
// One pixel wide, just outside the rectangle.
void draw_frame(Rgba& picture, Px row, Px col, Px rows, Px cols, Color color);
// Antialiased, inside the rectangle `clip_*` only.
struct ClipBox {
  Px row, col, rows, cols;
};
void draw_circle(Rgba& picture, Point center, double radius_rows, double radius_cols, double width, Color color,
                 const ClipBox& clip);
// Copies, alpha blended.
void paste(Rgba& picture, Px row, Px col, const Rgba& what);
// The pattern of pixels without a value: diagonal stripes of two magentas, by screen position.
Color hatch(Px row, Px col);
inline constexpr Color kNoValue{226, 0, 200};

}  // namespace quantem
