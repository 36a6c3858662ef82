// The last product of a classifier and its cross-entropy, a few rows at a time.
#pragma once

#include "norma/ops/cross_entropy.h"

namespace norma {

struct HeadLossSpec {
  CrossEntropySpec loss;
  Index rows = 0;  // taken at a time; 0: at most two GiB of logits
};

/// cross_entropy(linear(x, weight), targets, scale, loss), whose logits never exist all at once.
/// x (..., I) f32|f64|bf16    weight (V, I)    targets i32 (N), -1 ignores a token
/// scale (V), or absent: 1
/// saves  dx, dweight and dscale for a loss whose gradient is 1: they are computed here, while the
///        logits of some rows are at hand, at the cost of a second tensor like weight.
/// grads  dx, dweight, dscale
CrossEntropyResult head_loss(Var x, Var weight, Var targets, Var scale, HeadLossSpec spec = {});

}  // namespace norma
