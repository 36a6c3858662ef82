// LayerNorm over rows or per head, with or without gain and bias.
#pragma once

#include "norma/autograd/var.h"

namespace norma {

struct LayerNormSpec {
  double eps = 1e-5;
  double gain_offset = 0;        // 1: the gain is learned as a difference from 1
  Index group = 0;               // columns normalized together: 0 = the whole row, D = per head
  bool gain_per_column = false;  // per head with separate gains and biases: (C) instead of (group)
};

/// y = x̂·(gain_offset + gain) + bias,   x̂ = (x − μ)·rstd,   μ = mean_group(x),
///                                      rstd = (mean_group((x − μ)²) + eps)^(-1/2)
/// x (..., C) f32|f64, rows may be strided    y like x
/// gain (group) or (C), or absent: factor 1   bias (group) or (C), or absent: 0; each on its own
/// saves  μ in two parts and rstd, (rows, C / group) each
/// sums   in the element type, order fixed by the width alone
/// grads  dx, dgain, dbias; exact including eps
Var layer_norm(Var x, Var gain, Var bias, LayerNormSpec spec = {});

}  // namespace norma
