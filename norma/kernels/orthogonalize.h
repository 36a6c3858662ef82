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
void copy_elements(Who, const T* from, Index count, T* to) {
  std::copy(from, from + count, to);
}

/// A matrix and what its iteration needs beside it.
template <class T>
struct NewtonSchulz {
  T* x;
  Index rows;
  Index cols;
  T* square;      // (side, side), side = min(rows, cols)
  T* polynomial;  // (side, side)
  T* next;        // (rows, cols)
};

/// One iteration for every quintic; gives where the result lies: x or next.
template <class Who, class T>
T* iterate(Who who, const NewtonSchulz<T>& a, const Quintic* quintics, Index steps) {
  const bool tall = a.rows > a.cols;
  const Index side = tall ? a.cols : a.rows;
  T* x = a.x;
  T* next = a.next;
  for (Index step = 0; step < steps; ++step) {
    const Quintic& q = quintics[step];
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
                .c = a.square,
                .ldc = side});
    // b·A + c·A²
    run(who,
        Gemm<T>{.m = side,
                .n = side,
                .k = side,
                .a = a.square,
                .lda = side,
                .b = a.square,
                .ldb = side,
                .c = a.polynomial,
                .ldc = side,
                .alpha = q.c,
                .beta = q.b,
                .addend = a.square,
                .ld_addend = side});
    // a·X + polynomial·X, or X·polynomial
    run(who,
        Gemm<T>{.m = a.rows,
                .n = a.cols,
                .k = side,
                .a = tall ? x : a.polynomial,
                .lda = side,
                .b = tall ? a.polynomial : x,
                .ldb = a.cols,
                .c = next,
                .ldc = a.cols,
                .alpha = 1,
                .beta = q.a,
                .addend = x,
                .ld_addend = a.cols});
    std::swap(x, next);
  }
  return x;
}

/// factor = 1 / (safety·|x| + floor)
template <class Who, class T>
void find_inverse_norm(Who who, const Orthogonalize<T>& a) {
  squares_then(who,
               static_cast<const T*>(a.x),
               a.rows * a.cols,
               a.partials,
               InverseNorm{.safety = a.safety, .floor = a.floor, .factor = a.factor});
}

template <class Who, class T>
void orthogonalize(Who who, const Orthogonalize<T>& a) {
  const Index count = a.rows * a.cols;
  const Index side = std::min(a.rows, a.cols);
  find_inverse_norm(who, a);
  run(who, ScaleBy<T>{a.x, count, a.factor});
  const T* result = iterate(who,
                            NewtonSchulz<T>{.x = a.x,
                                            .rows = a.rows,
                                            .cols = a.cols,
                                            .square = a.scratch,
                                            .polynomial = a.scratch + side * side,
                                            .next = a.scratch + 2 * side * side},
                            a.quintics.data(),
                            a.steps);
  if (result != a.x) copy_elements(who, result, count, a.x);
}

/// x /= |x|, in double; norm = |x|.
template <class Who, class T>
void normalize_in_place(Who, T* x, Index count, double* norm) {
  double squares = 0;
  for (Index i = 0; i < count; ++i)
    squares += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  *norm = std::sqrt(squares);
  if (*norm == 0) return;
  for (Index i = 0; i < count; ++i) x[i] = static_cast<T>(static_cast<double>(x[i]) / *norm);
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
  normalize_in_place(who, a.u, a.rows, a.sigma);
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
  normalize_in_place(who, a.v, a.cols, a.sigma);
}

}  // namespace norma::kernels
