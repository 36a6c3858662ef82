#include "norma/models/gpt.h"

#include "norma/autograd/recompute.h"
#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/models/kv_cache.h"
#include "norma/nn/init.h"
#include "norma/ops/cross_entropy.h"
#include "norma/ops/dropout.h"
#include "norma/ops/embedding.h"
#include "norma/ops/head_loss.h"
#include "norma/ops/linear.h"
#include "norma/ops/softcap.h"
#include "norma/ops/views.h"

namespace norma {

namespace {

void require_sizes(const ModelSpec& spec, const Scheme& scheme) {
  if (spec.head_width == 0 && spec.width % spec.heads != 0) {
    throw RequestError(say("model.heads must divide model.width = ",
                           spec.width,
                           " (or give model.head_width), got ",
                           spec.heads,
                           "."));
  }
  if (spec.heads % spec.key_heads() != 0) {
    throw RequestError(say(
        "model.kv_heads must divide model.heads = ", spec.heads, ", got ", spec.key_heads(), "."));
  }
  if (spec.positions == Positions::rope && spec.head() % 2 != 0) {
    throw RequestError(say("rotary positions need heads of even width, got ",
                           spec.head(),
                           "; change model.heads or model.head_width."));
  }
  if (scheme.attention.pair_tied &&
      (spec.positions != Positions::rope || spec.rope != RopeLayout::interleaved)) {
    throw RequestError("attention.pair_tied needs model.positions = \"rope\", interleaved.");
  }
}

}  // namespace

Gpt::Gpt(const ModelSpec& spec, const Scheme& scheme, ParamStore& params)
    : spec_(spec), scheme_(scheme), params_(params) {
  require_sizes(spec_, scheme_);
  warnings_ = judge_scheme(scheme_, true);
  build_.emplace(spec_, scheme_, params_);
  const Build& build = *build_;
  const Index d = spec_.width;

  tokens_ =
      params.add({"embed.tokens", {spec_.vocab, d}, matrix_tags(ParamClass::embedding, scheme_)});
  if (scheme_.weights[ParamClass::embedding] == WeightRule::weight_norm) {
    token_lengths_ =
        params.add({"embed.tokens.magnitude",
                    {spec_.vocab},
                    {.kind = ParamClass::magnitude, .decay = scheme_.decay[ParamClass::magnitude]},
                    1});
  }
  if (spec_.positions == Positions::learned) {
    positions_ = params.add(
        {"embed.positions", {spec_.context, d}, matrix_tags(ParamClass::position, scheme_)});
  }
  input_ = build.norm(scheme_.block[Site::input], "input", d);
  for (Index layer = 0; layer < spec_.layers; ++layer) blocks_.emplace_back(build, layer);
  final_ = build.norm(scheme_.block[Site::final], "final", d);
  if (!spec_.tied) {
    const LinearLayer::Part part[] = {{"head", spec_.vocab, ParamClass::head, false}};
    head_.emplace(part, d, scheme_, params_);
  }
  logits_ = build.norm(scheme_.block[Site::logits], "logits", spec_.vocab);
  embedding_scale_ = build.value(scheme_.scales.embedding);
  logit_softcap_ = build.value(scheme_.scales.logit_softcap);
}

void Gpt::allocate(DType dtype, Device device) {
  if (spec_.positions == Positions::rope) {
    rope_.emplace(RopeSpec{.head = spec_.head(), .base = spec_.rope_base, .layout = spec_.rope},
                  spec_.context,
                  dtype,
                  device);
  }
  for (Block& block : blocks_) block.allocate(dtype, device);
  for (NormLayer* norm : {&input_, &final_, &logits_}) norm->allocate(dtype, device);
}

void Gpt::init(std::uint64_t seed) {
  init_params(params_,
              {.rule = scheme_.init, .layers = spec_.layers, .width = spec_.width, .seed = seed});
}

std::vector<NormLayer::Running*> Gpt::running() {
  std::vector<NormLayer::Running*> found;
  const auto collect = [&](NormLayer& norm) {
    if (norm.running() != nullptr) found.push_back(norm.running());
  };
  collect(input_);
  for (Block& block : blocks_) block.each_norm(collect);
  collect(final_);
  return found;
}

std::vector<NamedTensor> Gpt::tensors() {
  std::vector<NamedTensor> tensors;
  for (const Param& param : params_.params()) {
    tensors.push_back({param.name, params_.value(param)});
  }
  for (const NormLayer::Running* statistics : running()) {
    tensors.push_back({statistics->name + ".running_mean", statistics->mean.tensor});
    tensors.push_back({statistics->name + ".running_var", statistics->var.tensor});
  }
  return tensors;
}

Var Gpt::embedding_table(Tape& tape) const {
  return effective_weight(watch(tape, params_, tokens_),
                          watch(tape, params_, token_lengths_),
                          scheme_.weights[ParamClass::embedding],
                          VectorAxis::rows);
}

Var Gpt::hidden(
    Tape& tape, const Tensor& ids, const Pass& given, const Tensor& lengths, Var table) {
  Pass pass = given;
  if (lengths) pass.lengths = tape.constant(lengths);
  if (pass.cache != nullptr) {
    if (tape.recording()) {
      throw RequestError(
          "a pass with a cache has no gradient: keys that were kept have none. Evaluate it.");
    }
    pass.cache->require_fits(spec_, ids.shape.rows());
    pass.offset = pass.cache->filled();
  }
  const Index last = ids.shape.cols() + pass.offset;
  if (last > spec_.context) {
    throw RequestError(
        say("the model's context is ", spec_.context, " tokens, got a sequence of ", last, "."));
  }
  const Var positions = watch(tape, params_, positions_);
  Var x = embedding(tape.constant(ids),
                    table,
                    positions,
                    {.scale = embedding_scale_, .first_position = pass.offset});
  if (spec_.dropout > 0) {
    x = dropout(x,
                {.rate = spec_.dropout,
                 .key = {.seed = pass.seed},
                 .step = pass.step,
                 .training = pass.training,
                 .first_sample = pass.first_sequence});
  }
  x = input_.apply(tape, x, pass.norm());
  const RopeTable* rope = rope_ ? &*rope_ : nullptr;

  if (pass.recompute) {
    static const NormLayer kNone;
    for (const Block& block : blocks_) {
      x = recompute(tape, {x}, [&tape, &block, rope, pass](std::span<const Var> in) {
        const Tape::Label label(tape, block.label());
        const Var normed = block.first_norm().apply(tape, in[0], pass.norm());
        return block.run(tape, {in[0], normed}, kNone, rope, pass).x;
      });
      if (pass.streams != nullptr) pass.streams->push_back(x);
    }
    return final_.apply(tape, x, pass.norm());
  }
  Stream at{x, blocks_.front().first_norm().apply(tape, x, pass.norm())};
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const Tape::Label label(tape, blocks_[i].label());
    const bool last_block = i + 1 == blocks_.size();
    const NormLayer& next = last_block ? final_ : blocks_[i + 1].first_norm();
    at = blocks_[i].run(tape, at, next, rope, pass);
    if (pass.streams != nullptr) pass.streams->push_back(at.x);
  }
  if (pass.cache != nullptr) pass.cache->advance(ids.shape.cols());
  return at.normed;
}

Var Gpt::raw_logits(Tape& tape, Var h, Var table) const {
  return head_ ? head_->apply(tape, h) : linear(h, table);
}

GptLoss Gpt::loss(Tape& tape,
                  const Tensor& ids,
                  const Tensor& targets,
                  const LossSpec& loss,
                  const Pass& pass,
                  const Tensor& lengths) {
  const Var table = embedding_table(tape);
  const Var h = hidden(tape, ids, pass, lengths, table);
  const bool vector = logits_.slot().gain == GainKind::vector;
  const CrossEntropySpec spec{.smoothing = loss.smoothing,
                              .softcap = logit_softcap_,
                              .z_loss = loss.z_loss,
                              .tokens = loss.tokens,
                              .scale_mult = vector ? logits_.gain_mult() : 1,
                              .precondition = loss.precondition,
                              .count_right = loss.count_right};
  // One factor of all logits is one of the state that they are made of.
  const Var state = logits_ && !vector ? logits_.apply_gain(tape, h) : h;
  const Var weight = head_ ? head_->weight(tape) : table;
  const CrossEntropyResult result = head_loss(
      state, weight, tape.constant(targets), vector ? logits_.gain(tape) : Var{}, {.loss = spec});
  return {result.loss, result.token_losses, result.right};
}

Var Gpt::logits(Tape& tape, const Tensor& ids, const Pass& pass, const Tensor& lengths) {
  const Var table = embedding_table(tape);
  return logits_of(tape, hidden(tape, ids, pass, lengths, table), table, pass);
}

Var Gpt::next_logits(Tape& tape, const Tensor& ids, const Pass& pass) {
  const Var table = embedding_table(tape);
  Var h = hidden(tape, ids, pass, {}, table);
  const Index before = (ids.shape.cols() - 1) * spec_.width;
  if (before > 0) {
    // A sequence as one long row: the last token is its last columns.
    const Var long_rows = reshape(h, {ids.shape.rows(), 1, before + spec_.width});
    h = split_columns(long_rows, {before, spec_.width})[1];
  }
  return logits_of(tape, h, table, pass);
}

Var Gpt::logits_of(Tape& tape, Var h, Var table, const Pass& pass) const {
  const Var z = logits_.apply(tape, raw_logits(tape, h, table), pass.norm());
  return logit_softcap_ > 0 ? softcap(z, {.cap = logit_softcap_}) : z;
}

double Gpt::flops_per_token(Index tokens) const {
  double multiplied = 0;
  for (const Param& param : params_.params()) {
    const bool looked_up = param.tags.kind == ParamClass::position ||
                           (param.tags.kind == ParamClass::embedding && !spec_.tied);
    if (!looked_up) multiplied += static_cast<double>(param.count());
  }
  double attention = 12;
  for (const Index factor : {spec_.layers, spec_.heads, spec_.head(), tokens}) {
    attention *= static_cast<double>(factor);
  }
  return 6 * multiplied + attention;
}

}  // namespace norma
