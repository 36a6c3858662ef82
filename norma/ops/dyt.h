// DyT and Derf: a squashing function in the place of a norm. No statistics, nothing but elements.
#pragma once

#include "norma/autograd/var.h"

namespace norma {

/// y = gain·tanh(a·x) + bias
/// x (..., C) f32|f64, rows may be strided    a (1)    gain (C), or absent: 1
/// bias (C), or absent: 0                     y like x
/// saves  nothing: tanh is computed again     sums  in the element type, order fixed by the shape
/// grads  dx, da, dgain, dbias
Var dyt(Var x, Var a, Var gain, Var bias);

/// y = gain·erf(a·x + s) + bias
/// As dyt, with a learned shift s (1), or absent: 0.
/// grads  dx, da, ds, dgain, dbias
Var derf(Var x, Var a, Var s, Var gain, Var bias);

}  // namespace norma
