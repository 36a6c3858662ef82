// Weight normalization: a matrix written as directions times lengths, or as unit vectors alone.
#pragma once

#include <cstdint>

#include "norma/autograd/var.h"

namespace norma {

/// Which vectors of a matrix W (out, in) are normalized.
enum class WeightAxis : std::uint8_t {
  rows,    // one per output: WN; q, k, v, up and gate projections of nGPT
  columns  // one per input: W_o and W_2 of nGPT, whose columns live in the model width
};

struct WeightNormSpec {
  WeightAxis axis = WeightAxis::rows;
};

/// W_k = g_k·v_k/|v_k|, k over the rows (or columns) of v
/// v (R, C) f32|f64, rows may be strided    g (R), or (C) for columns; absent: 1, unit vectors
/// W like v. There is no eps: a vector of zeros has W = 0, dv = 0 and dg = 0.
/// saves  |v| (R) or (C)
/// sums   along rows in the element type, along columns in f64
/// grads  dg = ⟨dW, v/|v|⟩,  dv = g/|v|·(dW − v̂·⟨v̂, dW⟩)
Var weight_norm(Var v, Var g, WeightNormSpec spec = {});

}  // namespace norma
