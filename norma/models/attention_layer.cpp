#include "norma/models/attention_layer.h"

#include <cmath>

#include "norma/base/text.h"
#include "norma/models/kv_cache.h"
#include "norma/ops/column_gain.h"
#include "norma/tensor/plain.h"

namespace norma {

AttentionLayer::AttentionLayer(const Build& build,
                               const BlockRule& rule,
                               Index layer,
                               const std::string& prefix)
    : params_(build.params),
      layer_(layer),
      value_scale_(build.value(build.scheme.scales.value)),
      out_scale_(build.value(build.scheme.scales.attn_out)) {
  const ModelSpec& model = build.spec;
  const AttentionRule& logits = build.scheme.attention;
  const Index queries = model.heads * model.head();
  const Index keys = model.key_heads() * model.head();

  const LinearLayer::Part parts[] = {
      {prefix + "attn.q", queries, ParamClass::query, model.bias},
      {prefix + "attn.k", keys, ParamClass::key, model.bias && logits.key_bias},
      {prefix + "attn.v", keys, ParamClass::value, model.bias}};
  qkv_ = LinearLayer(parts, model.width, build.scheme, params_);
  const LinearLayer::Part out[] = {
      {prefix + "attn.out", model.width, ParamClass::attn_out, model.bias}};
  out_ = LinearLayer(out, queries, build.scheme, params_);

  q_ = build.norm(rule[Site::q], prefix + "q", queries);
  Slot key_slot = rule[Site::k];
  if (key_slot.gain == GainKind::shared && key_slot.scope == Scope::per_head &&
      rule[Site::q].gain == GainKind::vector && keys != queries) {
    // Every query head has its own s, but heads share keys: ⟨s⊙q, s⊙k⟩ = ⟨s⊙s⊙q, k⟩.
    q_gain_twice_ = true;
    key_slot.gain = GainKind::none;
    if (key_slot.norm == NormKind::gain) key_slot = Slot{};
  }
  k_ = build.norm(key_slot, prefix + "k", keys, &q_);
  v_ = build.norm(rule[Site::v], prefix + "v", keys);
  inner_ = build.norm(rule[Site::attn_inner], prefix + "attn_inner", queries);
  rope_use_.after_rope = logits.qk_after_rope;

  spec_ = {.heads = model.heads,
           .kv_heads = model.key_heads(),
           .scale = build.value(logits.scale),
           .softcap = build.value(logits.softcap),
           .log_length = logits.log_length != LogLength::none,
           .temperature_kind = logits.temperature == TemperatureRule::exponential
                                   ? Temperature::exponential
                                   : Temperature::direct};
  const double neutral = 1 / std::log(std::max(2.0, static_cast<double>(model.context)));
  if (logits.log_length == LogLength::fixed) spec_.scale *= neutral;
  if (logits.log_length == LogLength::learned) {
    log_scale_ = build.scale(prefix + "attn.log_scale", model.heads, neutral);
  }
  if (logits.temperature != TemperatureRule::none) {
    temperature_ = build.scale(prefix + "attn.temperature",
                               logits.temperature_per_head ? model.heads : 1,
                               build.value(logits.temperature_init));
  }
  if (logits.head_gain) head_gain_ = build.scale(prefix + "attn.head_gain", model.heads, 1);
}

void AttentionLayer::allocate(DType dtype, Device device) {
  one_ = OwnedTensor({1}, wide(dtype), device);
  fill(one_.tensor, 1);
}

void AttentionLayer::each_norm(const std::function<void(NormLayer&)>& visit) {
  for (NormLayer* norm : {&q_, &k_, &v_, &inner_}) visit(*norm);
}

Var AttentionLayer::apply(
    Tape& tape, Var x, const RopeTable* rope, const Pass& pass, Var onto) const {
  Var projected[3];
  qkv_.apply(tape, x, projected);
  auto [q, k, v] = projected;
  if (rope != nullptr) {
    const NormLayer::RopeUse use{rope_use_.after_rope, pass.offset};
    q = q_.apply_with_rope(tape, q, *rope, use, pass.norm());
    k = k_.apply_with_rope(tape, k, *rope, use, pass.norm());
  } else {
    q = q_.apply(tape, q, pass.norm());
    k = k_.apply(tape, k, pass.norm());
  }
  if (q_gain_twice_) q = q_.apply_gain(tape, q);
  v = v_.apply(tape, v, pass.norm());

  AttentionSpec spec = spec_;
  if (pass.cache != nullptr) {
    const KvCache::Layer all = pass.cache->append(layer_, k.value(), v.value());
    k = tape.constant(all.keys);
    v = tape.constant(all.values);
    spec.keys = all.count;
  }
  Var o = attention(q,
                    k,
                    v,
                    spec,
                    {.temperature = watch(tape, params_, temperature_),
                     .log_scale = watch(tape, params_, log_scale_),
                     .lengths = pass.lengths});
  tape.forget(q);
  tape.forget(k);
  if (head_gain_ != kNoParam) {
    o = column_gain(o, watch(tape, params_, head_gain_), {.groups = spec_.heads});
  }
  // Without a norm in between, the factor of v can wait for that of the result.
  if (inner_) o = inner_.apply(tape, times(tape, o, value_scale_, one_), pass.norm());
  const Var branch = out_.apply(tape, o, onto);
  tape.forget(o);
  return times(tape, branch, last_factor(), one_);
}

}  // namespace norma
