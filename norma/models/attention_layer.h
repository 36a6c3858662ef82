// The attention sublayer: projections, norms of q, k, v, rotation, attention, projection back.
#pragma once

#include <functional>

#include "norma/models/build.h"
#include "norma/nn/linear_layer.h"
#include "norma/ops/attention.h"

namespace norma {

class AttentionLayer {
 public:
  AttentionLayer(const Build& build, const BlockRule& rule, Index layer, const std::string& prefix);
  AttentionLayer(const AttentionLayer&) = delete;
  AttentionLayer& operator=(const AttentionLayer&) = delete;

  /// x (B, T, d), normalized already -> the branch (B, T, d), before its mid norm; added to `onto`
  /// where it is given, which takes a layer that may_add.
  Var apply(Tape& tape, Var x, const RopeTable* rope, const Pass& pass, Var onto = {}) const;
  /// Whether the branch is what the last product makes, so that this may add it to the stream.
  bool may_add() const { return last_factor() == 1 && !out_.has_bias(); }

  void allocate(DType dtype, Device device);
  void each_norm(const std::function<void(NormLayer&)>& visit);

 private:
  /// Of what the last product makes.
  double last_factor() const { return inner_ ? out_scale_ : out_scale_ * value_scale_; }

  ParamStore& params_;
  Index layer_;
  AttentionSpec spec_;
  NormLayer::RopeUse rope_use_;
  NormLayer q_, k_, v_, inner_;
  bool q_gain_twice_ = false;
  LinearLayer qkv_, out_;
  std::size_t temperature_ = kNoParam;
  std::size_t log_scale_ = kNoParam;
  std::size_t head_gain_ = kNoParam;
  double value_scale_;
  double out_scale_;
  OwnedTensor one_;
};

}  // namespace norma
