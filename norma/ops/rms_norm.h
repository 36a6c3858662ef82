// RMSNorm and its relatives: RMS, RMS1 (gain_offset 1), RMS0 (no gain), over rows or per head.
#pragma once

#include "norma/autograd/var.h"

namespace norma {

class Backward;

struct RmsNormSpec {
  double eps = 1e-6;
  double gain_offset = 0;        // 1 for Gemma's RMS1, whose gain starts at 0
  Index group = 0;               // columns normalized together: 0 = the whole row, D = per head
  bool gain_per_column = false;  // per head with separate gains: gain is (C) instead of (group)
};

/// y = x·rstd·(gain_offset + gain),   rstd = (mean_group(x²) + eps)^(-1/2)
/// x (..., C) f32|f64, rows may be strided    gain (group) or (C), or absent: factor 1    y like x
/// saves  rstd (rows, C / group)      sums  in the element type, order fixed by the width alone
/// grads  dx, dgain; exact including eps
Var rms_norm(Var x, Var gain, RmsNormSpec spec = {});

/// Its rule, for ops with such a norm inside: the gradients of x and gain from dy and the saved
/// rstd.
void rms_norm_rule(
    Backward& back, Var x, Var gain, const Tensor& rstd, const Tensor& dy, const RmsNormSpec& spec);

}  // namespace norma
