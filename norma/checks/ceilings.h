// What this machine can do at most, measured in this process: the yardsticks of every benchmark.
#pragma once

#include <functional>
#include <optional>

namespace norma::checks {

/// GFLOP/s of the best f32 matrix product found among several shapes, all threads.
double measure_gemm_peak();
/// GB/s of a large copy (bytes read plus bytes written), all threads.
double measure_copy_bandwidth();

/// The same of the GPU: GFLOP/s of an 8192³ product in bf16, and GB/s of its own copy. Throw
/// RequestError where there is none.
double measure_gpu_gemm_peak();
double measure_gpu_copy_bandwidth();

/// Seconds of one f() on the GPU: the median of several stretches of calls, queued one behind the
/// other so that the time of the host does not show. f() must not wait.
double gpu_seconds(const std::function<void()>& f);

/// What one f() takes when the GPU does nothing else for so long that it runs at the clock it can
/// keep: seconds, and joules where the card counts them. f() must not wait; `seconds` is one or
/// more.
struct SustainedUse {
  double seconds;
  std::optional<double> joules;
};
SustainedUse gpu_sustained(const std::function<void()>& f, double seconds);

}  // namespace norma::checks
