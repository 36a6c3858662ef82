// ScaleNorm: rows of one learned length.
#pragma once

#include "norma/autograd/var.h"

namespace norma {

struct ScaleNormSpec {
  double eps = 1e-12;  // inside the root, as in l2_norm
};

/// y = g·√C·x/n,   n = sqrt(Σ_C x² + eps)
/// x (..., C) f32|f64, rows may be strided    g (1), or absent: 1    y like x
/// A row of zeros has y = 0 and dx = 0, for any eps including 0.
/// saves  1/n (rows)                  sums  in the element type, order fixed by the width alone
/// grads  dx, dg; exact including eps (away from zero)
Var scale_norm(Var x, Var g, ScaleNormSpec spec = {});

}  // namespace norma
