// The program quantem-gpu: what run_cli needs from the operating system. The first Ctrl-C asks to stop, the second
// kills.

#include <pthread.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "quantem/cli/cli.h"

extern char** environ;

namespace {

// One thread waits for signals, so that no code runs inside a signal handler. Every other thread has them blocked.
void watch_signals(std::stop_source stop) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals, stop]() mutable {
    int number = 0;
    sigwait(&signals, &number);
    stop.request_stop();
    sigwait(&signals, &number);
    _exit(130);
  }).detach();
}

quantem::CliHost host_of_process() {
  quantem::CliHost host;
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry;
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos) continue;
    const std::string name = text.substr(0, equals);
    if (name.starts_with("QUANTEM_GPU_") || name == "NO_COLOR") host.environment[name] = text.substr(equals + 1);
  }
  host.err_is_terminal = isatty(STDERR_FILENO) == 1;
  if (winsize size{}; host.err_is_terminal && ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    host.terminal_cols = size.ws_col;
  return host;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is an error of the stream, with its exit status
  const std::stop_source stop;
  watch_signals(stop);
  quantem::CliHost host = host_of_process();
  host.stop = stop.get_token();
  host.ends = true;
  const int status = quantem::run_cli(std::vector<std::string>(argv + 1, argv + argc), std::cout, std::cerr, host);
  std::cout.flush();
  std::cerr.flush();
  std::fflush(nullptr);
  // Answers are out and files are whole: what is left is memory, which the system takes back faster than destructors do.
  std::quick_exit(status);
}
