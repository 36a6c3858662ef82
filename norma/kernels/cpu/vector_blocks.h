// A few vectors of a matrix worked off together by one thread: one row, whose elements fill the
// SIMD lanes, or up to 64 neighbouring columns, one per lane. An algorithm on vectors is written
// once in terms of sum and each, and serves both.
#pragma once

#include <algorithm>
#include <cmath>

#include "norma/kernels/parallel.h"
#include "norma/kernels/row_sum.h"
#include "norma/kernels/vectors.h"

namespace norma::kernels {

class RowBlock {
 public:
  static constexpr Index kMost = 1;
  RowBlock(const VectorLayout& layout, Index row)
      : base_(row * layout.cols), length_(layout.cols), row_(row) {}

  Index count() const { return 1; }
  Index vector(Index) const { return row_; }
  /// sums[k] = Σ term(i, k) over the elements i of vector k.
  template <class F>
  void sum(double* sums, F&& term) const {
    const Index base = base_;
    sums[0] = static_cast<double>(row_sum(length_, [&](Index c) { return term(base + c, 0); }));
  }
  /// f(i, k) for every element.
  template <class F>
  void each(F&& f) const {
    const Index base = base_;
#pragma omp simd
    for (Index c = 0; c < length_; ++c) f(base + c, 0);
  }

 private:
  Index base_;
  Index length_;
  Index row_;
};

class ColumnBlock {
 public:
  static constexpr Index kMost = 64;
  ColumnBlock(const VectorLayout& layout, Index block)
      : first_(block * kMost),
        count_(std::min(kMost, layout.cols - first_)),
        rows_(layout.rows),
        cols_(layout.cols) {}

  Index count() const { return count_; }
  Index vector(Index k) const { return first_ + k; }
  /// In double: one lane takes a whole column, with no other lanes to spread rounding errors over.
  template <class F>
  void sum(double* sums, F&& term) const {
    std::fill(sums, sums + kMost, 0.0);
    for (Index r = 0; r < rows_; ++r) {
      const Index base = r * cols_ + first_;
#pragma omp simd
      for (Index k = 0; k < count_; ++k) sums[k] += static_cast<double>(term(base + k, k));
    }
  }
  template <class F>
  void each(F&& f) const {
    for (Index r = 0; r < rows_; ++r) {
      const Index base = r * cols_ + first_;
#pragma omp simd
      for (Index k = 0; k < count_; ++k) f(base + k, k);
    }
  }

 private:
  Index first_;
  Index count_;
  Index rows_;
  Index cols_;
};

/// f(block) for all vectors, blocks spread over threads; no sum crosses a block.
template <class F>
void for_each_block(const VectorLayout& layout, F&& f) {
  if (layout.columns) {
    const Index blocks = (layout.cols + ColumnBlock::kMost - 1) / ColumnBlock::kMost;
    for_each_row(blocks, layout.rows * ColumnBlock::kMost, [&](Index block) {
      f(ColumnBlock(layout, block));
    });
  } else {
    for_each_row(layout.rows, layout.cols, [&](Index row) { f(RowBlock(layout, row)); });
  }
}

/// What makes a vector of this squared length kept: 1 for vectors that stay as they are.
inline float keeping_factor(double squares, bool only_long) {
  if (squares == 0 || (only_long && squares <= 1)) return 1.0f;
  return static_cast<float>(1 / std::sqrt(squares));
}

/// w_k *= the factor of column k, from the sums of squares of all chunks; one pass over w.
void scale_columns(float* w, Index rows, Index cols, Keep keep, float* partials);

}  // namespace norma::kernels
