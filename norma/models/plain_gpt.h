// A plain pre-LN GPT, the yardstick of `norma bench train`: learned positions, LayerNorm with gain
// only, no biases, GELU (erf), causal attention, tied head.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "norma/autograd/tape.h"
#include "norma/nn/param_store.h"

namespace norma {

struct PlainGptSpec {
  Index layers = 4;
  Index heads = 4;
  Index width = 128;
  Index context = 64;
  Index vocab = 65;
};

class PlainGpt {
 public:
  /// Declares the parameters in `params`, which the caller then allocates and keeps.
  PlainGpt(const PlainGptSpec& spec, ParamStore& params);

  /// GPT-2's init: N(0, 0.02²), the two matrices that write to the residual stream divided by
  /// √(2·layers), gains 1.
  void init(std::uint64_t seed);

  /// Mean cross-entropy of ids (B, T) i32 against targets (B·T) i32. With `recompute_blocks` every
  /// block is run again in backward instead of keeping its activations.
  Var loss(Tape& tape, const Tensor& ids, const Tensor& targets, bool recompute_blocks = false);

  /// 6N + 12·L·d·T floating-point operations a token; N leaves out the position table.
  double flops_per_token(Index tokens) const;
  const PlainGptSpec& spec() const { return spec_; }

 private:
  struct Block {
    std::string label;
    std::size_t norm1, qkv, out, norm2, up, down;
  };
  /// The residual stream and its normalized form, which the next sublayer reads.
  struct Stream {
    Var x;
    Var normed;
  };
  Stream attention_sublayer(Tape& tape, const Block& block, Stream at);
  Stream feed_forward(Tape& tape, const Block& block, std::size_t next_norm, Stream at);
  Var block_recomputed(Tape& tape, std::size_t index, Var x);

  PlainGptSpec spec_;
  ParamStore& params_;
  std::size_t tokens_;
  std::size_t positions_;
  std::size_t final_norm_;
  std::vector<Block> blocks_;
};

}  // namespace norma
