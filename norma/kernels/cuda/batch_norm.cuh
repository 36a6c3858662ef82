// What the kernels of batch_norm share: the rows of one position, and how to walk them. Sums go
// over the batch first, for every position and column, then over positions where a set has more
// than one.
#pragma once

#include "norma/kernels/batch_norm.h"
#include "norma/kernels/cuda/pack.cuh"

namespace norma::kernels {

inline constexpr int kBatchLanes = 32;  // N columns each
inline constexpr int kBatchWarps = 8;   // sequences in flight

/// Blocks of one position and kBatchLanes · n columns.
inline dim3 position_grid(Index positions, Index cols, int n) {
  const Index wide = static_cast<Index>(kBatchLanes) * n;
  return {static_cast<unsigned>(positions), static_cast<unsigned>((cols + wide - 1) / wide), 1};
}
inline dim3 position_block() { return {kBatchLanes, kBatchWarps, 1}; }

template <class A>
__device__ inline bool valid(const A& a, Index b, Index t) {
  return a.lengths == nullptr || t < a.lengths[b];
}
/// Valid rows at position t.
template <class A>
__device__ inline Index count_at(const A& a, Index t) {
  if (a.lengths == nullptr) return a.shape.batch;
  Index count = 0;
  for (Index b = 0; b < a.shape.batch; ++b) count += t < a.lengths[b] ? 1 : 0;
  return count;
}
/// Valid rows at positions 0 … t.
template <class A>
__device__ inline Index count_up_to(const A& a, Index t) {
  if (a.lengths == nullptr) return a.shape.batch * (t + 1);
  Index count = 0;
  for (Index b = 0; b < a.shape.batch; ++b) {
    const Index length = a.lengths[b] < 0 ? 0 : a.lengths[b];
    count += length < t + 1 ? length : t + 1;
  }
  return count;
}

/// The mean of a set, which normalizes N neighbouring columns, in two parts.
template <class C, int N>
struct Center {
  C mean[N];
  C shift[N];
  template <class A>
  __device__ Center(const A& a, Index at) {
#pragma unroll
    for (int k = 0; k < N; ++k) {
      mean[k] = read<C>(a.mean[at + k]);
      shift[k] = read<C>(a.shift[at + k]);
    }
  }
  __device__ C distance(C x, int k) const { return (x - mean[k]) - shift[k]; }
};

}  // namespace norma::kernels
