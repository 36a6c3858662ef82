// Gated activations of the feed-forward layer: SwiGLU and GEGLU, with nGPT's learned scales.
#pragma once

#include <string_view>

#include "norma/autograd/var.h"
#include "norma/kernels/activation_kind.h"

namespace norma {

struct GatedSpec {
  Activation act = Activation::silu;  // silu (op "swiglu") or gelu_tanh (op "geglu")
  double u_mult = 1;                  // s_u is u_mult times what is stored
  double v_mult = 1;                  // s_v is v_mult times what is stored
  double gate_scale = 1;              // constant factor of the gate; √d in nGPT
};

/// "swiglu" or "geglu"; throws RequestError for an activation that is no gate.
std::string_view gated_name(Activation act);

/// y = (s_u·u) · act(gate_scale·s_v·g)
/// u, g (..., F) f32|f64, usually column halves of one tensor    s_u, s_v (F), or absent: 1
/// y like u
/// saves  nothing: the rule reads u and g and computes the rest again
/// grads  du, dg, ds_u, ds_v (of the stored vectors)
Var gated(Var u, Var g, Var s_u, Var s_v, GatedSpec spec = {});

}  // namespace norma
