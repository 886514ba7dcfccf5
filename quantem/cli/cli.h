#pragma once
// The command line program as one function, so that tests call what users call.
//   quantem-gpu VERB [ARGS]     verbs: doctor info products dpc simulate convert
// stdout (`out`) holds the answer only: text, or with --json one object of schema quantem.gpu.cli/v1. Progress,
// warnings and errors go to stderr (`err`). Returns the exit status: 0 done, 1 internal, 2 usage, 3 source, 4
// unsupported, 5 memory, 6 device, 7 a check found a difference, 130 cancelled.

#include <iosfwd>
#include <map>
#include <stop_token>
#include <string>
#include <vector>

namespace quantem {

// What a program gets from where it runs. The defaults are a pipe without any environment.
struct CliHost {
  std::map<std::string, std::string> environment;  // QUANTEM_GPU_*, NO_COLOR
  bool err_is_terminal = false;
  int terminal_cols = 80;
  std::stop_token stop;  // Ctrl-C
  bool ends = false;     // the process ends after the call and uses no device again
};

int run_cli(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err, const CliHost& host = {});

}  // namespace quantem
