// Token embedding, with learned positions if given.
#pragma once

#include "norma/autograd/var.h"

namespace norma {

struct EmbeddingSpec {
  double scale = 1;          // of the result; √d in Gemma
  Index first_position = 0;  // position of the first token of a sequence
};

/// y = scale·(table[id] + positions[first_position + t]),   t = index in the last dimension of ids
/// ids (..., T) i32 in [0, V)    table (V, C) f32|f64|bf16    positions (Tmax, C), or absent: 0
/// y (..., T, C) like table
/// An id outside [0, V) is refused; on the GPU, where the host does not look, its row of y is NaN
/// and it takes no part in dtable.
/// saves  nothing: the rule reads ids
/// sums   of a table row in token order (on the GPU in pieces fixed by the ids), of a position row
///        in batch order
/// grads  dtable (all rows: those of absent ids get zero), dpositions (likewise)
Var embedding(Var ids, Var table, Var positions, EmbeddingSpec spec = {});

}  // namespace norma
