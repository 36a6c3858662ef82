// A smooth bound on logits (Gemma 2).
#pragma once

#include "norma/autograd/var.h"

namespace norma {

struct SoftcapSpec {
  double cap = 30;  // 30 for final logits, 50 for attention in Gemma 2
};

/// y = cap·tanh(x / cap)
/// x (...) f32|f64, rows may be strided    y like x
/// saves  nothing: the rule reads x, since y in bf16 has rounded away what is left of 1 − (y/cap)²
/// grads  dx = dy·(1 − tanh²(x / cap))
Var softcap(Var x, SoftcapSpec spec = {});

}  // namespace norma
