#include "norma/models/ffn_layer.h"

#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/ops/activation.h"
#include "norma/ops/column_gain.h"
#include "norma/ops/gated_mlp.h"
#include "norma/ops/mlp.h"
#include "norma/tensor/plain.h"

namespace norma {

namespace {

Activation activation_of(FfnKind kind) {
  switch (kind) {
    case FfnKind::gelu:
      return Activation::gelu_erf;
    case FfnKind::gelu_tanh:
    case FfnKind::geglu:
      return Activation::gelu_tanh;
    case FfnKind::relu:
      return Activation::relu;
    case FfnKind::relu2:
      return Activation::relu2;
    case FfnKind::silu:
    case FfnKind::swiglu:
      return Activation::silu;
  }
  return Activation::gelu_erf;
}

}  // namespace

FfnLayer::FfnLayer(const Build& build, const BlockRule& rule, const std::string& prefix)
    : params_(build.params), kind_(build.spec.ffn), inner_width_(build.spec.inner()) {
  const ModelSpec& model = build.spec;
  const ScaleRule& scales = build.scheme.scales;
  const LinearLayer::Part parts[] = {
      {prefix + "ffn.up", inner_width_, ParamClass::ffn_up, model.bias},
      {prefix + "ffn.gate", inner_width_, ParamClass::ffn_gate, model.bias}};
  up_ = LinearLayer(
      std::span(parts).first(is_gated(kind_) ? 2 : 1), model.width, build.scheme, params_);
  const LinearLayer::Part down[] = {
      {prefix + "ffn.down", model.width, ParamClass::ffn_down, model.bias}};
  down_ = LinearLayer(down, inner_width_, build.scheme, params_);
  inner_ = build.norm(rule[Site::ffn_inner], prefix + "ffn_inner", inner_width_);
  s_u_ = declare(build, prefix + "ffn.s_u", scales.s_u, scales.s_u_init, scales.s_u_scale);
  if (is_gated(kind_)) {
    s_v_ = declare(build, prefix + "ffn.s_v", scales.s_v, scales.s_v_init, scales.s_v_scale);
  }
  up_scale_ = build.value(scales.up);
  gate_scale_ = build.value(scales.gate);
  inner_scale_ = build.value(scales.inner);
  down_scale_ = build.value(scales.down);
}

FfnLayer::Factor FfnLayer::declare(const Build& build,
                                   const std::string& name,
                                   GainKind kind,
                                   const Formula& init,
                                   const Formula& stored) {
  if (kind == GainKind::none) return {};
  if (kind == GainKind::shared) throw RequestError(say(name, " shares no gain: say vector."));
  const double start = build.value(stored);
  if (start == 0) throw RequestError(say(name, ": the stored scale must not be 0."));
  Factor factor;
  factor.vector = kind == GainKind::vector;
  factor.mult = build.value(init) / start;
  factor.handle = build.scale(name, factor.vector ? inner_width_ : 1, start, factor.mult);
  return factor;
}

void FfnLayer::allocate(DType dtype, Device device) {
  one_ = OwnedTensor({1}, wide(dtype), device);
  fill(one_.tensor, 1);
  if (!is_gated(kind_) || (!s_u_.scalar() && !s_v_.scalar())) return;
  ones_ = OwnedTensor({inner_width_}, wide(dtype), device);
  fill(ones_.tensor, 1);
}

Var FfnLayer::columns_of(Tape& tape, const Factor& factor) const {
  const Var stored = watch(tape, params_, factor.handle);
  return factor.scalar() ? scalar_gain(tape.constant(ones_.tensor), stored) : stored;
}

Var FfnLayer::gated_activation(Tape& tape, Var x) const {
  Var halves[2];
  up_.apply(tape, x, halves);
  const auto [u, g] = halves;
  return gated(u, g, columns_of(tape, s_u_), columns_of(tape, s_v_), gated_spec());
}

GatedSpec FfnLayer::gated_spec() const {
  return {.act = activation_of(kind_),
          .u_mult = s_u_.mult,
          .v_mult = s_v_.mult,
          .gate_scale = gate_scale_};
}

bool FfnLayer::in_one() const {
  if (inner_ || up_.groups() != 1 || up_.has_bias() || down_.has_bias()) return false;
  return is_gated(kind_) || (s_u_.handle == kNoParam && up_scale_ == 1);
}

Var FfnLayer::plain_activation(Tape& tape, Var x) const {
  Var u = up_.apply(tape, x);
  if (s_u_.handle != kNoParam) {
    u = column_gain(
        u, watch(tape, params_, s_u_.handle), {.mult = s_u_.mult, .groups = s_u_.vector ? 0 : 1});
  }
  return activation(times(tape, u, up_scale_, one_), activation_of(kind_));
}

double FfnLayer::inner_factor() const {
  // A gated activation is linear in u, so the factor of u can wait.
  return is_gated(kind_) ? up_scale_ * inner_scale_ : inner_scale_;
}

Var FfnLayer::apply(Tape& tape, Var x, const Pass& pass, Var onto) const {
  const bool gate = is_gated(kind_);
  if (in_one()) {
    const Var up = up_.weight(tape);
    const Var down = down_.weight(tape);
    const Var y =
        gate ? gated_mlp(
                   x, up, down, columns_of(tape, s_u_), columns_of(tape, s_v_), gated_spec(), onto)
             : mlp(x, up, down, activation_of(kind_), onto);
    return times(tape, y, last_factor(), one_);
  }
  Var z = gate ? gated_activation(tape, x) : plain_activation(tape, x);
  // Without a norm in between, the factor can wait for that of the result.
  if (inner_) z = inner_.apply(tape, times(tape, z, inner_factor(), one_), pass.norm());
  const Var branch = down_.apply(tape, z, onto);
  tape.forget(z);
  return times(tape, branch, last_factor(), one_);
}

}  // namespace norma
