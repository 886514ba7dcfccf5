#pragma once
// Progress of long calls on stderr. On a terminal one line that is redrawn, with rate and time left; in a pipe a line
// when a stage begins being slow and one when it ends; with `json` one object a line.

#include <chrono>
#include <iosfwd>
#include <string>

#include "quantem/core/job.h"
#include "quantem/core/result.h"

namespace quantem::cli {

enum class ProgressStyle { none, bar, lines, json };
// "auto" is bar on a terminal and lines in a pipe.
Result<ProgressStyle> parse_progress(std::string_view text, bool terminal, std::string_view option);

class ProgressPrinter {
 public:
  using Clock = std::chrono::steady_clock;
  ProgressPrinter(std::ostream& err, ProgressStyle style, int terminal_cols)
      : err_(err), style_(style), terminal_cols_(terminal_cols) {}
  void report(const Progress& progress);
  void close();  // ends an open bar, so that what follows starts on its own line

 private:
  void begin_stage(const Progress& progress, Clock::time_point now);
  std::ostream& err_;
  ProgressStyle style_;
  int terminal_cols_;
  std::string stage_;
  Clock::time_point started_{}, last_line_{};
  bool bar_open_ = false;
};

// "load  41 % [########            ] 1.92 GB/s, 3 s left"
std::string progress_text(const Progress& progress, double seconds, int cols, bool with_bar);

}  // namespace quantem::cli
