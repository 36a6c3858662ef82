// How a branch b joins the residual stream x: the rules that do not normalize. (Those that end on
// the sphere have pages of their own.)
#pragma once

#include "norma/autograd/var.h"

namespace norma {

struct ResidualSpec {
  double scale = 1;  // DeepNorm's constant a
};

/// y = scale·x + b
/// x, b (..., C) of one shape, f32|f64, rows may be strided    y like x
/// saves  nothing
/// grads  dx, db; db, and dx for scale 1, share the memory of dy where possible
Var residual_add(Var x, Var b, ResidualSpec spec = {});

/// y = lambda·x + b, lambda (C)
/// saves  nothing: the rule reads x and lambda
/// grads  dx, db (shares the memory of dy where possible), dlambda
Var residual_rscale(Var x, Var b, Var lambda);

struct AlerpSpec {
  double mult = 1;  // α = |mult·alpha_raw|
};

/// y = ν·(x + α·(b − x)),   α = |mult·alpha_raw|,   ν = (α² + (1−α)²)^(−1/2)
/// x, b (..., C) of one shape, f32|f64, rows may be strided    alpha_raw (C) or (1)    y like x
/// saves  nothing: the rule reads x, b and alpha_raw
/// grads  dx, db, dalpha_raw (through ν as well; at alpha_raw = 0 the slope of |·| counts as +1)
Var alerp(Var x, Var b, Var alpha_raw, AlerpSpec spec = {});

}  // namespace norma
