#include "norma/nn/norm_layer.h"

#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/ops/batch_norm.h"
#include "norma/ops/column_gain.h"
#include "norma/ops/dyt.h"
#include "norma/ops/l2_norm.h"
#include "norma/ops/layer_norm.h"
#include "norma/ops/qk_rope.h"
#include "norma/ops/rms_norm.h"
#include "norma/ops/scale_norm.h"
#include "norma/tensor/plain.h"

namespace norma {

namespace {

/// Factors with a private learning rate are scales; the gains of ordinary norms are gains.
ParamClass class_of(const Slot& slot) {
  const bool scale = slot.gain_scale || slot.norm == NormKind::gain || slot.norm == NormKind::l2;
  return scale ? ParamClass::scale : ParamClass::gain;
}

bool decays(const Slot& slot, const DecayRules& rules, ParamClass kind) {
  return slot.decay == Choice::as_model ? rules[kind] : slot.decay == Choice::yes;
}

}  // namespace

NormLayer::NormLayer(const Slot& slot,
                     const NormPlace& place,
                     ParamStore& params,
                     const NormLayer* lender)
    : slot_(slot),
      params_(&params),
      width_(place.width),
      head_(place.head),
      context_(place.context) {
  if (!slot) return;
  declare_gain(place, lender);
  const bool shifted =
      slot.bias == Choice::yes || (slot.bias == Choice::as_model && place.model_bias);
  if (shifted) {
    const Index count = slot.scope == Scope::head ? head_ : width_;
    bias_ =
        declare(place,
                "bias",
                count,
                {.kind = ParamClass::bias, .decay = decays(slot, place.decay, ParamClass::bias)},
                0);
  }
  if (slot.norm == NormKind::dyt || slot.norm == NormKind::derf) {
    const ParamTags tags{.kind = ParamClass::scale,
                         .decay = decays(slot, place.decay, ParamClass::scale)};
    alpha_ = declare(place, "alpha", 1, tags, slot.alpha_init(place.sizes));
    if (slot.norm == NormKind::derf) shift_ = declare(place, "shift", 1, tags, 0);
  }
  if (slot.norm == NormKind::batch) {
    running_ = std::make_shared<Running>();
    running_->name = place.name;
  }
}

void NormLayer::declare_gain(const NormPlace& place, const NormLayer* lender) {
  if (slot_.gain == GainKind::none) return;
  const double init = slot_.gain_init(place.sizes);
  const double stored = slot_.gain_scale ? slot_.gain_scale(place.sizes) : init;
  if (slot_.gain_scale) {
    if (stored == 0) throw RequestError(say(place.name, ": gain_scale must not be 0."));
    gain_mult_ = init / stored;
  }
  if (slot_.gain == GainKind::shared) {
    if (lender == nullptr || lender->gain_ == kAbsent) {
      throw RequestError(say(place.name, ": there is no gain to share."));
    }
    gain_ = lender->gain_;
    gain_count_ = lender->gain_count_;
    gain_mult_ = lender->gain_mult_;
    return;
  }
  gain_count_ = slot_.gain == GainKind::scalar ? 1 : slot_.scope == Scope::head ? head_ : width_;
  if (place.pair_tied && slot_.gain == GainKind::vector) gain_count_ /= 2;
  const ParamClass kind = class_of(slot_);
  gain_ = declare(
      place,
      "gain",
      gain_count_,
      {.kind = kind, .decay = decays(slot_, place.decay, kind), .logical_scale = gain_mult_},
      stored);
}

std::size_t NormLayer::declare(
    const NormPlace& place, const char* what, Index count, ParamTags tags, double start) {
  return params_->add({say(place.name, ".", what), {count}, tags, start});
}

void NormLayer::allocate(DType dtype, Device device) {
  if (!running_) return;
  const Shape shape =
      slot_.statistics == BatchStatistics::position ? Shape{context_, width_} : Shape{width_};
  running_->mean = OwnedTensor(shape, wide(dtype), device);
  running_->var = OwnedTensor(shape, wide(dtype), device);
  fill(running_->var.tensor, 1);
}

bool NormLayer::joins_addition() const {
  const bool kind =
      slot_.norm == NormKind::layer || slot_.norm == NormKind::rms || slot_.norm == NormKind::rms1;
  return kind && slot_.scope == Scope::row;
}

bool NormLayer::gain_inside() const {
  if (slot_.norm == NormKind::gain) return false;
  if (slot_.norm == NormKind::scale) return true;
  return gain_count_ == (slot_.scope == Scope::head ? head_ : width_);
}

Var NormLayer::without_loose_gain(Tape& tape, Var x, const NormPass& pass) const {
  const Index group = slot_.scope == Scope::row ? 0 : head_;
  const bool per_column = slot_.scope == Scope::per_head;
  const Var gain = gain_inside() ? watch(tape, gain_) : Var{};
  const Var bias = watch(tape, bias_);
  switch (slot_.norm) {
    case NormKind::none:
    case NormKind::gain:
      return x;
    case NormKind::layer:
      return layer_norm(
          x, gain, bias, {.eps = eps(), .group = group, .gain_per_column = per_column});
    case NormKind::rms:
    case NormKind::rms1:
      return rms_norm(x,
                      gain,
                      {.eps = eps(),
                       .gain_offset = gain_offset(),
                       .group = group,
                       .gain_per_column = per_column});
    case NormKind::l2:
      return l2_norm(
          x,
          gain,
          {.eps = eps(), .gain_scale = gain_mult_, .group = group, .gain_per_column = per_column});
    case NormKind::scale:
      return scale_norm(x, gain, {.eps = eps()});
    case NormKind::dyt:
      return dyt(x, watch(tape, alpha_), gain, bias);
    case NormKind::derf:
      return derf(x, watch(tape, alpha_), watch(tape, shift_), gain, bias);
    case NormKind::batch: {
      BatchNormRunning running{running_->mean.tensor, running_->var.tensor};
      const Index steps = x.shape()[x.shape().rank() - 2];
      if (slot_.statistics == BatchStatistics::position && steps < context_) {
        // Shorter sequences use the statistics of their own positions.
        running.mean = running.mean.row_range(pass.offset, steps);
        running.var = running.var.row_range(pass.offset, steps);
      }
      return batch_norm(x,
                        gain,
                        bias,
                        pass.lengths,
                        running,
                        {.statistics = slot_.statistics, .training = pass.training, .eps = eps()});
    }
  }
  return x;
}

Var NormLayer::apply_gain(Tape& tape, Var x) const {
  return column_gain(x,
                     watch(tape, gain_),
                     {.mult = gain_mult_, .groups = gain_count_ == width_ ? 0 : gain_count_});
}

Var NormLayer::apply(Tape& tape, Var x, const NormPass& pass) const {
  if (!slot_) return x;
  const Var y = without_loose_gain(tape, x, pass);
  return gain_ == kAbsent || gain_inside() ? y : apply_gain(tape, y);
}

bool NormLayer::fuses_with_rope() const {
  switch (slot_.norm) {
    case NormKind::none:
    case NormKind::gain:
      return true;
    case NormKind::l2:
    case NormKind::rms:
    case NormKind::rms1:
      return slot_.scope != Scope::row;
    default:
      return false;
  }
}

Var NormLayer::apply_with_rope(
    Tape& tape, Var x, const RopeTable& table, RopeUse use, const NormPass& pass) const {
  if (!slot_) return rope(x, table, use.offset);
  if (!fuses_with_rope()) {
    return use.after_rope ? apply(tape, rope(x, table, use.offset), pass)
                          : rope(apply(tape, x, pass), table, use.offset);
  }
  // A gain for every column rides along; one for all columns, or for both of a pair, commutes with
  // the rotation and follows.
  const bool rides = gain_count_ == width_ || (gain_inside() && slot_.scope == Scope::head);
  const HeadNorm norm = slot_.norm == NormKind::l2 ? HeadNorm::l2
                        : slot_.norm == NormKind::rms || slot_.norm == NormKind::rms1
                            ? HeadNorm::rms
                            : HeadNorm::none;
  const Var y = qk_rope(x,
                        rides ? watch(tape, gain_) : Var{},
                        table,
                        {.norm = norm,
                         .after_rope = use.after_rope,
                         .gain_per_column = gain_count_ == width_ && slot_.scope != Scope::head,
                         .gain_offset = gain_offset(),
                         .gain_mult = gain_mult_,
                         .l2_eps = norm == HeadNorm::l2 ? eps() : QkRopeSpec{}.l2_eps,
                         .rms_eps = norm == HeadNorm::rms ? eps() : QkRopeSpec{}.rms_eps,
                         .offset = use.offset});
  return gain_ == kAbsent || rides ? y : apply_gain(tape, y);
}

}  // namespace norma
