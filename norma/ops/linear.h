// The linear map.
#pragma once

#include "norma/autograd/var.h"

namespace norma {

/// y = x·Wᵀ + bias, or x·Wᵀ + onto: a branch that is added to the residual stream
/// x (..., I) f32|f64, rows may be strided    weight (O, I), one row per output unit
/// bias (O) or absent                         y, onto (..., O); not both: a small bias would be
///                                            lost when it is added to the stream's rounded sum
/// saves  nothing but x and weight            sums  inside the matrix product
/// grads  dx = dy·W    dW = dyᵀ·x    dbias = sum over rows of dy    that of onto shares the memory
///        of dy where possible
/// Several matrices that read the same x (q, k, v; gate, up) are one product when their parameters
/// lie side by side: see ParamStore::fused. Each keeps its own name, tags and rows.
Var linear(Var x, Var weight, Var bias = {}, Var onto = {});

}  // namespace norma
