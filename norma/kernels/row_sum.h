// Sums along a row in a fixed number of lanes: the same order, and so the same rounding, whatever
// the compiler vectorizes.
#pragma once

#include "norma/base/types.h"

namespace norma::kernels {

/// Σ term(c) for c in [0, n): lane l takes c = l, l + kLanes, …; the lanes are then added in pairs.
/// Two full vectors of f32 with AVX-512, so that two sums run at once.
template <class F>
inline float row_sum(Index n, F&& term) {
  constexpr Index kLanes = 32;
  float lanes[kLanes] = {};
  Index c = 0;
  for (; c + kLanes <= n; c += kLanes) {
#pragma omp simd
    for (Index l = 0; l < kLanes; ++l) lanes[l] += term(c + l);
  }
  for (Index l = 0; c + l < n; ++l) lanes[l] += term(c + l);
  for (Index half = kLanes / 2; half > 0; half /= 2) {
    for (Index l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  }
  return lanes[0];
}

}  // namespace norma::kernels
