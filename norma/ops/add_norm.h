// Residual addition with the norm that reads it, the norm of what is added, or both, in one pass
// over the row.
#pragma once

#include <cstdint>

#include "norma/autograd/var.h"

namespace norma {

enum class AddNormKind : std::uint8_t { rms, layer };

struct AddNormSpec {
  AddNormKind norm = AddNormKind::rms;
  double scale = 1;        // of the residual stream: DeepNorm's constant
  double gain_offset = 0;  // 1 for RMS1, whose gain starts at 0
  double eps = 1e-6;       // LayerNorm is usually given 1e-5
};

struct AddNormResult {
  Var sum;     // the new residual stream
  Var normed;  // its norm
};

/// sum = scale·x + b,   normed = rms_norm(sum, gain) + bias   or   layer_norm(sum, gain, bias)
/// x, b (..., C) f32|f64, rows may be strided    sum, normed like x
/// gain (C), or absent: factor 1                 bias (C), or absent: 0
/// saves  rstd (rows), and the mean in two parts for layer    sums  as in rms_norm and layer_norm
/// grads  dx = scale·t, db = t, t = dsum + the norm's gradient; dgain, dbias
AddNormResult add_norm(Var x, Var b, Var gain, Var bias, AddNormSpec spec = {});

/// The RMS norm of the branch before it is added.
struct BranchNorm {
  Var gain;                // (C), or absent: factor 1
  double gain_offset = 0;  // as in AddNormSpec
  double eps = 1e-6;
};

/// y = x + rms_norm(b, branch.gain)
/// x, b (..., C) of one shape, f32|f64, rows may be strided    y like x
/// saves  the branch's rstd (rows)
/// grads  dx shares the memory of dy where possible; db and the gain's as in rms_norm
Var norm_add(Var x, Var b, BranchNorm branch);

/// add_norm(x, rms_norm(b, branch.gain), gain, bias)
/// saves  as add_norm, and the branch's rstd (rows)
/// grads  dx = scale·t; db and that of branch.gain from t as in rms_norm; dgain, dbias
AddNormResult norm_add_norm(
    Var x, Var b, BranchNorm branch, Var gain, Var bias, AddNormSpec spec = {});

}  // namespace norma
