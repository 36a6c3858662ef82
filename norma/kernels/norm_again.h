// The gradient of a norm of whole rows, and beside it the norm itself, made again with the bits it
// had: both read the same rows. Cuda in bf16 alone (run_fused).
#pragma once

#include "norma/kernels/add_norm.h"
#include "norma/kernels/layer_norm.h"
#include "norma/kernels/rms_norm.h"

namespace norma::kernels {

/// Gradient: of layer_norm, rms_norm or add_norm.
template <template <class> class Gradient, class T>
struct NormAgain {
  Gradient<T> gradient;
  const Wide<T>* bias;  // null: 0
  Rows<T> y;
};

template <template <class> class Gradient, class T>
bool run(Cuda, const NormAgain<Gradient, T>& a);

}  // namespace norma::kernels
