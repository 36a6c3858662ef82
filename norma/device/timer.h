// Time on the GPU, between two places in its queue. The host may run ahead meanwhile, so what it
// spends on queueing is not counted as long as the GPU has something to do.
#pragma once

namespace norma::device {

class Timer {
 public:
  /// Throws RequestError with the reason where there is no GPU.
  Timer();
  ~Timer();  // NOLINT(performance-trivially-destructible): with CUDA it frees events
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  /// Queued.
  void start();
  /// From start() to here; waits.
  double seconds();

 private:
  // Events; the page without CUDA has none.
  [[maybe_unused]] void* begin_ = nullptr;
  [[maybe_unused]] void* end_ = nullptr;
};

}  // namespace norma::device
