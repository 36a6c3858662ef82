// The vectors of a matrix, worked off by blocks: one row by a block, or 32 neighbouring columns,
// one for each lane. An algorithm on vectors is written once in terms of sum and each, and serves
// both. A thread meets the same elements in every pass, so passes need no barrier between them.
#pragma once

#include "norma/kernels/cuda/pack.cuh"
#include "norma/kernels/vectors.h"

namespace norma::kernels {

class RowGroup {
 public:
  static constexpr int kThreads = 256;
  __device__ explicit RowGroup(const VectorLayout& layout)
      : base_(static_cast<Index>(blockIdx.x) * layout.cols), cols_(layout.cols) {}

  /// Whether this thread has a vector at all.
  __device__ bool exists() const { return true; }
  /// Whether this thread is the one that writes what its vector has once.
  __device__ bool leads() const { return threadIdx.x == 0; }
  __device__ Index vector() const { return blockIdx.x; }
  /// Σ term(i) over the elements i of the thread's vector. All threads of the block call it.
  template <class F>
  __device__ double sum(F&& term) const {
    double sum = 0;
    each([&](Index i) { sum += static_cast<double>(term(i)); });
    return block_sum<kThreads>(sum);
  }
  /// f(i) for the elements that are this thread's.
  template <class F>
  __device__ void each(F&& f) const {
    for (Index c = threadIdx.x; c < cols_; c += kThreads) f(base_ + c);
  }

  static dim3 grid(const VectorLayout& layout) { return static_cast<unsigned>(layout.rows); }
  static dim3 block() { return kThreads; }

 private:
  Index base_;
  Index cols_;
};

class ColumnGroup {
 public:
  static constexpr int kLanes = 32;
  static constexpr int kWarps = 16;
  __device__ explicit ColumnGroup(const VectorLayout& layout)
      : column_(static_cast<Index>(blockIdx.x) * kLanes + threadIdx.x),
        rows_(layout.rows),
        cols_(layout.cols) {}

  __device__ bool exists() const { return column_ < cols_; }
  __device__ bool leads() const { return threadIdx.y == 0 && exists(); }
  __device__ Index vector() const { return column_; }
  template <class F>
  __device__ double sum(F&& term) const {
    double sum = 0;
    each([&](Index i) { sum += static_cast<double>(term(i)); });
    return column_sum(sum);
  }
  template <class F>
  __device__ void each(F&& f) const {
    if (!exists()) return;
    for (Index r = threadIdx.y; r < rows_; r += kWarps) f(r * cols_ + column_);
  }

  static dim3 grid(const VectorLayout& layout) {
    return static_cast<unsigned>((layout.cols + kLanes - 1) / kLanes);
  }
  static dim3 block() { return {kLanes, kWarps, 1}; }

 private:
  /// Over the threads of one column, in order; given to all of them.
  __device__ static double column_sum(double value) {
    __shared__ double parts[kWarps][kLanes];
    __syncthreads();  // the last call's parts have been read
    parts[threadIdx.y][threadIdx.x] = value;
    __syncthreads();
    double sum = 0;
    for (int w = 0; w < kWarps; ++w) sum += parts[w][threadIdx.x];
    return sum;
  }

  Index column_;
  Index rows_;
  Index cols_;
};

/// f(Group type) with the group that fits the layout; Kind<Group> names it.
template <class Group>
struct Kind {
  using Type = Group;
};
template <class F>
void with_group(const VectorLayout& layout, F&& f) {
  if (layout.columns) {
    f(Kind<ColumnGroup>{});
  } else {
    f(Kind<RowGroup>{});
  }
}

}  // namespace norma::kernels
