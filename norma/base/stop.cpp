#include "norma/base/stop.h"

#include <csignal>

namespace norma {

namespace {

/// What a signal handler may write to.
volatile std::sig_atomic_t& noted() {
  static volatile std::sig_atomic_t signal = 0;
  return signal;
}

void note(int signal) {
  noted() = signal;
  std::signal(signal, SIG_DFL);
}

}  // namespace

void watch_stop_signals() {
  noted() = 0;  // also makes the variable before a handler needs it
  std::signal(SIGINT, note);
  std::signal(SIGTERM, note);
}

int stop_signal() { return noted(); }

void forget_stop_signal() { noted() = 0; }

}  // namespace norma
