// The feed-forward sublayer, plain or gated.
#pragma once

#include <functional>

#include "norma/models/build.h"
#include "norma/nn/linear_layer.h"
#include "norma/ops/gated.h"

namespace norma {

class FfnLayer {
 public:
  FfnLayer(const Build& build, const BlockRule& rule, const std::string& prefix);
  FfnLayer(const FfnLayer&) = delete;
  FfnLayer& operator=(const FfnLayer&) = delete;

  /// x (B, T, d), normalized already -> the branch (B, T, d), before its mid norm; added to `onto`
  /// where it is given, which takes a layer that may_add.
  Var apply(Tape& tape, Var x, const Pass& pass, Var onto = {}) const;
  /// Whether the branch is what the last product makes, so that this may add it to the stream.
  bool may_add() const { return last_factor() == 1 && !down_.has_bias(); }

  void allocate(DType dtype, Device device);
  void each_norm(const std::function<void(NormLayer&)>& visit) { visit(inner_); }

 private:
  /// A learned factor of u or of the gate.
  struct Factor {
    std::size_t handle = kNoParam;
    double mult = 1;
    bool vector = false;
    bool scalar() const { return handle != kNoParam && !vector; }
  };
  Factor declare(const Build& build,
                 const std::string& name,
                 GainKind kind,
                 const Formula& init,
                 const Formula& stored);
  /// A factor of a gated layer for each column, absent where there is none.
  Var columns_of(Tape& tape, const Factor& factor) const;
  Var gated_activation(Tape& tape, Var x) const;
  GatedSpec gated_spec() const;
  Var plain_activation(Tape& tape, Var x) const;
  /// Whether one op does it all: two products without biases and nothing but an activation between.
  bool in_one() const;
  /// Of what the activation makes, before a norm.
  double inner_factor() const;
  /// Of what the last product makes.
  double last_factor() const { return inner_ ? down_scale_ : down_scale_ * inner_factor(); }

  ParamStore& params_;
  FfnKind kind_;
  Index inner_width_;
  LinearLayer up_, down_;
  NormLayer inner_;
  Factor s_u_, s_v_;
  double up_scale_, gate_scale_, inner_scale_, down_scale_;
  OwnedTensor one_;
  OwnedTensor ones_;  // for each inner column, where a factor is one number
};

}  // namespace norma
