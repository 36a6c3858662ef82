// A GPT whose normalization is a scheme.
#pragma once

#include <deque>
#include <functional>
#include <optional>

#include "norma/models/block.h"

namespace norma {

struct LossSpec {
  double smoothing = 0;
  double z_loss = 0;
  double tokens = 0;         // what the sum is divided by; 0: the tokens that are not ignored
  double precondition = 0;   // logit gradient preconditioning
  bool count_right = false;  // see GptLoss::right
};

struct GptLoss {
  Var loss;          // (1)
  Var token_losses;  // (B·T), not divided
  Var right;         // (B·T) i32: 1 where the target is the likeliest token; where asked for
};

/// A parameter or a statistic under the name that files give it.
struct NamedTensor {
  std::string name;
  Tensor tensor;
};

class Gpt {
 public:
  /// Declares the parameters in `params`. Throws RequestError when sizes do not fit or the scheme
  /// cannot work in a causal model; see warnings() for what was forced.
  Gpt(const ModelSpec& spec, const Scheme& scheme, ParamStore& params);
  Gpt(const Gpt&) = delete;
  Gpt& operator=(const Gpt&) = delete;

  /// After params.allocate(): whatever lies beside the parameters but is none.
  void allocate(DType dtype, Device device = {});
  /// Start values by the scheme's rule. Constraints on weights are the optimizer's.
  void init(std::uint64_t seed);

  /// Cross-entropy of ids (B, T) i32 against targets (B·T) i32 (−1: ignored). `lengths` (B) i32 or
  /// absent: tokens after the length are padding.
  GptLoss loss(Tape& tape,
               const Tensor& ids,
               const Tensor& targets,
               const LossSpec& loss = {},
               const Pass& pass = {},
               const Tensor& lengths = {});
  /// Logits (B, T, V), after the logits site.
  Var logits(Tape& tape, const Tensor& ids, const Pass& pass, const Tensor& lengths = {});
  /// Logits (B, 1, V) after the last token alone: what comes next.
  Var next_logits(Tape& tape, const Tensor& ids, const Pass& pass);

  /// 6N + 12·L·H·D·T floating-point operations a token; N counts what multiplies activations: no
  /// position table, and the embedding only where it is the head.
  double flops_per_token(Index tokens) const;

  const ModelSpec& spec() const { return spec_; }
  const Scheme& scheme() const { return scheme_; }
  ParamStore& params() { return params_; }
  const std::vector<std::string>& warnings() const { return warnings_; }
  /// Statistics that a checkpoint keeps besides parameters.
  std::vector<NormLayer::Running*> running();
  /// Parameters and these statistics: everything that the model needs to compute again.
  std::vector<NamedTensor> tensors();

 private:
  /// The final hidden state, normalized: what the head multiplies.
  Var hidden(Tape& tape, const Tensor& ids, const Pass& pass, const Tensor& lengths, Var table);
  Var embedding_table(Tape& tape) const;
  Var raw_logits(Tape& tape, Var h, Var table) const;
  Var logits_of(Tape& tape, Var h, Var table, const Pass& pass) const;

  ModelSpec spec_;
  Scheme scheme_;
  ParamStore& params_;
  std::vector<std::string> warnings_;
  std::optional<Build> build_;
  std::size_t tokens_ = kNoParam;
  std::size_t token_lengths_ = kNoParam;  // magnitudes of a weight-normalized table
  std::size_t positions_ = kNoParam;
  NormLayer input_;
  std::deque<Block> blocks_;
  NormLayer final_;
  NormLayer logits_;
  std::optional<LinearLayer> head_;
  std::optional<RopeTable> rope_;
  double embedding_scale_ = 1;
  double logit_softcap_ = 0;
};

}  // namespace norma
