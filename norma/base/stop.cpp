#include "norma/base/stop.h"

#include <csignal>

namespace norma {

namespace {

volatile std::sig_atomic_t noted = 0;

void note(int signal) {
  noted = signal;
  std::signal(signal, SIG_DFL);
}

}  // namespace

void watch_stop_signals() {
  std::signal(SIGINT, note);
  std::signal(SIGTERM, note);
}

int stop_signal() { return noted; }

void forget_stop_signal() { noted = 0; }

}  // namespace norma
