#pragma once
// Pictures for people: an image with its title, scale bar, colour bar and marks, and a sheet of many of them.
//
//   Panel p;
//   p.title = "HAADF";                                               // what to say
//   p.step = {{0.2, 0.2}, "A"};                                      // of one pixel; unknown: leave it out, the bar counts px
//   const auto shown = show_image(p, image, *window(image), "gray"); // what to show
//   write_png("haadf.png", *draw_panel(*shown));
//
// Small images are enlarged by whole factors (every pixel a square), big ones are reduced by whole factors: the mean of
// the valid values of each block, before colours; under a cyclic colour map the mean direction, the window being one turn. Pixels without a value are hatched in magenta, never dark, and
// counted below the image.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quantem/core/array.h"
#include "quantem/core/region.h"
#include "quantem/core/result.h"
#include "quantem/display/colormap.h"
#include "quantem/display/rgba.h"
#include "quantem/display/vector_color.h"
#include "quantem/display/window.h"

namespace quantem {

// One image pixel measures `size` (row, col) in `unit`: "A", "nm", "1/A", "mrad", "px", ... Unequal sizes stretch the
// picture.
struct PixelStep {
  Pair size{1, 1};
  std::string unit = "px";
  std::string note = {};  // travels with the number: "uncalibrated"
};

// A circle (or a cross when radius_px is 0) over the image, in image pixels; label is printed below in the same colour.
struct Circle {
  Point center;
  double radius_px = 0;
  Color color{255, 80, 60};
  std::string label;
};

struct Panel {
  std::string title, subtitle;    // UTF-8; too long ones are cut with "..."
  std::string value_unit;         // above the colour bar; show_image takes the image's when empty
  std::optional<PixelStep> step;  // empty: not calibrated, the scale bar counts pixels
  std::vector<Circle> circles;
  std::uint32_t image_px =
      576;  // about the longest side of the drawn image: enlarged to 1.05, reduced above 1.25 of it
  // Filled by show_image and show_vectors.
  Rgba picture;                  // as coloured, alpha 0 where there is no value
  Extent source;                 // the image's extent; picture is smaller when it was reduced
  std::uint32_t reduced_by = 1;  // image pixels along a side of a picture pixel
  std::uint64_t n_without_value = 0;
  std::optional<Window> window;  // of the colour bar
  std::string colormap;
  std::optional<double> full_scale;  // of the colour wheel
};

// Fills the panel. Errors: as colorize() and vector_color().
Result<Panel> show_image(Panel panel, const Grid<float>& image, const Window& window,
                         std::string_view colormap = "gray");
Result<Panel> show_vectors(Panel panel, const Grid<float>& row, const Grid<float>& col,
                           const VectorColorOptions& options = {});

// A bar of 1, 2 or 5 times a power of ten, at most `fraction` of the width of n_cols pixels (the longest that fits).
// 128 px at 0.03 1/A: 1 1/A, 33.3 px, "1 A^-1" in proper letters. Angstroms from 10 on are labelled in nm.
struct ScaleBar {
  double length = 0;  // in the step's unit
  double pixels = 0;  // length / step, image pixels, not rounded
  std::string label;
};
ScaleBar nice_scale_bar(double step, std::string_view unit, std::uint32_t n_cols, double fraction = 0.3);

// "1/A" -> "Å⁻¹", "A" -> "Å", "um" -> "µm", ...; other units as they are.
std::string pretty_unit(std::string_view unit);

// Values at which a colour bar of `n_px` pixels is labelled: 1-2-5 steps (linear, power), decades and 0 (log), at least
// `spacing_px` apart, inside [lo, hi].
std::vector<double> nice_ticks(const Window& window, std::uint32_t n_px, std::uint32_t spacing_px);

// What is written beside those values, and the power of ten taken out of all of them ("×10³", or empty), to go with the unit.
struct TickLabels {
  std::vector<std::string> texts;
  std::string factor;
};
TickLabels tick_labels(const Window& window, const std::vector<double>& ticks);
// Three significant digits: "0.0123", "12.3", "1.23×10⁶".
std::string short_number(double value);

struct FigureStyle {
  Color background{255, 255, 255}, ink{24, 26, 30}, faint{104, 110, 120};
};
// Where things were drawn, in pixels of the drawing. Empty regions for what is not there. For tests and for web pages.
struct PanelLayout {
  Region image, scale_bar, color_bar;
};

// Errors: invalid_argument for a panel that show_image or show_vectors did not fill.
Result<Rgba> draw_panel(const Panel& panel, const FigureStyle& style = {}, PanelLayout* layout = nullptr);

struct Sheet {
  std::string title;                // one line, large
  std::vector<std::string> header;  // lines below it: file, shape, dtype, calibration and its origin
  std::vector<std::string> footer;  // lines at the bottom: evidence, warnings, provenance
  std::uint32_t columns = 0;        // 0: chosen so that the sheet is wider than high
};
// Errors: invalid_argument when there is no panel, or as draw_panel. `layouts` gets one entry a panel.
Result<Rgba> contact_sheet(std::span<const Panel> panels, const Sheet& sheet, const FigureStyle& style = {},
                           std::vector<PanelLayout>* layouts = nullptr);
// The same of panels that draw_panel has drawn with the same style, and where it found things in each (may be empty).
Result<Rgba> sheet_of_drawn(std::span<const Rgba* const> drawn, const Sheet& sheet, const FigureStyle& style = {},
                            std::vector<PanelLayout>* layouts = nullptr, std::vector<PanelLayout> found = {});

}  // namespace quantem
