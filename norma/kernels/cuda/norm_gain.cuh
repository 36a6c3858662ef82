// Gains and biases of a norm, N columns at a time.
#pragma once

#include "norma/kernels/cuda/row_packs.cuh"

namespace norma::kernels {

/// offset + gain from `place` on; a null gain is the factor 1.
template <int N, class C>
__device__ inline void read_gain(const float* gain, Index place, double offset, C (&to)[N]) {
  if (gain == nullptr) {
#pragma unroll
    for (int i = 0; i < N; ++i) to[i] = 1;
    return;
  }
  read_row(gain + place, to);
#pragma unroll
  for (int i = 0; i < N; ++i) to[i] += static_cast<C>(offset);
}

/// A null bias is 0.
template <int N, class C>
__device__ inline void read_bias(const float* bias, Index place, C (&to)[N]) {
  if (bias == nullptr) {
#pragma unroll
    for (int i = 0; i < N; ++i) to[i] = 0;
    return;
  }
  read_row(bias + place, to);
}

}  // namespace norma::kernels
