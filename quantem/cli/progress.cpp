#include "quantem/cli/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>

#include "quantem/cli/parse.h"

namespace quantem::cli {
namespace {

std::string rate_text(const Progress& progress, double seconds) {
  if (seconds < 0.05 || progress.done == 0) return "";
  const double rate = static_cast<double>(progress.done) / seconds;
  if (std::string_view(progress.unit) == "bytes") return fmt::format("{:.2f} GB/s", rate / 1e9);
  return fmt::format("{:.{}f} {}/s", rate, rate < 10 ? 1 : 0, progress.unit);
}

std::string time_text(double seconds) {
  const auto whole = static_cast<long>(std::ceil(seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

}  // namespace

Result<ProgressStyle> parse_progress(std::string_view text, bool terminal, std::string_view option) {
  if (text == "auto" || text.empty()) return terminal ? ProgressStyle::bar : ProgressStyle::lines;
  if (text == "bar") return ProgressStyle::bar;
  if (text == "json") return ProgressStyle::json;
  if (text == "none") return ProgressStyle::none;
  return Error{Code::invalid_argument, fmt::format("{}: expected auto, bar, json or none, found '{}'", option, text)};
}

std::string progress_text(const Progress& progress, double seconds, int cols, bool with_bar) {
  const double part = progress.total ? static_cast<double>(progress.done) / static_cast<double>(progress.total) : 1.0;
  std::string head = fmt::format("{} {:3.0f} %", progress.stage, std::floor(100 * part));
  std::string tail = rate_text(progress, seconds);
  if (progress.done >= progress.total)
    tail += fmt::format("{}{:.1f} s", tail.empty() ? "" : ", ", seconds);
  else if (part > 0 && seconds > 0.2)
    tail += fmt::format("{}{} left", tail.empty() ? "" : ", ", time_text(seconds * (1 - part) / part));
  if (!with_bar) return tail.empty() ? head : head + "  " + tail;
  const int room = std::clamp(cols - static_cast<int>(head.size() + tail.size()) - 6, 0, 40);
  const int filled = static_cast<int>(part * room);
  return fmt::format("{} [{:#<{}}{: <{}}] {}", head, "", filled, "", room - filled, tail);
}

void ProgressPrinter::begin_stage(const Progress& progress, Clock::time_point now) {
  close();
  stage_ = progress.stage;
  started_ = last_line_ = now;
}

void ProgressPrinter::report(const Progress& progress) {
  if (style_ == ProgressStyle::none) return;
  const auto now = Clock::now();
  if (stage_ != progress.stage) begin_stage(progress, now);
  const double seconds = std::chrono::duration<double>(now - started_).count();
  const bool last = progress.done >= progress.total;
  if (style_ == ProgressStyle::json) {
    const nlohmann::ordered_json line = {
        {"stage", progress.stage}, {"done", progress.done}, {"total", progress.total}, {"unit", progress.unit}};
    err_ << line.dump() << '\n' << std::flush;
  } else if (style_ == ProgressStyle::bar) {
    err_ << '\r' << progress_text(progress, seconds, terminal_cols_, true) << "\x1b[K" << std::flush;
    bar_open_ = true;
  } else if (last || now - last_line_ > std::chrono::seconds(5)) {
    last_line_ = now;
    err_ << progress_text(progress, seconds, terminal_cols_, false) << '\n' << std::flush;
  }
  if (last) {
    close();
    stage_.clear();
  }
}

void ProgressPrinter::close() {
  if (bar_open_) err_ << '\n' << std::flush;
  bar_open_ = false;
}

}  // namespace quantem::cli
