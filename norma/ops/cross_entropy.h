// Cross-entropy over scaled logits, with everything that rides on it.
#pragma once

#include "norma/autograd/var.h"

namespace norma {

struct CrossEntropySpec {
  double smoothing = 0;      // ε: t = (1 − ε)·target + ε/V
  double softcap = 0;        // C: z = C·tanh(z0/C); 0: none
  double z_loss = 0;         // ζ·lse²
  double tokens = 0;         // what the sum is divided by; 0: the tokens that are not ignored
  double scale_mult = 1;     // s_z = scale_mult · stored scale (s_init / s_scale)
  double precondition = 0;   // q > 0: Logit Gradient Preconditioning, see below
  bool count_right = false;  // say which targets rank first; they must be ids
};

struct CrossEntropyResult {
  Var loss;          // (1)
  Var token_losses;  // (N), no gradient, not divided; 0 where ignored
  Var right;         // (N) i32, 1 where the target has the largest z (of equal ones the lowest id),
                     // else 0; absent unless asked for
};

/// z0 = s_z·u,  z = C·tanh(z0/C) or z0,  lse = log Σ exp z
/// loss = Σ_tokens (lse·Σt − Σ t·z + ζ·lse²) / tokens        (Σt = 1 for proper targets)
/// logits u (..., V) f32|f64|bf16    targets i32 (N), −1 ignores a token; or soft targets like u
/// scale (V), or absent: 1           loss and token_losses like u, f32 beside bf16
/// A target outside [−1, V) is refused; on the GPU, where the host does not look, it makes the loss
/// NaN. So does the mean over tokens that are all ignored.
/// sums   over tokens in f64, in an order fixed by N
/// saves  du and dscale, computed here while the logits are at hand. The logits are overwritten by
///        du where nothing else reads them, so there is never a second tensor of their size; they
///        cannot be read afterwards.
/// grads  du, dscale. With precondition q, du is (s_z/mean(s_z))^q·dz0 instead of s_z·dz0: no
///        longer the gradient of the loss, so it must not be checked against one.
CrossEntropyResult cross_entropy(Var logits,
                                 Var targets,
                                 Var scale = {},
                                 CrossEntropySpec spec = {});

}  // namespace norma
