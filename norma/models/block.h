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
  /// What one of the two sublayers is called, and what it takes from the scheme.
  struct Sublayer;
  /// What follows the branch of a sublayer, in this order.
  struct Ending {
    Ending(const Build& build, Index layer, const Sublayer& of);

    std::uint64_t number;  // of the sublayer in its block
    NormLayer mid;
    std::size_t layer_scale;
    ResidualJoin join;
    NormLayer post;
  };
  /// Whether nothing but a norm may lie between the branch and the join.
  bool bare(const Ending& ending) const;
  /// x where the sublayer's last product may add the branch to it, else none.
  Var addend(const Ending& ending, bool may_add, Var x) const;
  /// The norm of the branch if the join is to do it.
  const NormLayer& left_to_join(const Ending& ending) const;
  Var finish(Tape& tape, Var branch, const Ending& ending, const Pass& pass) const;
  /// The stream with the branch in it, and what `next` makes of that. `added`: the branch is the
  /// sum.
  Stream joined(Tape& tape,
                Var x,
                Var branch,
                bool added,
                const Ending& ending,
                const NormLayer& next,
                const Pass& pass) const;

  ParamStore& params_;
  std::string label_;
  Index layer_;
  double dropout_;
  double drop_path_;
  NormLayer attn_pre_;
  AttentionLayer attention_;
  Ending attn_ending_;
  NormLayer ffn_pre_;
  FfnLayer ffn_;
  Ending ffn_ending_;
};

}  // namespace norma
