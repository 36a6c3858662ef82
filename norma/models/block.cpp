#include "norma/models/block.h"

#include "norma/base/text.h"
#include "norma/ops/column_gain.h"
#include "norma/ops/dropout.h"

namespace norma {

namespace {

std::string prefix_of(Index layer) { return say("blocks.", layer, "."); }

NormLayer site_norm(const Build& build, Index layer, Site site) {
  const BlockRule& rule = build.scheme.block_at(layer, build.spec.layers);
  return build.norm(rule[site], say(prefix_of(layer), word_of(site)), build.spec.width);
}

std::size_t declare_layer_scale(const Build& build, Index layer, const char* sublayer) {
  if (build.spec.layer_scale == 0) return kNoParam;
  return build.scale(
      say(prefix_of(layer), sublayer, ".layer_scale"), build.spec.width, build.spec.layer_scale);
}

/// Stochastic depth rises linearly from 0 in the first block to the given rate in the last.
double drop_path_of(const ModelSpec& spec, Index layer) {
  return spec.layers == 1
             ? 0
             : spec.drop_path * static_cast<double>(layer) / static_cast<double>(spec.layers - 1);
}

}  // namespace

Block::Block(const Build& build, Index layer)
    : params_(build.params),
      label_(say("block ", layer)),
      layer_(layer),
      dropout_(build.spec.dropout),
      drop_path_(drop_path_of(build.spec, layer)),
      attn_pre_(site_norm(build, layer, Site::attn_pre)),
      attention_(build, build.scheme.block_at(layer, build.spec.layers), layer, prefix_of(layer)),
      attn_mid_(site_norm(build, layer, Site::attn_mid)),
      attn_layer_scale_(declare_layer_scale(build, layer, "attn")),
      attn_join_(build,
                 build.scheme.block_at(layer, build.spec.layers).attn_residual,
                 prefix_of(layer) + "attn_residual"),
      attn_post_(site_norm(build, layer, Site::attn_post)),
      ffn_pre_(site_norm(build, layer, Site::ffn_pre)),
      ffn_(build, build.scheme.block_at(layer, build.spec.layers), prefix_of(layer)),
      ffn_mid_(site_norm(build, layer, Site::ffn_mid)),
      ffn_layer_scale_(declare_layer_scale(build, layer, "ffn")),
      ffn_join_(build,
                build.scheme.block_at(layer, build.spec.layers).ffn_residual,
                prefix_of(layer) + "ffn_residual"),
      ffn_post_(site_norm(build, layer, Site::ffn_post)) {}

void Block::allocate(DType dtype, Device device) {
  attention_.allocate(dtype, device);
  ffn_.allocate(dtype, device);
  attn_join_.allocate(dtype, device);
  ffn_join_.allocate(dtype, device);
  each_norm([&](NormLayer& norm) { norm.allocate(dtype, device); });
}

void Block::each_norm(const std::function<void(NormLayer&)>& visit) {
  visit(attn_pre_);
  attention_.each_norm(visit);
  for (NormLayer* norm : {&attn_mid_, &attn_post_, &ffn_pre_}) visit(*norm);
  ffn_.each_norm(visit);
  for (NormLayer* norm : {&ffn_mid_, &ffn_post_}) visit(*norm);
}

const NormLayer& Block::left_to(const ResidualJoin& join,
                                const NormLayer& mid,
                                std::size_t layer_scale) const {
  static const NormLayer kNone;
  const bool between = layer_scale != kNoParam || dropout_ > 0 || drop_path_ > 0;
  return join.takes(mid) && !between ? mid : kNone;
}

Var Block::finish(Tape& tape,
                  Var branch,
                  const NormLayer& mid,
                  const ResidualJoin& join,
                  std::size_t layer_scale,
                  const Pass& pass,
                  std::uint64_t sublayer) const {
  const bool later = join.includes(mid) || left_to(join, mid, layer_scale);
  Var b = later ? branch : mid.apply(tape, branch, pass.norm());
  if (layer_scale != kNoParam) b = column_gain(b, watch(tape, params_, layer_scale));
  const auto drop = [&](double rate, std::uint64_t which) {
    const std::uint64_t place = (static_cast<std::uint64_t>(layer_) * 2 + sublayer) * 2 + which;
    return DropSpec{.rate = rate,
                    .key = {pass.seed, (pass.step << 20) + place + 1},
                    .training = pass.training,
                    .first_sample = pass.first_sequence};
  };
  if (dropout_ > 0) b = dropout(b, drop(dropout_, 0));
  if (drop_path_ > 0) b = drop_path(b, drop(drop_path_, 1));
  return b;
}

Stream Block::run(
    Tape& tape, Stream at, const NormLayer& next, const RopeTable* rope, const Pass& pass) const {
  Var branch = attention_.apply(tape, at.normed, rope, pass);
  if (at.normed != at.x) tape.forget(at.normed);
  branch = finish(tape, branch, attn_mid_, attn_join_, attn_layer_scale_, pass, 0);
  const NormLayer& attn_left = left_to(attn_join_, attn_mid_, attn_layer_scale_);
  at = attn_join_.apply(tape, at.x, branch, attn_left, attn_post_, ffn_pre_, pass.norm());
  tape.forget(branch);
  branch = ffn_.apply(tape, at.normed, pass);
  if (at.normed != at.x) tape.forget(at.normed);
  branch = finish(tape, branch, ffn_mid_, ffn_join_, ffn_layer_scale_, pass, 1);
  const NormLayer& ffn_left = left_to(ffn_join_, ffn_mid_, ffn_layer_scale_);
  at = ffn_join_.apply(tape, at.x, branch, ffn_left, ffn_post_, next, pass.norm());
  tape.forget(branch);
  return at;
}

}  // namespace norma
