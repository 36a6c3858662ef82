// A smooth bound on logits (Gemma 2).
#pragma once

#include "norma/autograd/var.h"

namespace norma {

struct SoftcapSpec {
  double cap = 30;  // 30 for final logits, 50 for attention in Gemma 2
};

/// y = cap·tanh(x / cap)
/// x (...) f32|f64, rows may be strided    y like x
/// saves  nothing: the rule reads y
/// grads  dx = dy·(1 − (y/cap)²)
Var softcap(Var x, SoftcapSpec spec = {});

}  // namespace norma
