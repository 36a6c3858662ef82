// Gains and biases of a norm, N columns at a time, and the root that every norm divides by.
#pragma once

#include <type_traits>

#include "norma/kernels/cuda/row_packs.cuh"

namespace norma::kernels {

/// 1/√x. Beside bf16 the instruction for it, good to 2e-7, instead of a root and a division: heads
/// of 64 have one for every 8 numbers of a thread.
__device__ inline float inverse_root(float x) { return rsqrtf(x); }
__device__ inline double inverse_root(double x) { return 1 / sqrt(x); }

/// offset + gain from `place` on; a null gain is the factor 1.
template <int N, class C>
__device__ inline void read_gain(const float* gain,
                                 Index place,
                                 std::type_identity_t<C> offset,
                                 C (&to)[N]) {
  if (gain == nullptr) {
#pragma unroll
    for (int i = 0; i < N; ++i) to[i] = 1;
    return;
  }
  read_row(gain + place, to);
#pragma unroll
  for (int i = 0; i < N; ++i) to[i] += offset;
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
