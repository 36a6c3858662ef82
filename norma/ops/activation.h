// Activations: one op page, one function; the op's name on the tape is the kind's.
#pragma once

#include "norma/autograd/var.h"
#include "norma/kernels/activation_kind.h"

namespace norma {

/// gelu_erf   y = x·Φ(x) = x·(1 + erf(x/√2)) / 2
/// gelu_tanh  y = x·(1 + tanh(√(2/π)·(x + 0.044715·x³))) / 2
/// relu       y = max(x, 0)          slope 0 at 0; NaN stays NaN
/// relu2      y = max(x, 0)²
/// silu       y = x·σ(x)
/// x (...) f32|f64, rows may be strided    y like x
/// saves  nothing: the rule reads x
/// grads  dx
Var activation(Var x, Activation kind);

}  // namespace norma
