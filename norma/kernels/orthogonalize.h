// Newton–Schulz and power iteration out of matrix products: written once, multiplied by whoever
// computes.
#pragma once

#include <algorithm>
#include <cmath>

#include "norma/kernels/direction.h"
#include "norma/kernels/gemm.h"
#include "norma/kernels/sum_work.h"

namespace norma::kernels {

template <class Who, class T>
void orthogonalize(Who who, const Orthogonalize<T>& a) {
  const Index count = a.rows * a.cols;
  const bool tall = a.rows > a.cols;
  const Index side = tall ? a.cols : a.rows;
  T* square = a.scratch;
  T* polynomial = square + side * side;
  T* next = polynomial + side * side;
  T* x = a.x;
  squares_then(who,
               static_cast<const T*>(x),
               count,
               a.partials,
               InverseNorm{.safety = a.safety, .floor = a.floor, .factor = a.factor});
  run(who, ScaleBy<T>{x, count, a.factor});
  for (Index step = 0; step < a.steps; ++step) {
    const Quintic& q = a.quintics[static_cast<std::size_t>(step)];
    // A = X·Xᵀ, or Xᵀ·X for a tall matrix: the smaller of the two.
    run(who,
        Gemm<T>{.trans_a = tall,
                .trans_b = !tall,
                .m = side,
                .n = side,
                .k = tall ? a.rows : a.cols,
                .a = x,
                .lda = a.cols,
                .b = x,
                .ldb = a.cols,
                .c = square,
                .ldc = side});
    // b·A + c·A²
    std::copy(square, square + side * side, polynomial);
    run(who,
        Gemm<T>{.m = side,
                .n = side,
                .k = side,
                .a = square,
                .lda = side,
                .b = square,
                .ldb = side,
                .c = polynomial,
                .ldc = side,
                .alpha = q.c,
                .beta = q.b});
    // a·X + polynomial·X, or X·polynomial
    std::copy(x, x + count, next);
    run(who,
        Gemm<T>{.m = a.rows,
                .n = a.cols,
                .k = side,
                .a = tall ? x : polynomial,
                .lda = side,
                .b = tall ? polynomial : x,
                .ldb = a.cols,
                .c = next,
                .ldc = a.cols,
                .alpha = 1,
                .beta = q.a});
    std::swap(x, next);
  }
  if (x != a.x) std::copy(x, x + count, a.x);
}

/// x /= |x|, in double; gives |x|.
template <class T>
double normalize_in_place(T* x, Index count) {
  double squares = 0;
  for (Index i = 0; i < count; ++i)
    squares += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  const double norm = std::sqrt(squares);
  if (norm == 0) return 0;
  for (Index i = 0; i < count; ++i) x[i] = static_cast<T>(static_cast<double>(x[i]) / norm);
  return norm;
}

template <class Who, class T>
void power_iteration(Who who, const PowerIteration<T>& a) {
  // As matrices of one row, so that columns stay contiguous: uᵀ = vᵀ·Wᵀ, vᵀ = uᵀ·W.
  run(who,
      Gemm<T>{.trans_b = true,
              .m = 1,
              .n = a.rows,
              .k = a.cols,
              .a = a.v,
              .lda = a.cols,
              .b = a.w,
              .ldb = a.cols,
              .c = a.u,
              .ldc = a.rows});
  normalize_in_place(a.u, a.rows);
  run(who,
      Gemm<T>{.m = 1,
              .n = a.cols,
              .k = a.rows,
              .a = a.u,
              .lda = a.rows,
              .b = a.w,
              .ldb = a.cols,
              .c = a.v,
              .ldc = a.cols});
  *a.sigma = normalize_in_place(a.v, a.cols);
}

}  // namespace norma::kernels
