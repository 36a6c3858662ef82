// One Transformer block, assembled from the slots and rules of a scheme. It reads slots and never a
// scheme's name.
#pragma once

#include "norma/models/attention_layer.h"
#include "norma/models/ffn_layer.h"
#include "norma/models/residual_join.h"

namespace norma {

class Block {
 public:
  Block(const Build& build, Index layer);
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  /// Runs the block on a stream whose normalized form is there already. `next` is the norm that
  /// will read the stream afterwards; the stream comes back with its result.
  Stream run(
      Tape& tape, Stream at, const NormLayer& next, const RopeTable* rope, const Pass& pass) const;

  const NormLayer& first_norm() const { return attn_pre_; }
  const std::string& label() const { return label_; }
  void allocate(DType dtype, Device device);
  void each_norm(const std::function<void(NormLayer&)>& visit);

 private:
  /// The norm of the branch if the join is to do it: where nothing lies between the two.
  const NormLayer& left_to(const ResidualJoin& join,
                           const NormLayer& mid,
                           std::size_t layer_scale) const;
  Var finish(Tape& tape,
             Var branch,
             const NormLayer& mid,
             const ResidualJoin& join,
             std::size_t layer_scale,
             const Pass& pass,
             std::uint64_t sublayer) const;

  ParamStore& params_;
  std::string label_;
  Index layer_;
  double dropout_;
  double drop_path_;
  NormLayer attn_pre_;
  AttentionLayer attention_;
  NormLayer attn_mid_;
  std::size_t attn_layer_scale_ = kNoParam;
  ResidualJoin attn_join_;
  NormLayer attn_post_;
  NormLayer ffn_pre_;
  FfnLayer ffn_;
  NormLayer ffn_mid_;
  std::size_t ffn_layer_scale_ = kNoParam;
  ResidualJoin ffn_join_;
  NormLayer ffn_post_;
};

}  // namespace norma
