// Which of several ways to queue the same work is the fastest.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

namespace norma::kernels {

/// The index below `count` with which queue(index) is the fastest; 0 where none can. queue says
/// whether it could. The timer (device/timer.h) is started, and then says how long it took.
template <class Queue, class Timer>
std::size_t fastest(std::size_t count, const Queue& queue, Timer& timer) {
  // Round by round over all of them: a card's clock falls with what it has just done, and would
  // favour those that come first. Several in a row: the GPU then has something to do while the host
  // queues the next.
  constexpr int kRounds = 3;
  constexpr int kInRow = 2;
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<std::size_t> able;
  for (std::size_t i = 0; i < count; ++i) {
    if (queue(i)) able.push_back(i);  // and warms up
  }
  std::vector<double> best(count, kNever);
  for (int round = 0; round < kRounds; ++round) {
    for (const std::size_t i : able) {
      timer.start();
      bool could = true;
      for (int k = 0; k < kInRow; ++k) could = queue(i) && could;
      const double seconds = timer.seconds();
      if (could) best[i] = std::min(best[i], seconds);
    }
  }
  return static_cast<std::size_t>(std::min_element(best.begin(), best.end()) - best.begin());
}

}  // namespace norma::kernels
