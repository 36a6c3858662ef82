#include "norma/models/plain_gpt.h"

#include <cmath>

#include "norma/autograd/recompute.h"
#include "norma/base/rng.h"
#include "norma/base/text.h"
#include "norma/ops/activation.h"
#include "norma/ops/add_norm.h"
#include "norma/ops/attention.h"
#include "norma/ops/cross_entropy.h"
#include "norma/ops/embedding.h"
#include "norma/ops/layer_norm.h"
#include "norma/ops/linear.h"
#include "norma/ops/residual.h"
#include "norma/ops/views.h"

namespace norma {

namespace {

constexpr double kNormEps = 1e-5;

ParamTags gain_tags() { return {.decay = false}; }

}  // namespace

PlainGpt::PlainGpt(const PlainGptSpec& spec, ParamStore& params) : spec_(spec), params_(params) {
  const Index d = spec.width;
  if (spec.heads < 1 || d % spec.heads != 0) {
    throw RequestError(
        say("plain_gpt: heads must divide the width = ", d, ", got ", spec.heads, "."));
  }
  tokens_ = params.add({"wte", {spec.vocab, d}, {}});
  positions_ = params.add({"wpe", {spec.context, d}, {}});
  for (Index i = 0; i < spec.layers; ++i) {
    const std::string at = say("blocks.", i, ".");
    Block block;
    block.label = say("block ", i);
    block.norm1 = params.add({at + "norm1.gain", {d}, gain_tags()});
    block.qkv = params.add_fused(
        {{at + "attn.q", {d, d}, {}}, {at + "attn.k", {d, d}, {}}, {at + "attn.v", {d, d}, {}}});
    block.out = params.add({at + "attn.out", {d, d}, {}});
    block.norm2 = params.add({at + "norm2.gain", {d}, gain_tags()});
    block.up = params.add({at + "ffn.up", {4 * d, d}, {}});
    block.down = params.add({at + "ffn.down", {d, 4 * d}, {}});
    blocks_.push_back(block);
  }
  final_norm_ = params.add({"final.gain", {d}, gain_tags()});
}

void PlainGpt::init(std::uint64_t seed) {
  constexpr double kStd = 0.02;
  const double branch_std = kStd / std::sqrt(2.0 * static_cast<double>(spec_.layers));
  std::uint64_t stream = 0;
  for (const Param& param : params_.params()) {
    const bool gain = param.shape.rank() == 1;
    const bool writes_residual = param.name.ends_with("attn.out") || param.name.ends_with("down");
    const double std = writes_residual ? branch_std : kStd;
    const RandomKey key{seed, ++stream};
    const Tensor value = params_.value(param);
    for (Index r = 0; r < value.shape.rows(); ++r) {
      for (Index c = 0; c < value.shape.cols(); ++c) {
        const auto at = static_cast<std::uint64_t>(r * value.shape.cols() + c);
        set_value(value, r, c, gain ? 1.0 : std * normal_at(key, at));
      }
    }
  }
}

PlainGpt::Stream PlainGpt::attention_sublayer(Tape& tape, const Block& block, Stream at) {
  const Index d = spec_.width;
  const auto [q, k, v] =
      split_columns(linear(at.normed, tape.watch(params_.leaf(block.qkv))), {d, d, d});
  const Var o = attention(q, k, v, {.heads = spec_.heads});
  const Var branch = linear(o, tape.watch(params_.leaf(block.out)));
  const AddNormResult next = add_norm(at.x,
                                      branch,
                                      tape.watch(params_.leaf(block.norm2)),
                                      {},
                                      {.norm = AddNormKind::layer, .eps = kNormEps});
  return {next.sum, next.normed};
}

PlainGpt::Stream PlainGpt::feed_forward(Tape& tape,
                                        const Block& block,
                                        std::size_t next_norm,
                                        Stream at) {
  const Var inner = linear(at.normed, tape.watch(params_.leaf(block.up)));
  const Var branch =
      linear(activation(inner, Activation::gelu_erf), tape.watch(params_.leaf(block.down)));
  const AddNormResult next = add_norm(at.x,
                                      branch,
                                      tape.watch(params_.leaf(next_norm)),
                                      {},
                                      {.norm = AddNormKind::layer, .eps = kNormEps});
  return {next.sum, next.normed};
}

Var PlainGpt::block_recomputed(Tape& tape, std::size_t index, Var x) {
  const Block& block = blocks_[index];
  const auto norm = [&tape, this](Var of, std::size_t gain) {
    return layer_norm(of, tape.watch(params_.leaf(gain)), {}, {.eps = kNormEps});
  };
  const Stream middle = attention_sublayer(tape, block, {x, norm(x, block.norm1)});
  const Var inner = linear(middle.normed, tape.watch(params_.leaf(block.up)));
  return residual_add(
      middle.x,
      linear(activation(inner, Activation::gelu_erf), tape.watch(params_.leaf(block.down))));
}

Var PlainGpt::loss(Tape& tape, const Tensor& ids, const Tensor& targets, bool recompute_blocks) {
  const Var table = tape.watch(params_.leaf(tokens_));
  const Var x = embedding(tape.constant(ids), table, tape.watch(params_.leaf(positions_)));
  Stream at{x, {}};
  if (recompute_blocks) {
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      at.x = recompute(tape, {at.x}, [this, i, &tape](std::span<const Var> in) {
        const Tape::Label label(tape, blocks_[i].label);
        return block_recomputed(tape, i, in[0]);
      });
    }
    at.normed = layer_norm(at.x, tape.watch(params_.leaf(final_norm_)), {}, {.eps = kNormEps});
  } else {
    at.normed = layer_norm(x, tape.watch(params_.leaf(blocks_[0].norm1)), {}, {.eps = kNormEps});
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      const Tape::Label label(tape, blocks_[i].label);
      const bool last = i + 1 == blocks_.size();
      at = attention_sublayer(tape, blocks_[i], at);
      at = feed_forward(tape, blocks_[i], last ? final_norm_ : blocks_[i + 1].norm1, at);
    }
  }
  const Var logits = linear(at.normed, table);
  return cross_entropy(logits, tape.constant(targets)).loss;
}

double PlainGpt::flops_per_token(Index tokens) const {
  const auto n = static_cast<double>(params_.count() - spec_.context * spec_.width);
  return 6 * n + 12.0 * static_cast<double>(spec_.layers * spec_.width * tokens);
}

}  // namespace norma
