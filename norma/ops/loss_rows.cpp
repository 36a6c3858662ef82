#include "norma/ops/loss_rows.h"

#include "norma/kernels/cross_entropy.h"
#include "norma/kernels/head_odds.h"
#include "norma/kernels/scaled.h"
#include "norma/ops/dispatch.h"

namespace norma {

namespace {

void check_spec(std::string_view op, const CrossEntropySpec& spec, Var scale) {
  if (!(spec.smoothing >= 0 && spec.smoothing < 1)) {
    throw RequestError(say(op, ": smoothing must be in [0, 1), got ", spec.smoothing, "."));
  }
  if (!(spec.softcap >= 0)) {
    throw RequestError(
        say(op, ": softcap must be positive, or 0 for none, got ", spec.softcap, "."));
  }
  if (!(spec.z_loss >= 0)) {
    throw RequestError(say(op, ": z_loss must not be negative, got ", spec.z_loss, "."));
  }
  if (!(spec.tokens >= 0)) {
    throw RequestError(
        say(op, ": tokens must be positive, or 0 for those that count, got ", spec.tokens, "."));
  }
  if (spec.precondition != 0 && !scale) {
    throw RequestError(
        say(op, ": precondition ", spec.precondition, " needs a scale per class, got none."));
  }
}

void check_soft(std::string_view op, const Shape& logits, DType dtype, Var targets) {
  if (targets.dtype() != dtype) {
    throw RequestError(say(op,
                           ": targets must be ",
                           name_of(dtype),
                           " as the logits are, or ids (i32), got ",
                           name_of(targets.dtype()),
                           "."));
  }
  require_shape(op, "targets", targets, logits);
  if (targets.needs_grad()) {
    throw RequestError(
        say(op, " has no gradient for its targets; detach() them if that is what you mean."));
  }
}

/// Looks at every id, where the host can.
void check_ids(std::string_view op,
               const Shape& logits,
               Var targets,
               const CrossEntropySpec& spec) {
  const Index row_count = logits.rows();
  const Index classes = logits.cols();
  if (targets.shape().count() != row_count) {
    throw ShapeError(op, "targets", say("(N) with N = ", row_count), targets.shape().text());
  }
  if (planning() || targets.value().device.kind != DeviceKind::cpu) return;
  const std::int32_t* ids = elements<const std::int32_t>(targets);
  bool any = false;
  for (Index r = 0; r < row_count; ++r) {
    if (ids[r] < -1 || ids[r] >= classes) {
      throw RequestError(say(op,
                             ": target ",
                             r,
                             " is ",
                             ids[r],
                             ", but there are ",
                             classes,
                             " classes (-1 ignores a token)."));
    }
    any = any || ids[r] >= 0;
  }
  if (!any && spec.tokens == 0) {
    throw RequestError(say(op,
                           ": every target is ignored, so there is no mean; give the number "
                           "of tokens to divide by."));
  }
}

}  // namespace

void require_loss(std::string_view op,
                  const Shape& logits,
                  DType dtype,
                  Var targets,
                  Var scale,
                  const CrossEntropySpec& spec) {
  if (!targets) throw RequestError(say(op, ": targets are missing."));
  require_shape(op, "scale", scale, {logits.cols()});
  check_spec(op, spec, scale);
  const bool hard = targets.dtype() == DType::i32;
  if (spec.count_right && !hard) {
    throw RequestError(say(op, ": count_right needs targets that are ids (i32)."));
  }
  if (hard) {
    check_ids(op, logits, targets, spec);
  } else {
    check_soft(op, logits, dtype, targets);
  }
}

LossPass::LossPass(std::string_view op,
                   Var targets,
                   Var scale,
                   const Shape& logits,
                   DType dtype,
                   const CrossEntropySpec& spec,
                   Tape& tape)
    : op_(op),
      targets_(targets),
      scale_(scale),
      dtype_(dtype),
      spec_(spec),
      result_{.loss = tape.output({1}, wide(dtype)),
              .token_losses = tape.output({logits.rows()}, wide(dtype)),
              .right = spec.count_right ? tape.output({logits.rows()}, DType::i32) : Var{}},
      losses_(tape.scratch({logits.rows()}, DType::f64)),
      tokens_(tape.scratch({1}, DType::f64)),
      factors_(tape.scratch({scale ? 2 * logits.cols() : 1}, DType::f64)) {
  dispatch(op_, result_.token_losses.value(), [&](auto who, auto) {
    kernels::run(kernels::few(who),
                 kernels::LossTokens{.targets = ids(),
                                     .rows = logits.rows(),
                                     .given = spec_.tokens,
                                     .tokens = elements<double>(tokens_.tensor())});
  });
}

const std::int32_t* LossPass::ids() const {
  return targets_.dtype() == DType::i32 ? elements<const std::int32_t>(targets_) : nullptr;
}

void LossPass::rows(const Tensor& u, Index first, const Tensor& du, const Tensor& dscale) {
  const Scratch partials = targets_.tape().scratch(
      partial_shape(u, u.shape.cols(), static_cast<bool>(dscale)), wide(dtype_));
  dispatch(op_, u, [&](auto who, auto zero) {
    using T = decltype(zero);
    const std::int32_t* all = ids();
    std::int32_t* right = elements<std::int32_t>(result_.right);
    kernels::run(
        who,
        kernels::CrossEntropyLoss<T>{
            .u = norma::rows<const T>(u),
            .targets = all == nullptr ? nullptr : all + first,
            .soft = all != nullptr ? kernels::Rows<const T>{} : norma::rows<const T>(targets_),
            .scale = elements<const Wide<T>>(scale_),
            .du = du ? norma::rows<T>(du) : kernels::Rows<T>{},
            .dscale = elements<Wide<T>>(dscale),
            .partials = elements<Wide<T>>(partials.tensor()),
            .factors = elements<double>(factors_.tensor()),
            .losses = elements<double>(losses_.tensor()) + first,
            .right = right == nullptr ? nullptr : right + first,
            .scale_mult = spec_.scale_mult,
            .smoothing = spec_.smoothing,
            .softcap = spec_.softcap,
            .z_loss = spec_.z_loss,
            .tokens = elements<double>(tokens_.tensor()),
            .precondition = spec_.precondition});
  });
}

bool LossPass::has_odds(const Tensor& x, const Tensor& weight) const {
  const bool may = x.device.kind == DeviceKind::cuda && dtype_ == DType::bf16 &&
                   targets_.dtype() == DType::i32 && !spec_.count_right && spec_.smoothing == 0 &&
                   spec_.softcap == 0 && spec_.precondition == 0;
  return may &&
         kernels::odds_fit(
             norma::rows<const Bf16>(x), elements<const Bf16>(weight), weight.shape[0]) &&
         (!device::available() || device::runs_hopper_kernels());
}

void LossPass::odds(const Tensor& x,
                    const Tensor& weight,
                    Index first,
                    const Tensor& odds,
                    const Tensor& shared_x,
                    const Tensor& shares) {
  const Index scratch_size = kernels::head_odds_scratch(odds.shape.rows(), odds.shape.cols());
  const Scratch scratch = targets_.tape().scratch({scratch_size}, wide(dtype_));
  dispatch(op_, x, [&](auto who, auto zero) {
    using T = decltype(zero);
    const bool done = kernels::run_fused(
        who,
        kernels::HeadOdds<T>{.x = norma::rows<const T>(x),
                             .weight = elements<const T>(weight),
                             .targets = ids() + first,
                             .odds = norma::rows<T>(odds),
                             .shared_x = norma::rows<T>(shared_x),
                             .shares = elements<Wide<T>>(shares) + first,
                             .losses = elements<double>(losses_.tensor()) + first,
                             .scratch = elements<Wide<T>>(scratch.tensor()),
                             .z_loss = spec_.z_loss,
                             .tokens = elements<double>(tokens_.tensor())});
    if (!done) throw Error(say(op_, ": no kernel has the odds of ", x.shape.text(), "."));
  });
}

CrossEntropyResult LossPass::finish() {
  const Shape tokens = result_.token_losses.shape();
  Tensor like = result_.loss.value();
  like.dtype = dtype_;
  dispatch(op_, like, [&](auto who, auto zero) {
    using T = decltype(zero);
    kernels::run(kernels::few(who),
                 kernels::LossSum<T>{.losses = elements<double>(losses_.tensor()),
                                     .rows = tokens.count(),
                                     .tokens = elements<double>(tokens_.tensor()),
                                     .token_losses = elements<Wide<T>>(result_.token_losses),
                                     .loss = elements<Wide<T>>(result_.loss)});
  });
  return result_;
}

void put_scaled(std::string_view op,
                Backward& b,
                Var input,
                const Tensor& from,
                Var loss,
                const Tensor& shares) {
  if (!b.wants(input)) return;
  const WantedRows to = wanted(b, input);
  const Tensor upstream = b.grad(loss);
  dispatch(op, from, [&](auto who, auto zero) {
    using T = decltype(zero);
    kernels::run(who,
                 kernels::PutScaled<T>{.from = rows<const T>(from),
                                       .factor = elements<const Wide<T>>(upstream),
                                       .shares = elements<const Wide<T>>(shares),
                                       .to = to.rows<T>(),
                                       .into = to.into});
  });
}

}  // namespace norma
