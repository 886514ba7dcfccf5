// Figures: what is drawn is measured in pixels. U04: calibration is applied once.

#include "quantem/display/figure.h"

#include <gtest/gtest.h>

#include <cmath>

#include "quantem/display/text.h"

namespace quantem {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
const FigureStyle kStyle;

Image<float> ramp(Extent extent) {
  Image<float> image;
  image.extent = extent, image.unit = "counts";
  for (std::uint64_t i = 0; i < extent.count(); ++i) image.values.push_back(static_cast<float>(i % 251));
  return image;
}

Panel titled(std::string title) {
  Panel panel;
  panel.title = std::move(title);
  return panel;
}

Panel shown(Panel panel, const Grid<float>& image) {
  auto filled = show_image(std::move(panel), image, *window(image, kMinMax), "viridis");
  EXPECT_TRUE(filled) << filled.error().message;
  return *std::move(filled);
}

std::uint64_t count_color(const Rgba& picture, const Region& where, Color color) {
  std::uint64_t n = 0;
  for (std::uint32_t r = where.row_start; r < where.row_stop; ++r)
    for (std::uint32_t c = where.col_start; c < where.col_stop; ++c) n += picture.at(r, c) == color;
  return n;
}

TEST(ScaleBar, U04_CalibrationIsAppliedOnce) {
  // 128 px at 0.03 1/A: 3.84 1/A across; 1 1/A is 33.3 px.
  const ScaleBar bar = nice_scale_bar(0.03, "1/A", 128);
  EXPECT_NEAR(0.03 * 128, 3.84, 1e-12);
  EXPECT_EQ(bar.length, 1.0);
  EXPECT_NEAR(bar.pixels, 33.333333, 1e-5);
  EXPECT_EQ(bar.label, "1 Å⁻¹");
  // Drawn: every pixel becomes 4, so the bar is round(133.33) pixels long.
  Panel panel = titled("Mean pattern");
  panel.step = PixelStep{{0.03, 0.03}, "1/A"};
  PanelLayout layout;
  const Rgba out = *draw_panel(shown(panel, ramp({128, 128})), kStyle, &layout);
  EXPECT_EQ(layout.image.extent(), (Extent{512, 512}));
  EXPECT_EQ(layout.scale_bar.extent().cols, 133u);
  EXPECT_EQ(count_color(out, layout.scale_bar, kStyle.ink), layout.scale_bar.extent().count());
  Region wider = layout.scale_bar;
  wider.col_start -= 1, wider.col_stop += 1;
  EXPECT_EQ(count_color(out, wider, kStyle.ink), layout.scale_bar.extent().count()) << "no ink just beyond its ends";
}

TEST(ScaleBar, UnitsAreWrittenAsPeopleWriteThem) {
  EXPECT_EQ(pretty_unit("1/A/A"), "Å⁻²");  // of a divergence
  EXPECT_EQ(pretty_unit("px/A"), "px/Å");
  EXPECT_EQ(pretty_unit("us"), "µs");
  EXPECT_EQ(pretty_unit("furlong"), "furlong");
}

TEST(ScaleBar, IsNiceAndNeverTooLong) {
  for (const double step : {1e-9, 0.0123, 0.2, 0.999, 1.0, 3.7, 4e5})
    for (const std::uint32_t n : {7u, 64u, 192u, 1023u}) {
      const ScaleBar bar = nice_scale_bar(step, "nm", n);
      EXPECT_LE(bar.pixels, 0.3 * n + 1e-6);
      EXPECT_GT(bar.pixels, 0.3 * n * 0.39);
      const double lead = bar.length / std::pow(10, std::floor(std::log10(bar.length) + 1e-9));
      EXPECT_TRUE(std::fabs(lead - 1) < 1e-9 || std::fabs(lead - 2) < 1e-9 || std::fabs(lead - 5) < 1e-9) << lead;
    }
  EXPECT_EQ(nice_scale_bar(0.2, "A", 96).label, "5 Å");
  EXPECT_EQ(nice_scale_bar(0.2, "A", 256).label, "1 nm");
  EXPECT_EQ(nice_scale_bar(200, "A", 512).label, "2 µm");
  EXPECT_EQ(nice_scale_bar(0.5, "mrad", 192).label, "20 mrad");
  EXPECT_EQ(nice_scale_bar(1, "px", 2).label, "1 px") << "no part of a pixel";
  EXPECT_EQ(nice_scale_bar(0, "A", 96).length, 0);
}

TEST(Figure, WithoutCalibrationTheBarCountsPixels) {
  PanelLayout layout;
  const Panel panel = shown(titled("HAADF"), ramp({64, 64}));
  ASSERT_TRUE(draw_panel(panel, kStyle, &layout));
  EXPECT_EQ(layout.image.extent(), (Extent{576, 576}));
  EXPECT_EQ(layout.scale_bar.extent().cols, 90u);  // 10 px, each drawn as 9
}

TEST(Figure, EnlargesEveryPixelToASquareOfItsOwnColour) {
  const Image<float> image = ramp({7, 5});
  PanelLayout layout;
  const Panel panel = shown(titled("small"), image);
  const Rgba out = *draw_panel(panel, kStyle, &layout), colors = *colorize(image, *window(image, kMinMax), "viridis");
  const std::uint32_t k = layout.image.extent().rows / 7;
  EXPECT_EQ(layout.image.extent(), (Extent{7 * k, 5 * k}));
  for (std::uint32_t r = 0; r < 7 * k; ++r)
    for (std::uint32_t c = 0; c < 5 * k; ++c)
      ASSERT_EQ(out.at(layout.image.row_start + r, layout.image.col_start + c), colors.at(r / k, c / k));
}

TEST(Figure, ReducesBigImagesByTheMeanOfEachBlock) {
  Image<float> image = ramp({1500, 1201});
  image.values[0] = kNaN;  // a block goes on without it
  for (std::uint32_t r = 3; r < 6; ++r)
    for (std::uint32_t c = 3; c < 6; ++c) image.at(r, c) = kNaN;
  const Panel panel = shown(titled("big"), image);
  EXPECT_EQ(panel.reduced_by, 3u);
  EXPECT_EQ(panel.picture.extent, (Extent{500, 401}));
  EXPECT_EQ(panel.n_without_value, 10u);
  const auto color_of = [&](double mean) {
    const auto row = (**colormap("viridis"))[static_cast<std::size_t>(panel.window->level(static_cast<float>(mean)))];
    return Color{row[0], row[1], row[2], 255};
  };
  double sum = 0;
  for (std::uint32_t r = 6; r < 9; ++r)
    for (std::uint32_t c = 9; c < 12; ++c) sum += image.at(r, c);
  EXPECT_EQ(panel.picture.at(2, 3), color_of(sum / 9));
  sum = 0;
  for (std::uint32_t r = 0; r < 3; ++r)
    for (std::uint32_t c = 0; c < 3; ++c) sum += r + c ? image.at(r, c) : 0;
  EXPECT_EQ(panel.picture.at(0, 0), color_of(sum / 8));
  EXPECT_EQ(panel.picture.at(1, 1).a, 0);
  sum = 0;  // the last column of blocks is one pixel wide
  for (std::uint32_t r = 0; r < 3; ++r) sum += image.at(r, 1200);
  EXPECT_EQ(panel.picture.at(0, 400), color_of(sum / 3));
}

TEST(Figure, DirectionsAreReducedAlongTheCircle) {
  // 170 and -170 degrees beside each other everywhere: the mean direction is 180, not 0.
  Image<float> image = ramp({1440, 1440});
  for (std::uint64_t i = 0; i < image.values.size(); ++i) image.values[i] = i % 2 ? 170.0f : -170.0f;
  const Window turn = *manual_window(-180, 180);
  const auto panel = show_image(titled("direction"), image, turn, "twilight");
  ASSERT_TRUE(panel);
  ASSERT_EQ(panel->reduced_by, 2u);
  const auto color_of = [&](float degrees) {
    const auto row = (**colormap("twilight"))[static_cast<std::size_t>(turn.level(degrees))];
    return Color{row[0], row[1], row[2], 255};
  };
  const Color got = panel->picture.at(100, 7);
  EXPECT_TRUE(got == color_of(-180) || got == color_of(180));
  EXPECT_FALSE(got == color_of(0));
  for (std::uint64_t i = 0; i < image.values.size(); ++i) image.values[i] = i % 2 ? 90.0f : -90.0f;
  EXPECT_EQ(show_image(titled("none"), image, turn, "twilight")->picture.at(3, 3).a, 0);  // no mean direction
}

TEST(Figure, U01_NotCalibratedTravelsWithTheScaleBar) {
  const Panel panel = shown(titled("step"), ramp({64, 64}));
  Panel said = panel, unsaid = panel;
  unsaid.step = said.step = PixelStep{{1.39, 1.39}, "A"};
  said.step->note = "uncalibrated";
  PanelLayout a, b;
  const Rgba with = *draw_panel(said, kStyle, &a), without = *draw_panel(unsaid, kStyle, &b);
  EXPECT_EQ(a.scale_bar, b.scale_bar);
  EXPECT_NE(with.bytes, without.bytes);
}

TEST(Figure, C17_WhatIsMissingIsHatchedAndCounted) {
  Image<float> image = ramp({32, 32});
  image.at(4, 6) = kNaN;
  image.valid = BitMask(1024, true);
  image.valid.set(9 * 32 + 9, false);
  PanelLayout layout, whole_layout;
  const Panel panel = shown(titled("with gaps"), image);
  EXPECT_EQ(panel.n_without_value, 2u);
  const Rgba out = *draw_panel(panel, kStyle, &layout);
  const std::uint32_t k = layout.image.extent().rows / 32;
  for (const auto& [row, col] : {std::pair{4u, 6u}, std::pair{9u, 9u}}) {
    const std::uint32_t top = layout.image.row_start + row * k, left = layout.image.col_start + col * k;
    const Region block{top, top + k, left, left + k};
    EXPECT_GT(count_color(out, block, kNoValue), k * k / 2);
    EXPECT_EQ(count_color(out, block, kNoValue) + count_color(out, block, hatch(0, 5)), k * k);
  }
  const Rgba whole_picture = *draw_panel(shown(titled("whole"), ramp({32, 32})), kStyle, &whole_layout);
  EXPECT_EQ(count_color(whole_picture, whole({whole_picture.extent.rows, whole_picture.extent.cols}), kNoValue), 0u);
  EXPECT_GT(out.extent.rows, whole_picture.extent.rows) << "a line says how many have no value";
}

TEST(Figure, UnequalStepsStretchThePicture) {
  Panel panel = titled("line scan");
  panel.step = PixelStep{{2, 0.5}, "nm"};
  PanelLayout layout;
  ASSERT_TRUE(draw_panel(shown(panel, ramp({16, 64})), kStyle, &layout));
  EXPECT_EQ(layout.image.extent(), (Extent{576, 576}));
  EXPECT_EQ(layout.scale_bar.extent().cols, 90u);  // 5 nm = 10 px, each drawn 9 wide
}

TEST(Figure, CirclesLieWhereTheDetectorIs) {
  Panel panel = titled("detectors");
  const Color green{0, 255, 0};
  panel.circles = {{{31.5, 20.5}, 10, green, "r = 10 px"}, {{1e300, 0}, 5, green, ""}};
  PanelLayout layout;
  const Rgba out = *draw_panel(shown(panel, ramp({64, 64})), kStyle, &layout);
  const std::uint32_t k = 9;
  // Pixel coordinate 31.5 is the border between pixels 31 and 32: drawn coordinate 32 k - 1/2.
  const std::uint32_t row = layout.image.row_start + 32 * k, col = layout.image.col_start + 21 * k;
  EXPECT_EQ(out.at(row, col + 10 * k - 1), green);
  EXPECT_EQ(out.at(row - 1, col + 10 * k), green);
  EXPECT_EQ(out.at(row, col - 10 * k), green);
  EXPECT_EQ(out.at(row - 10 * k, col), green);
  EXPECT_EQ(out.at(row + 10 * k - 1, col), green);
  EXPECT_NE(out.at(row, col), green);
  EXPECT_NE(out.at(row, col + 10 * k + 4), green);
}

TEST(Figure, ColourBarRunsFromLowToHighAndIsLabelled) {
  PanelLayout layout;
  const Panel panel = shown(titled("bar"), ramp({64, 64}));
  const Rgba out = *draw_panel(panel, kStyle, &layout);
  const Region bar = layout.color_bar;
  EXPECT_EQ(bar.extent().rows, layout.image.extent().rows);
  const auto& table = **colormap("viridis");
  EXPECT_EQ(out.at(bar.row_start, bar.col_start), (Color{table[255][0], table[255][1], table[255][2]}));
  EXPECT_EQ(out.at(bar.row_stop - 1, bar.col_start), (Color{table[0][0], table[0][1], table[0][2]}));
  const Region labels{bar.row_start, bar.row_stop, bar.col_stop + 1, out.extent.cols};
  EXPECT_GT(count_color(out, labels, kStyle.ink), 50u);
}

TEST(Figure, TicksAreRoundAndApart) {
  EXPECT_EQ(nice_ticks(*manual_window(0, 10), 500, 50), (std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  EXPECT_EQ(nice_ticks(*manual_window(-0.013, 0.021), 200, 50), (std::vector<double>{-0.01, 0, 0.01, 0.02}));
  EXPECT_EQ(nice_ticks(*manual_window(0, 12000, Transform::log), 500, 50),
            (std::vector<double>{0, 10, 100, 1000, 10000}));
  EXPECT_TRUE(nice_ticks(*manual_window(3, 3), 500, 50).empty());
  for (const Transform t : {Transform::linear, Transform::log, Transform::power})
    for (const auto& [lo, hi] : {std::pair{-5.0, 1.0}, {1e-7, 3e-7}, {0.0, 4e9}, {-3e30, 3e30}, {1000.0, 1000.5}}) {
      const Window w = *manual_window(lo, hi, t);
      const std::vector<double> ticks = nice_ticks(w, 500, 50);
      EXPECT_LE(ticks.size(), 11u);
      for (std::size_t i = 0; i < ticks.size(); ++i) {
        EXPECT_GE(ticks[i], w.lo - 1e-6 * (hi - lo));
        EXPECT_LE(ticks[i], w.hi + 1e-6 * (hi - lo));
        if (i) {
          EXPECT_GE(w.fraction(ticks[i]) - w.fraction(ticks[i - 1]), 0.0999);
        }
      }
    }
}

TEST(Figure, LabelsSayTheValues) {
  const auto labels = [](const Window& w, const std::vector<double>& ticks) { return tick_labels(w, ticks); };
  const Window linear = *manual_window(-1e7, 1e7), log = *manual_window(0, 1e6, Transform::log);
  EXPECT_EQ(labels(linear, {-0.01, 0, 0.01}).texts, (std::vector<std::string>{"−0.01", "0.00", "0.01"}));
  EXPECT_EQ(labels(linear, {0, 500000, 1000000}).texts, (std::vector<std::string>{"0.0", "0.5", "1.0"}));
  EXPECT_EQ(labels(linear, {0, 500000, 1000000}).factor, "×10⁶");
  EXPECT_EQ(labels(linear, {0, 2e-6, 4e-6}).texts, (std::vector<std::string>{"0", "2", "4"}));
  EXPECT_EQ(labels(linear, {0, 2e-6, 4e-6}).factor, "×10⁻⁶");
  EXPECT_EQ(labels(log, {0, 10, 1000, 1e6}).texts, (std::vector<std::string>{"0", "10", "1000", "10⁶"}));
  EXPECT_EQ(short_number(0.0123456), "0.0123");
  EXPECT_EQ(short_number(-1234567), "−1.23×10⁶");
  EXPECT_EQ(pretty_unit("1/A"), "Å⁻¹");
  EXPECT_EQ(pretty_unit("furlong"), "furlong");
}

TEST(Figure, AnEmptyPanelIsRefused) {
  const auto refused = draw_panel(titled("nothing"));
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("nothing"), std::string::npos);
  EXPECT_FALSE(contact_sheet({}, {}));
  EXPECT_FALSE(show_image({}, ramp({2, 2}), {}, "jet"));
}

TEST(Figure, AConstantImageAndASinglePixelAreDrawn) {
  Image<float> constant = ramp({3, 3});
  constant.values.assign(9, 5);
  EXPECT_TRUE(draw_panel(shown(titled("constant"), constant)));
  EXPECT_TRUE(draw_panel(shown(titled("one"), ramp({1, 1}))));
  EXPECT_TRUE(draw_panel(shown(titled("row"), ramp({1, 5000}))));
  constant.values.assign(9, kNaN);
  EXPECT_TRUE(draw_panel(shown(titled("none"), constant)));
}

TEST(Text, MeasuresCutsAndSurvivesBrokenBytes) {
  EXPECT_EQ(text_width("Å⁻¹", Font::regular),
            text_width("Å", Font::regular) + text_width("⁻", Font::regular) + text_width("¹", Font::regular));
  EXPECT_NE(text_width("Å", Font::bold), 0);
  EXPECT_EQ(fit_text("short", Font::regular, 1000), "short");
  const std::string cut = fit_text("a very long title that does not fit", Font::regular, 100);
  EXPECT_LE(text_width(cut, Font::regular), 100);
  EXPECT_EQ(cut.substr(0, 2), "a ");
  EXPECT_NE(cut.find("…"), std::string::npos);
  EXPECT_EQ(text_width("\xff\xc3", Font::regular), text_width("??", Font::regular));
  Rgba picture({30, 30}, {255, 255, 255});
  draw_text(picture, -5, -5, "clipped at every side, Å", Font::title, {0, 0, 0});
  EXPECT_GT(count_color(picture, whole({30, 30}), {0, 0, 0}), 0u);
}

bool overlap(const Region& a, const Region& b) {
  return a.row_start < b.row_stop && b.row_start < a.row_stop && a.col_start < b.col_stop && b.col_start < a.col_stop;
}

TEST(ContactSheet, PanelsKeepTheirPixelsAndDoNotOverlap) {
  std::vector<Panel> panels;
  for (const Extent e : {Extent{64, 64}, Extent{192, 192}, Extent{30, 100}, Extent{700, 300}, Extent{5, 7}}) {
    Panel panel = titled("panel");
    panel.step = PixelStep{{0.2, 0.2}, "A"};
    panels.push_back(shown(panel, ramp(e)));
  }
  Panel vectors = *show_vectors(titled("DPC"), ramp({32, 32}), ramp({32, 32}));
  EXPECT_TRUE(vectors.full_scale.has_value());
  panels.push_back(vectors);
  Sheet sheet;
  sheet.title = "acquisition", sheet.header = {"line one"}, sheet.footer = {"evidence: native"};
  std::vector<PanelLayout> layouts;
  const auto out = contact_sheet(panels, sheet, kStyle, &layouts);
  ASSERT_TRUE(out);
  ASSERT_EQ(layouts.size(), 6u);
  for (std::size_t i = 0; i < 6; ++i) {
    const Region& image = layouts[i].image;
    EXPECT_LE(image.row_stop, out->extent.rows);
    EXPECT_LE(image.col_stop, out->extent.cols);
    EXPECT_EQ(out->at(image.row_start, image.col_start), panels[i].picture.at(0, 0));
    EXPECT_EQ(count_color(*out, layouts[i].scale_bar, kStyle.ink), layouts[i].scale_bar.extent().count());
    for (std::size_t j = 0; j < i; ++j) EXPECT_FALSE(overlap(image, layouts[j].image));
  }
  EXPECT_EQ(contact_sheet(panels, sheet)->bytes, out->bytes) << "the same panels give the same picture";
  sheet.columns = 1;
  const auto tall = contact_sheet(panels, sheet, kStyle, &layouts);
  for (std::size_t i = 1; i < 6; ++i) EXPECT_EQ(layouts[i].image.col_start, layouts[0].image.col_start);
  EXPECT_GT(tall->extent.rows, tall->extent.cols);
}

}  // namespace
}  // namespace quantem
