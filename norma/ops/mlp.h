// Two linear maps with an activation between them.
#pragma once

#include "norma/autograd/var.h"
#include "norma/kernels/activation_kind.h"

namespace norma {

/// y = act(x·upᵀ)·downᵀ, + onto where it is given
/// x (..., I) f32|f64|bf16    up (F, I)    down (O, F)    y, onto (..., O)
/// saves  x·upᵀ (..., F), and what act makes of it unless the tape makes cheap values again
/// grads  dx, dup, ddown; that of onto shares the memory of dy where possible
/// The same as linear(activation(linear(x, up), act), down, {}, onto). On a GPU in bf16 the
/// activation gelu_tanh is part of the first product, and on Hopper the gradient of every
/// activation of the second's.
Var mlp(Var x, Var up, Var down, Activation act, Var onto = {});

}  // namespace norma
