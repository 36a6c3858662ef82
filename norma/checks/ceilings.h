// What this machine can do at most, measured in this process: the yardsticks of every benchmark.
#pragma once

namespace norma::checks {

/// GFLOP/s of the best f32 matrix product found among several shapes, all threads.
double measure_gemm_peak();
/// GB/s of a large copy (bytes read plus bytes written), all threads.
double measure_copy_bandwidth();

}  // namespace norma::checks
