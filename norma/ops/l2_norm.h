// L2 normalization of rows or heads: every vector gets length 1.
#pragma once

#include "norma/autograd/var.h"

namespace norma {

struct L2NormSpec {
  double eps = 1e-12;            // inside the root: acts on vectors shorter than about 1e-6
  double gain_scale = 1;         // s_init / s_scale of nGPT's s_qk
  Index group = 0;               // columns normalized together: 0 = the whole row, D = per head
  bool gain_per_column = false;  // per head with separate gains: gain is (C) instead of (group)
};

/// y = x/n·s,   n = sqrt(Σ_group x² + eps),   s = gain_scale·gain
/// x (..., C) f32|f64, rows may be strided    gain (group) or (C), or absent: 1    y like x
/// A vector of zeros has y = 0 and dx = 0, for any eps including 0.
/// saves  1/n (rows, C / group)       sums  in the element type, order fixed by the width alone
/// grads  dx, dgain; exact including eps (away from zero)
Var l2_norm(Var x, Var gain, L2NormSpec spec = {});

}  // namespace norma
