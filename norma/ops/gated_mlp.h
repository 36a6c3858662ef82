// Two linear maps with a gated activation between them.
#pragma once

#include "norma/ops/gated.h"

namespace norma {

/// y = gated(u, g, s_u, s_v, spec)·downᵀ with [u, g] = x·upᵀ, + onto where it is given
/// x (..., I) f32|f64|bf16    up (2F, I), the rows of u first    down (O, F)    y, onto (..., O)
/// s_u, s_v (F), or absent: 1
/// saves  u and g (..., 2F), and what gated makes of them unless the tape makes cheap values again
/// grads  dx, dup, ddown, ds_u, ds_v (of the stored vectors); that of onto shares the memory of dy
///        where possible
/// The same as linear(gated(halves of linear(x, up), ...), down, {}, onto). On Hopper in bf16 gated
/// and its gradient are done on the tiles of the products.
Var gated_mlp(Var x, Var up, Var down, Var s_u, Var s_v, GatedSpec spec = {}, Var onto = {});

}  // namespace norma
