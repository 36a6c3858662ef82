// Ops on sequences of tokens (B, T, C): a class token, positions, and one vector per sequence.
#pragma once

#include "norma/autograd/var.h"

namespace norma {

/// y (B, T + 1, C): token (C) first, then the tokens of x (B, T, C)
/// saves  nothing      grads  dx, dtoken (summed over the batch in a fixed order)
Var prepend_token(Var x, Var token);

/// y = x + positions,   x (B, T, C), positions (T, C)
/// saves  nothing      grads  dx (shares the memory of dy where possible), dpositions (summed over
/// the batch in order)
Var add_positions(Var x, Var positions);

struct MeanPoolSpec {
  Index first = 0;  // tokens before this one do not count; 1 skips a class token
};
/// y (B, C) = mean over tokens first .. T − 1 of x (B, T, C)
/// saves  nothing      sums  in token order in the element type (GPU: f64, f32 beside bf16)
/// grads  dx
Var mean_pool(Var x, MeanPoolSpec spec = {});

/// y (B, C) = token `index` of every sequence of x (B, T, C); negative counts from the end
/// saves  nothing      grads  dx (zero for the other tokens)
Var select_token(Var x, Index index);

}  // namespace norma
