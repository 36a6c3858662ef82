// The end of a norm's rule: its gradient, and the norm itself where somebody waits for it.
#pragma once

#include "norma/kernels/norm_again.h"
#include "norma/ops/dispatch.h"

namespace norma {

/// Runs the gradient, and beside it makes the norm again, if that is wanted and `who` can.
template <class Who, template <class> class Gradient, class T>
void run_norm_gradient(Backward& back, Who who, const Gradient<T>& gradient, Var bias = {}) {
  const Tensor y = back.wanted_again();
  if (y && kernels::run_fused(who,
                              kernels::NormAgain<Gradient, T>{
                                  gradient, elements<const Wide<T>>(bias), rows<T>(y)})) {
    return back.made_again();
  }
  kernels::run(who, gradient);
}

}  // namespace norma
