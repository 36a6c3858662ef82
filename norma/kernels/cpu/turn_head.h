// Rotates the pairs of one head, vectorized; shared by rope and qk_rope.
#pragma once

#include <type_traits>

#include "norma/kernels/parallel.h"
#include "norma/kernels/rope.h"

namespace norma::kernels {

/// y = R x or Rᵀ x, set or added; y may be x itself (a pair depends on no other pair).
template <RopeLayout kLayout, bool kTransposed, bool kAdd>
inline void turn_pairs(
    const float* x, const float* cosine, const float* sine, Index pairs, float* y) {
  constexpr bool kHalf = kLayout == RopeLayout::half_split;
  constexpr Index kStep = kHalf ? 1 : 2;
  const Index second = kHalf ? pairs : 1;
#pragma omp simd
  for (Index j = 0; j < pairs; ++j) {
    const float c = cosine[j];
    const float s = kTransposed ? -sine[j] : sine[j];
    const float x0 = x[kStep * j];
    const float x1 = x[kStep * j + second];
    if constexpr (kLayout == RopeLayout::nvidia_defect) {
      put<kAdd>(y[kStep * j], kTransposed ? -s * x1 : -c * x1);
      put<kAdd>(y[kStep * j + second], kTransposed ? -c * x0 : s * x0);
    } else {
      put<kAdd>(y[kStep * j], c * x0 - s * x1);
      put<kAdd>(y[kStep * j + second], s * x0 + c * x1);
    }
  }
}

/// Calls f(std::integral_constant<RopeLayout, layout>{}).
template <class F>
void with_layout(RopeLayout layout, F&& f) {
  switch (layout) {
    case RopeLayout::interleaved:
      return f(std::integral_constant<RopeLayout, RopeLayout::interleaved>{});
    case RopeLayout::half_split:
      return f(std::integral_constant<RopeLayout, RopeLayout::half_split>{});
    case RopeLayout::nvidia_defect:
      return f(std::integral_constant<RopeLayout, RopeLayout::nvidia_defect>{});
  }
}

}  // namespace norma::kernels
