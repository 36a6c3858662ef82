// A slot of a scheme with its parameters, ready to be applied.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "norma/autograd/tape.h"
#include "norma/nn/param_store.h"
#include "norma/nn/scheme.h"
#include "norma/ops/rope.h"
#include "norma/tensor/buffer.h"

namespace norma {

/// Where a slot sits in a model of a certain size.
struct NormPlace {
  std::string name;  // "blocks.3.attn_pre": prefix of its parameters
  Index width = 0;
  Index head = 0;     // width of a head, for q, k and v
  Index context = 0;  // longest sequence, for statistics by position
  bool model_bias = false;
  bool pair_tied = false;  // one gain for both coordinates of a rotated pair
  DecayRules decay;
  std::span<const FormulaVariable> sizes;
};

/// How a norm is applied now.
struct NormPass {
  bool training = true;
  Var lengths{};     // i32 (B), or absent: tokens after the length are padding and count in no
                     // statistic
  Index offset = 0;  // position of the first token, for statistics by position
};

class NormLayer {
 public:
  NormLayer() = default;
  /// Declares the slot's parameters. A slot that shares a gain takes it from `lender`.
  NormLayer(const Slot& slot,
            const NormPlace& place,
            ParamStore& params,
            const NormLayer* lender = nullptr);

  /// x (B, T, width) -> the same shape.
  Var apply(Tape& tape, Var x, const NormPass& pass) const;

  struct RopeUse {
    bool after_rope = false;  // norm and gain after the rotation
    Index offset = 0;         // position of the first row
  };
  /// Norm, gain and rotation of queries or keys, in one pass where there is one.
  Var apply_with_rope(
      Tape& tape, Var x, const RopeTable& rope, RopeUse use, const NormPass& pass) const;

  /// The gain alone, once more: x·(mult·gain).
  Var apply_gain(Tape& tape, Var x) const;

  const Slot& slot() const { return slot_; }
  explicit operator bool() const { return static_cast<bool>(slot_); }
  /// Whether residual addition and this norm behind it can be one op (add_norm).
  bool joins_addition() const;
  /// Whether this norm of a branch and the addition behind it can be one op (norm_add).
  bool joins_branch() const { return joins_addition() && slot_.norm != NormKind::layer; }
  /// Whether this is x/|x| and nothing else, which the rules on the sphere do themselves.
  bool plain_l2() const { return slot_ == usual_slot(NormKind::l2); }

  Var gain(Tape& tape) const { return watch(tape, gain_); }
  Var bias(Tape& tape) const { return watch(tape, bias_); }
  double gain_mult() const { return gain_mult_; }
  double gain_offset() const { return slot_.norm == NormKind::rms1 ? 1 : 0; }
  double eps() const { return eps_of(slot_); }

  /// Running statistics of bn, which a checkpoint keeps; null for everything else.
  struct Running {
    std::string name;
    OwnedTensor mean;
    OwnedTensor var;
  };
  Running* running() const { return running_.get(); }
  /// Gives bn its statistics: mean 0, variance 1.
  void allocate(DType dtype, Device device = {});

 private:
  static constexpr std::size_t kAbsent = static_cast<std::size_t>(-1);
  Var watch(Tape& tape, std::size_t handle) const {
    return handle == kAbsent ? Var{} : tape.watch(params_->leaf(handle));
  }
  void declare_gain(const NormPlace& place, const NormLayer* lender);
  std::size_t declare(
      const NormPlace& place, const char* what, Index count, ParamTags tags, double start);
  Var without_loose_gain(Tape& tape, Var x, const NormPass& pass) const;
  /// Whether the norm's own op applies the gain; otherwise it is a pass of its own.
  bool gain_inside() const;
  bool fuses_with_rope() const;

  Slot slot_;
  ParamStore* params_ = nullptr;
  std::size_t gain_ = kAbsent;
  std::size_t bias_ = kAbsent;
  std::size_t alpha_ = kAbsent;
  std::size_t shift_ = kAbsent;
  double gain_mult_ = 1;
  Index gain_count_ = 0;
  Index width_ = 0;
  Index head_ = 0;
  Index context_ = 0;
  std::shared_ptr<Running> running_;
};

}  // namespace norma
