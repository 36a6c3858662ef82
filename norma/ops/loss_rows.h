// What cross_entropy and head_loss share: the checks, and the pass over rows of logits.
#pragma once

#include <string_view>

#include "norma/autograd/backward.h"
#include "norma/ops/cross_entropy.h"

namespace norma {

/// Refuses what no loss over logits of this shape and type can work with.
void require_loss(std::string_view op,
                  const Shape& logits,
                  DType dtype,
                  Var targets,
                  Var scale,
                  const CrossEntropySpec& spec);

/// The losses of all tokens, row by row, and what they add up to.
class LossPass {
 public:
  LossPass(std::string_view op,
           Var targets,
           Var scale,
           const Shape& logits,
           DType dtype,
           const CrossEntropySpec& spec,
           Tape& tape);

  /// The losses of the rows from `first` on, whose logits are u; du may be u or absent, dscale is
  /// set, or absent.
  void rows(const Tensor& u, Index first, const Tensor& du, const Tensor& dscale);
  /// Whether the losses of rows whose logits would be x·weightᵀ come with odds; a plan without a
  /// GPU is one for Hopper.
  bool has_odds(const Tensor& x, const Tensor& weight) const;
  /// The losses of such rows from `first` on, with what makes the gradients (kernels/head_odds.h);
  /// a scale is in the weight already.
  void odds(const Tensor& x,
            const Tensor& weight,
            Index first,
            const Tensor& odds,
            const Tensor& shared_x,
            const Tensor& shares);
  /// Adds the losses up.
  CrossEntropyResult finish();

 private:
  const std::int32_t* ids() const;  // null: soft targets

  std::string_view op_;
  Var targets_;
  Var scale_;
  DType dtype_;
  CrossEntropySpec spec_;
  CrossEntropyResult result_;
  Scratch losses_;
  Scratch tokens_;
  Scratch factors_;
};

/// The gradient of an input is that of the loss times what forward computed, times the share of its
/// row where there are shares.
void put_scaled(std::string_view op,
                Backward& b,
                Var input,
                const Tensor& from,
                Var loss,
                const Tensor& shares = {});

}  // namespace norma
