// Start values: fills tensors with random numbers, on no tape.
#pragma once

#include "norma/base/rng.h"
#include "norma/tensor/tensor.h"

namespace norma {

/// Uniform within ±bound where bound > 0, else normal, where cut > 0 within `cut` deviations.
struct DrawRule {
  double bound = 0;
  double deviation = 0;
  double cut = 0;
};

/// Each element of a contiguous tensor is a function of the key and its place.
void draw(const Tensor& to, const DrawRule& rule, RandomKey key);

}  // namespace norma
