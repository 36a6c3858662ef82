// BatchNorm for sequences, with four choices of what is averaged.
#pragma once

#include "norma/autograd/var.h"
#include "norma/kernels/batch_norm.h"

namespace norma {

using kernels::BatchStatistics;

struct BatchNormSpec {
  BatchStatistics statistics = BatchStatistics::all;
  bool training = true;   // false: the running statistics normalize
  double momentum = 0.1;  // running ← (1 − momentum)·running + momentum·batch
  double eps = 1e-5;
};

/// Mean and variance over time, one per channel. The caller owns them and gives them the tensor's
/// type, f32 beside bf16: (C), or (T, C) for statistics by position. Start with mean 0 and
/// variance 1.
struct BatchNormRunning {
  Tensor mean;
  Tensor var;
};

/// y = x̂·gain + bias,   x̂ = (x − μ_S)·(σ²_S + eps)^(-1/2), per channel over a set S of (b, t):
///   all       every valid (b, t); a causal model sees its future
///   position  all b at the same t
///   prefix    all b at positions up to t: causal
///   running   no set: μ and σ² are the running statistics
/// x (B, T, C) f32|f64|bf16, rows may be strided    gain, bias (C), or absent    y like x
/// lengths (B) i32, or absent: positions t ≥ lengths[b] are padding; they count in no set, their
///   y and dx are 0. The host looks at them where it can: on the GPU a length outside [0, T] counts
///   as the nearest one inside
/// running  needed by `running` and outside training. In training they are updated with the
///   moments of the batch (unbiased variance; over all valid positions, or by position), after use
///   and only while the tape records: a block that is recomputed updates them once.
/// saves  μ in two parts and 1/σ, (C) or (T, C) each       sums  along columns in f64
/// grads  dx (through μ and σ² as well, unless they are running), dgain, dbias
Var batch_norm(
    Var x, Var gain, Var bias, Var lengths, BatchNormRunning running, BatchNormSpec spec = {});

}  // namespace norma
