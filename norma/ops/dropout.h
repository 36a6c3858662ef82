// Dropout of elements and of whole samples (stochastic depth).
#pragma once

#include "norma/autograd/var.h"
#include "norma/base/rng.h"

namespace norma {

struct DropSpec {
  double rate = 0;     // probability of being dropped, in [0, 1)
  RandomKey key = {};  // who draws: different for every layer and site
  Tensor step = {};    // (1) i32 beside x, or absent: each of its numbers has masks of its own
                       // where streams are below 2²⁰. It is read when they are drawn, so that a
                       // graph draws new ones, and again by backward: until then it stays.
  bool training = true;    // false: nothing is dropped
  Index first_sample = 0;  // number of x's first sample in the batch that it is a part of
};

/// y = x / (1 − rate) where kept, 0 where dropped; each element on its own
/// x (...) f32|f64, rows may be strided    y like x, or x itself when nothing can be dropped
/// saves  nothing: the mask is a function of key, step, row in the batch and column, drawn again
/// grads  dx
Var dropout(Var x, DropSpec spec);

/// The same for whole samples: x (B, ...), one draw per index of the first dimension.
Var drop_path(Var x, DropSpec spec);

}  // namespace norma
