// Clipping of gradients, by the global norm, tensor by tensor or row by row.
#pragma once

#include "norma/kernels/sum_work.h"
#include "norma/nn/param_store.h"
#include "norma/optim/optim_spec.h"
#include "norma/tensor/buffer.h"

namespace norma {

/// On a GPU the host waits for the number.
class GlobalNorm {
 public:
  explicit GlobalNorm(const ParamStore& params);
  /// |g| over all parameters; the same bits for any thread count.
  double operator()(const ParamStore& params) const { return of(params.grads()); }
  /// The same for the values: a flat buffer of the same store.
  double of(const Tensor& flat) const;

 private:
  Buffer partials_;
  OwnedTensor norm_;
};

/// min(1, max_norm / (norm + 1e-6)); 1 when max_norm is 0 (no clipping).
double clip_factor(double norm, double max_norm);

struct ClipResult {
  double norm = 0;        // |g| over all parameters before clipping
  double grad_scale = 1;  // for the step of the optimizer
  Index clipped = 0;      // global: 1 or 0; per_tensor: tensors; agc: rows

  ClipResult() = default;
  explicit ClipResult(const kernels::ClipState& found);
};

/// Clips as OptimSpec::clip and clip_bound say:
///   global      the gradients stay as they are, grad_scale is the factor;
///   per_tensor  every gradient g is multiplied by min(1, bound / (|g| + 1e-6)), in place;
///   agc         every row of a matrix, and every tensor of one dimension, is shortened in place to
///               bound·max(|w|, 1e-3).
/// A bound of 0 clips nothing. Frozen parameters have no gradient. Allocates nothing.
class Clipper {
 public:
  Clipper(const ParamStore& params, const OptimSpec& spec);
  /// Clips; what was found lies beside the gradients, so that a GPU is not waited for.
  void clip(const ParamStore& params) const;
  /// The factor for Optimizer::apply, where the gradients are.
  const double* grad_scale() const;
  /// What the last clip() found, where the gradients are; result() is the host's, who waits for it.
  const kernels::ClipState* found() const;
  ClipResult result() const;
  /// Both.
  ClipResult operator()(const ParamStore& params) const;

 private:
  kernels::ClipState* state() const;
  void clip_tensor(const ParamStore& params, const Param& param) const;
  void clip_rows(const ParamStore& params, const Param& param) const;

  ClipMode mode_;
  double bound_;
  Buffer flags_;     // which rows of a tensor were clipped
  Buffer partials_;  // of all gradients
  Buffer state_;     // a ClipState
};

}  // namespace norma
