#include "norma/models/block.h"

#include "norma/base/text.h"
#include "norma/ops/column_gain.h"
#include "norma/ops/dropout.h"

namespace norma {

namespace {

std::string prefix_of(Index layer) { return say("blocks.", layer, "."); }

const BlockRule& rule_of(const Build& build, Index layer) {
  return build.scheme.block_at(layer, build.spec.layers);
}

NormLayer site_norm(const Build& build, Index layer, Site site) {
  const BlockRule& rule = rule_of(build, layer);
  return build.norm(rule[site], say(prefix_of(layer), word_of(site)), build.spec.width);
}

/// Stochastic depth rises linearly from 0 in the first block to the given rate in the last.
double drop_path_of(const ModelSpec& spec, Index layer) {
  return spec.layers == 1
             ? 0
             : spec.drop_path * static_cast<double>(layer) / static_cast<double>(spec.layers - 1);
}

}  // namespace

struct Block::Sublayer {
  std::uint64_t number;  // in its block
  const char* name;
  Site mid;
  ResidualRule BlockRule::*residual;
  Site post;
};

Block::Ending::Ending(const Build& build, Index layer, const Sublayer& of)
    : number(of.number),
      mid(site_norm(build, layer, of.mid)),
      layer_scale(build.spec.layer_scale == 0
                      ? kNoParam
                      : build.scale(say(prefix_of(layer), of.name, ".layer_scale"),
                                    build.spec.width,
                                    build.spec.layer_scale)),
      join(build, rule_of(build, layer).*of.residual, say(prefix_of(layer), of.name, "_residual")),
      post(site_norm(build, layer, of.post)) {}

Block::Block(const Build& build, Index layer)
    : params_(build.params),
      label_(say("block ", layer)),
      layer_(layer),
      dropout_(build.spec.dropout),
      drop_path_(drop_path_of(build.spec, layer)),
      attn_pre_(site_norm(build, layer, Site::attn_pre)),
      attention_(build, rule_of(build, layer), layer, prefix_of(layer)),
      attn_ending_(
          build, layer, {0, "attn", Site::attn_mid, &BlockRule::attn_residual, Site::attn_post}),
      ffn_pre_(site_norm(build, layer, Site::ffn_pre)),
      ffn_(build, rule_of(build, layer), prefix_of(layer)),
      ffn_ending_(
          build, layer, {1, "ffn", Site::ffn_mid, &BlockRule::ffn_residual, Site::ffn_post}) {}

void Block::allocate(DType dtype, Device device) {
  attention_.allocate(dtype, device);
  ffn_.allocate(dtype, device);
  attn_ending_.join.allocate(dtype, device);
  ffn_ending_.join.allocate(dtype, device);
  each_norm([&](NormLayer& norm) { norm.allocate(dtype, device); });
}

void Block::each_norm(const std::function<void(NormLayer&)>& visit) {
  visit(attn_pre_);
  attention_.each_norm(visit);
  for (NormLayer* norm : {&attn_ending_.mid, &attn_ending_.post, &ffn_pre_}) visit(*norm);
  ffn_.each_norm(visit);
  for (NormLayer* norm : {&ffn_ending_.mid, &ffn_ending_.post}) visit(*norm);
}

bool Block::bare(const Ending& ending) const {
  return ending.layer_scale == kNoParam && dropout_ == 0 && drop_path_ == 0;
}

Var Block::addend(const Ending& ending, bool may_add, Var x) const {
  return may_add && ending.join.adds() && !ending.mid && bare(ending) ? x : Var{};
}

const NormLayer& Block::left_to_join(const Ending& ending) const {
  static const NormLayer kNone;
  return ending.join.takes(ending.mid) && bare(ending) ? ending.mid : kNone;
}

Var Block::finish(Tape& tape, Var branch, const Ending& ending, const Pass& pass) const {
  const bool later = ending.join.includes(ending.mid) || left_to_join(ending);
  Var b = later ? branch : ending.mid.apply(tape, branch, pass.norm());
  if (ending.layer_scale != kNoParam) {
    b = column_gain(b, watch(tape, params_, ending.layer_scale));
  }
  const auto drop = [&](double rate, std::uint64_t which) {
    const std::uint64_t place =
        (static_cast<std::uint64_t>(layer_) * 2 + ending.number) * 2 + which;
    return DropSpec{.rate = rate,
                    .key = {pass.seed, place + 1},
                    .step = pass.step,
                    .training = pass.training,
                    .first_sample = pass.first_sequence};
  };
  if (dropout_ > 0) b = dropout(b, drop(dropout_, 0));
  if (drop_path_ > 0) b = drop_path(b, drop(drop_path_, 1));
  return b;
}

Stream Block::joined(Tape& tape,
                     Var x,
                     Var branch,
                     bool added,
                     const Ending& ending,
                     const NormLayer& next,
                     const Pass& pass) const {
  if (added) return ResidualJoin::after(tape, branch, ending.post, next, pass.norm());
  const Var b = finish(tape, branch, ending, pass);
  const Stream at =
      ending.join.apply(tape, x, b, left_to_join(ending), ending.post, next, pass.norm());
  tape.forget(b);
  return at;
}

Stream Block::run(
    Tape& tape, Stream at, const NormLayer& next, const RopeTable* rope, const Pass& pass) const {
  Var onto = addend(attn_ending_, attention_.may_add(), at.x);
  Var branch = attention_.apply(tape, at.normed, rope, pass, onto);
  if (at.normed != at.x) tape.forget(at.normed);
  at = joined(tape, at.x, branch, bool(onto), attn_ending_, ffn_pre_, pass);
  onto = addend(ffn_ending_, ffn_.may_add(), at.x);
  branch = ffn_.apply(tape, at.normed, pass, onto);
  if (at.normed != at.x) tape.forget(at.normed);
  return joined(tape, at.x, branch, bool(onto), ffn_ending_, next, pass);
}

}  // namespace norma
