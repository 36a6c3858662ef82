#include "apps/norma/progress.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include <unistd.h>

#include "norma/base/text.h"

namespace norma::app {

namespace {

std::string line_of(const RunProgress& progress) {
  std::string line = say("step ",
                         progress.step,
                         "/",
                         progress.steps,
                         "  loss ",
                         fixed(progress.loss, 4),
                         progress.val_loss > 0 ? say("  val ", fixed(progress.val_loss, 4)) : "",
                         "  lr ",
                         scientific(progress.lr, 2),
                         "  ",
                         fixed(progress.tokens_per_s, 0),
                         " tok/s");
  if (progress.share_of_peak > 0) {
    line += say("  ", fixed(100 * progress.share_of_peak, 0), "% of peak");
  }
  return line + say("  ETA ", clock_text(progress.eta_s));
}

std::string bar_of(double share) {
  constexpr std::size_t kWidth = 20;
  const auto full = static_cast<std::size_t>(kWidth * std::clamp(share, 0.0, 1.0));
  return say("[", std::string(full, '#'), std::string(kWidth - full, '.'), "] ");
}

}  // namespace

std::string clock_text(double seconds) {
  const auto total = static_cast<Index>(std::llround(seconds));
  const auto two = [](Index value) { return say(value < 10 ? "0" : "", value); };
  const Index hours = total / 3600;
  if (hours > 0) return say(hours, ":", two(total / 60 % 60), ":", two(total % 60));
  return say(total / 60, ":", two(total % 60));
}

ProgressDisplay::ProgressDisplay() : terminal_(isatty(STDERR_FILENO) != 0) {}

void ProgressDisplay::show(const RunProgress& progress) {
  if (!progress.trouble.empty()) {
    finish();
    std::fprintf(stderr, "norma: warning: %s\n", progress.trouble.c_str());
  }
  if (!terminal_) {
    if (progress.logged) std::fprintf(stderr, "%s\n", line_of(progress).c_str());
    return;
  }
  constexpr double kRefreshSeconds = 0.1;
  if (shown_ && since_.seconds() < kRefreshSeconds && progress.step != progress.steps) return;
  const double share =
      static_cast<double>(progress.step) / static_cast<double>(std::max<Index>(progress.steps, 1));
  std::fprintf(stderr, "\r\033[K%s%s", bar_of(share).c_str(), line_of(progress).c_str());
  std::fflush(stderr);
  since_.restart();
  shown_ = true;
  open_ = true;
}

void ProgressDisplay::finish() {
  if (open_) std::fputc('\n', stderr);
  open_ = false;
}

StatusLine::StatusLine() : terminal_(isatty(STDERR_FILENO) != 0) {}

void StatusLine::show(double share, const std::string& text) {
  const double pause_s = terminal_ ? 0.1 : 5;
  if (since_.seconds() < pause_s) return;
  since_.restart();
  if (!terminal_) {
    std::fprintf(stderr, "%s\n", text.c_str());
    return;
  }
  std::fprintf(stderr, "\r\033[K%s%s", bar_of(share).c_str(), text.c_str());
  std::fflush(stderr);
  open_ = true;
}

void StatusLine::finish() {
  if (open_) std::fputc('\n', stderr);
  open_ = false;
}

}  // namespace norma::app
