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

std::atomic<bool>& save_wanted() {
  static std::atomic<bool> wanted{false};
  return wanted;
}

std::atomic<FirstSignal>& wanted_of_first() {
  static std::atomic<FirstSignal> wanted{FirstSignal::noted};
  return wanted;
}

void wait_for_signals(sigset_t watched) {
  for (;;) {
    int signal = 0;
    sigwait(&watched, &signal);
    if (signal == SIGUSR1) {
      save_wanted() = true;
    } else if (noted() == 0 && wanted_of_first() == FirstSignal::noted) {
      noted() = signal;
    } else {
      std::signal(signal, SIG_DFL);
      pthread_sigmask(SIG_UNBLOCK, &watched, nullptr);
      std::raise(signal);
    }
  }
}

bool is_ignored(int signal) {
  struct sigaction now {};
  return sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace

void watch_stop_signals(FirstSignal first) {
  wanted_of_first() = first;
  static std::once_flag once;
  std::call_once(once, [] {
    noted() = 0;
    save_wanted() = false;
    std::signal(SIGPIPE, SIG_IGN);
    sigset_t watched;
    sigemptyset(&watched);
    for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) sigaddset(&watched, signal);
    // A blocked signal is kept for sigwait even where it is ignored, so it must not be watched.
    if (!is_ignored(SIGHUP)) sigaddset(&watched, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &watched, nullptr);
    std::thread(wait_for_signals, watched).detach();
  });
}

int stop_signal() { return noted(); }

bool save_requested() { return save_wanted(); }
bool take_save_request() { return save_wanted().exchange(false); }

}  // namespace norma
