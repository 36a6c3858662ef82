// The three products of a linear map y = x·Wᵀ with W (out, in), as ops hand them to kernels.
#pragma once

#include "norma/base/bf16.h"
#include "norma/base/into.h"
#include "norma/kernels/gemm.h"
#include "norma/kernels/rows.h"
#include "norma/ops/dispatch.h"

namespace norma {

inline double beta_of(Into into) { return into == Into::add ? 1 : 0; }

/// y = x·Wᵀ, + onto where it is given
template <class T>
kernels::Gemm<T> linear_product(kernels::Rows<const T> x,
                                const T* weight,
                                kernels::Rows<T> y,
                                kernels::Rows<const T> onto = {}) {
  return {.trans_b = true,
          .m = x.rows,
          .n = y.cols,
          .k = x.cols,
          .a = x.data,
          .lda = x.stride,
          .b = weight,
          .ldb = x.cols,
          .c = y.data,
          .ldc = y.stride,
          .beta = onto ? 1.0 : 0.0,
          .addend = onto.data,
          .ld_addend = onto.stride};
}

/// dx = or += dy·W
template <class T>
kernels::Gemm<T> input_gradient(kernels::Rows<const T> dy,
                                const T* weight,
                                kernels::Rows<T> dx,
                                Into into = Into::set) {
  return {.m = dy.rows,
          .n = dx.cols,
          .k = dy.cols,
          .a = dy.data,
          .lda = dy.stride,
          .b = weight,
          .ldb = dx.cols,
          .c = dx.data,
          .ldc = dx.stride,
          .beta = beta_of(into)};
}

/// dW = or += dyᵀ·x, summed over rows
template <class T>
kernels::Gemm<T, Wide<T>> weight_gradient(kernels::Rows<const T> dy,
                                          kernels::Rows<const T> x,
                                          Wide<T>* dweight,
                                          Into into) {
  return {.trans_a = true,
          .m = dy.cols,
          .n = x.cols,
          .k = dy.rows,
          .a = dy.data,
          .lda = dy.stride,
          .b = x.data,
          .ldb = x.stride,
          .c = dweight,
          .ldc = x.cols,
          .beta = beta_of(into)};
}

/// The part of a rule that puts dW = dyᵀ·x where it is wanted (Backward::rest).
inline auto put_weight_gradient(std::string_view op, Tensor dy, Var x, Var weight) {
  return [=](Backward& b) {
    const WantedRows dw = wanted(b, weight);
    dispatch(op, dy, [&](auto who, auto zero) {
      using T = decltype(zero);
      kernels::run(who,
                   weight_gradient<T>(
                       rows<const T>(dy), rows<const T>(x), dw.template data<Wide<T>>(), dw.into));
    });
  };
}

/// What is left of the gradient of y = f(x·upᵀ)·downᵀ once z = f(x·upᵀ) and dh, the gradient of
/// x·upᵀ, are there, but for that of `up`. What is not wanted is left out.
template <class T, class Who>
void two_map_gradients(Who who,
                       kernels::Rows<const T> dy,
                       kernels::Rows<const T> z,
                       kernels::Rows<const T> dh,
                       Var up,
                       const WantedRows& dx,
                       const WantedRows& ddown) {
  if (ddown) {
    kernels::run(who, weight_gradient<T>(dy, z, ddown.data<Wide<T>>(), ddown.into));
  }
  if (dx) {
    kernels::run(who, input_gradient<T>(dh, elements<const T>(up), dx.rows<T>(), dx.into));
  }
}

}  // namespace norma
