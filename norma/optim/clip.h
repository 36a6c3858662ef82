// The global norm of a gradient and the factor that clips it.
#pragma once

#include "norma/nn/param_store.h"
#include "norma/tensor/buffer.h"

namespace norma {

class GlobalNorm {
 public:
  explicit GlobalNorm(const ParamStore& params);
  /// |g| over all parameters; the same bits for any thread count.
  double operator()(const ParamStore& params) const;

 private:
  Buffer partials_;
};

/// min(1, max_norm / (norm + 1e-6)); 1 when max_norm is 0 (no clipping).
double clip_factor(double norm, double max_norm);

}  // namespace norma
