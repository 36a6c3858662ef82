// The product of two tensors, element by element.
#pragma once

#include "norma/autograd/var.h"

namespace norma {

/// y = a·b
/// a, b (...) of one shape, f32|f64, rows may be strided    y like a
/// saves  nothing: the rule reads a and b      a and b may be the same Var
/// grads  da, db
Var multiply(Var a, Var b);

}  // namespace norma
