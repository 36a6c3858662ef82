// Which of several ways to queue the same work is the fastest.
#pragma once

#include <optional>

#include "norma/device/timer.h"

namespace norma::kernels {

/// Seconds of queue(), the best of a few; nothing where it says that it cannot.
template <class Queue>
std::optional<double> seconds_of(const Queue& queue) {
  // Several in a row: the GPU then has something to do while the host queues the next.
  constexpr int kRounds = 2;
  constexpr int kInRow = 2;
  if (!queue()) return {};  // warms up
  device::Timer timer;
  std::optional<double> best;
  for (int round = 0; round < kRounds; ++round) {
    timer.start();
    for (int i = 0; i < kInRow; ++i) {
      if (!queue()) return {};
    }
    const double seconds = timer.seconds() / kInRow;
    if (!best || seconds < *best) best = seconds;
  }
  return best;
}

/// The index below `count` with which queue(index) is the fastest; 0 where none can.
template <class Queue>
std::size_t fastest(std::size_t count, const Queue& queue) {
  std::size_t best = 0;
  std::optional<double> best_seconds;
  for (std::size_t i = 0; i < count; ++i) {
    const std::optional<double> seconds = seconds_of([&] { return queue(i); });
    if (seconds && (!best_seconds || *seconds < *best_seconds)) {
      best_seconds = seconds;
      best = i;
    }
  }
  return best;
}

}  // namespace norma::kernels
