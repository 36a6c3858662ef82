#include "norma/base/stop.h"

#include <atomic>
#include <csignal>
#include <mutex>
#include <thread>

namespace norma {

namespace {

std::atomic<int>& noted() {
  static std::atomic<int> signal{0};
  return signal;
}

void wait_for_signals(sigset_t watched) {
  int signal = 0;
  sigwait(&watched, &signal);
  noted() = signal;
  sigwait(&watched, &signal);
  std::signal(signal, SIG_DFL);
  pthread_sigmask(SIG_UNBLOCK, &watched, nullptr);
  std::raise(signal);
}

}  // namespace

void watch_stop_signals() {
  static std::once_flag once;
  std::call_once(once, [] {
    noted() = 0;
    sigset_t watched;
    sigemptyset(&watched);
    sigaddset(&watched, SIGINT);
    sigaddset(&watched, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &watched, nullptr);
    std::thread(wait_for_signals, watched).detach();
  });
}

int stop_signal() { return noted(); }

}  // namespace norma
