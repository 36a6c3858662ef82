// What happens to queries and keys between their projection and the attention logits, in one pass:
// a norm per head, a gain, and the rotary embedding, in either order.
#pragma once

#include "norma/autograd/var.h"
#include "norma/kernels/qk_rope.h"
#include "norma/ops/rope.h"

namespace norma {

using kernels::HeadNorm;

struct QkRopeSpec {
  HeadNorm norm = HeadNorm::l2;
  bool after_rope = true;       // norm and gain after the rotation (nGPT), else before (QK norm)
  bool gain_per_column = true;  // gain is (C), one per head and place; else (D), shared by heads
  double gain_offset = 0;       // 1 for a gain that starts at 0
  double gain_mult = 1;         // s_init / s_scale
  double l2_eps = 1e-12;
  double rms_eps = 1e-6;
  Index offset = 0;  // the position of the first row, for cached decoding
};

/// after_rope   y = s⊙N(R x)        before  y = R(s⊙N(x)),   s = gain_offset + gain_mult·gain
/// N per head v of width D:   none  v      l2  v / sqrt(|v|² + l2_eps), 0 for v = 0
///                            rms   v / sqrt(mean(v²) + rms_eps)
/// x (..., T, C) f32|f64, C = heads·D, rows may be strided    gain (C) or (D), or absent: s = 1
/// saves  one number per row and head      sums  in the element type, order fixed by D alone
/// grads  dx, dgain; exact including eps. A zero head under l2 has gradient 0.
/// R is the map of `table` (see rope.h), which may be the defective one.
Var qk_rope(Var x, Var gain, const RopeTable& table, QkRopeSpec spec = {});

}  // namespace norma
