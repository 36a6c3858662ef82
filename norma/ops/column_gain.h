// Learned factors of columns: layer scale, head gains (NormFormer), s_u and s_z of nGPT, and one
// factor for everything (DyT's embedding scalar).
#pragma once

#include "norma/autograd/var.h"

namespace norma {

struct ColumnGainSpec {
  double mult = 1;   // the factor is mult times what is stored
  Index groups = 0;  // 0: a gain per column; H: a gain per block of C / H neighbouring columns
};

/// y = x · (mult·gain)
/// x (..., C) f32|f64, rows may be strided    gain (C), or (groups)    y like x
/// saves  nothing: the rule reads x if dgain is wanted, and gain if dx is
/// sums   over fixed chunks of rows, in the element type; for a shared gain in double
/// grads  dx, dgain (of the stored vector)
Var column_gain(Var x, Var gain, ColumnGainSpec spec = {});

/// The same with one gain (1) for all columns.
inline Var scalar_gain(Var x, Var gain, double mult = 1) {
  return column_gain(x, gain, {.mult = mult, .groups = 1});
}

}  // namespace norma
