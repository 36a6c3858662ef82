// AdamW as PyTorch defines it: decoupled decay first, then the step; one pass over the parameters.
#pragma once

#include <vector>

#include "norma/nn/param_store.h"
#include "norma/tensor/buffer.h"

namespace norma {

struct AdamWSpec {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
};

class AdamW {
 public:
  /// Parameters that are frozen now are never touched.
  AdamW(const ParamStore& params, AdamWSpec spec);

  /// One step with the gradients times grad_scale (the clipping factor).
  void step(ParamStore& params, double lr, double grad_scale);

  std::size_t state_bytes() const { return first_.bytes() + second_.bytes(); }

 private:
  /// Neighbouring parameters with equal tags, stepped as one.
  struct Span {
    Index offset;
    Index count;
    ParamTags tags;
  };
  AdamWSpec spec_;
  std::vector<Span> spans_;
  Buffer first_;
  Buffer second_;
  Index t_ = 0;
};

}  // namespace norma
