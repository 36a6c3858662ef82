#include "norma/models/residual_join.h"

#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/ops/add_norm.h"
#include "norma/ops/geodesic.h"
#include "norma/ops/residual.h"
#include "norma/tensor/plain.h"

namespace norma {

namespace {

BranchNorm branch_norm(Tape& tape, const NormLayer& mid) {
  return {.gain = mid.gain(tape), .gain_offset = mid.gain_offset(), .eps = mid.eps()};
}

}  // namespace

ResidualJoin::ResidualJoin(const Build& build, const ResidualRule& rule, const std::string& name)
    : rule_(rule), params_(build.params), scale_(build.value(rule.scale)) {
  if (rule.rule == Residual::rscale) {
    vector_ = build.scale(name + ".lambda", build.spec.width, 1);
  }
  if (!rule.on_sphere() && rule.rule != Residual::alerp) return;
  const double init = build.value(rule.alpha_init);
  if (rule.alpha == AlphaKind::fixed) {
    fixed_alpha_ = init;
    return;
  }
  const double stored = build.value(rule.alpha_scale);
  if (stored == 0) throw RequestError(say(name, ": alpha_scale must not be 0."));
  alpha_mult_ = init / stored;
  vector_ = build.scale(
      name + ".alpha", rule.alpha == AlphaKind::scalar ? 1 : build.spec.width, stored, alpha_mult_);
}

void ResidualJoin::allocate(DType dtype, Device device) {
  fixed_ = OwnedTensor({1}, wide(dtype), device);
  fill(fixed_.tensor, fixed_alpha_);
}

Var ResidualJoin::joined(Tape& tape, Var x, Var branch) const {
  const auto alpha = [&] {
    return vector_ == kNoParam ? tape.constant(fixed_.tensor) : watch(tape, params_, vector_);
  };
  switch (rule_.rule) {
    case Residual::add:
      return residual_add(x, branch);
    case Residual::scaled:
      return residual_add(x, branch, {.scale = scale_});
    case Residual::rscale:
      return residual_rscale(x, branch, watch(tape, params_, vector_));
    case Residual::lerp:
      return geodesic(x, branch, alpha(), {.rule = GeodesicRule::lerp, .alpha_mult = alpha_mult_});
    case Residual::slerp:
      return geodesic(x, branch, alpha(), {.rule = GeodesicRule::slerp, .alpha_mult = alpha_mult_});
    case Residual::riem:
      return geodesic(x, branch, alpha(), {.rule = GeodesicRule::riem, .alpha_mult = alpha_mult_});
    case Residual::alerp:
      return alerp(x, branch, alpha(), {.mult = alpha_mult_});
  }
  return {};
}

Stream ResidualJoin::apply(Tape& tape,
                           Var x,
                           Var branch,
                           const NormLayer& mid,
                           const NormLayer& post,
                           const NormLayer& next,
                           const NormPass& pass) const {
  const bool addition = rule_.rule == Residual::add || rule_.rule == Residual::scaled;
  const NormLayer& behind = post ? post : next;
  if (addition && behind.joins_addition()) {
    const auto kind = behind.slot().norm == NormKind::layer ? AddNormKind::layer : AddNormKind::rms;
    const AddNormSpec spec{.norm = kind,
                           .scale = rule_.rule == Residual::scaled ? scale_ : 1,
                           .gain_offset = behind.gain_offset(),
                           .eps = behind.eps()};
    const Var gain = behind.gain(tape);
    const Var bias = behind.bias(tape);
    const AddNormResult both =
        mid ? norm_add_norm(x, branch, branch_norm(tape, mid), gain, bias, spec)
            : add_norm(x, branch, gain, bias, spec);
    if (!post) return {both.sum, both.normed};
    return {both.normed, next.apply(tape, both.normed, pass)};
  }
  const Var sum = mid ? norm_add(x, branch, branch_norm(tape, mid)) : joined(tape, x, branch);
  return after(tape, sum, post, next, pass);
}

Stream ResidualJoin::after(
    Tape& tape, Var sum, const NormLayer& post, const NormLayer& next, const NormPass& pass) {
  const Var x = post.apply(tape, sum, pass);
  return {x, next.apply(tape, x, pass)};
}

}  // namespace norma
