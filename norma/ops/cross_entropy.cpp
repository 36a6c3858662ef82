#include "norma/ops/cross_entropy.h"

#include "norma/kernels/cross_entropy.h"
#include "norma/kernels/scaled.h"
#include "norma/ops/dispatch.h"

namespace norma {

namespace {

constexpr std::string_view kOp = "cross_entropy";

void check_spec(const CrossEntropySpec& spec, Var scale) {
  if (!(spec.smoothing >= 0 && spec.smoothing < 1)) {
    throw RequestError(say(kOp, ": smoothing must be in [0, 1), got ", spec.smoothing, "."));
  }
  if (!(spec.softcap >= 0)) {
    throw RequestError(
        say(kOp, ": softcap must be positive, or 0 for none, got ", spec.softcap, "."));
  }
  if (!(spec.z_loss >= 0)) {
    throw RequestError(say(kOp, ": z_loss must not be negative, got ", spec.z_loss, "."));
  }
  if (!(spec.tokens >= 0)) {
    throw RequestError(
        say(kOp, ": tokens must be positive, or 0 for those that count, got ", spec.tokens, "."));
  }
  if (spec.precondition != 0 && !scale) {
    throw RequestError(
        say(kOp, ": precondition ", spec.precondition, " needs a scale per class, got none."));
  }
}

void check_soft(Var logits, Var targets) {
  require_same_type(kOp, logits, "targets", targets);
  require_shape(kOp, "targets", targets, logits.shape());
  if (targets.needs_grad()) {
    throw RequestError(
        say(kOp, " has no gradient for its targets; detach() them if that is what you mean."));
  }
}

/// Looks at every id, where the host can.
void check_ids(Var logits, Var targets, const CrossEntropySpec& spec) {
  const Index row_count = logits.shape().rows();
  const Index classes = logits.shape().cols();
  if (targets.shape().count() != row_count) {
    throw ShapeError(kOp, "targets", say("(N) with N = ", row_count), targets.shape().text());
  }
  if (planning() || targets.value().device.kind != DeviceKind::cpu) return;
  const std::int32_t* ids = elements<const std::int32_t>(targets);
  bool any = false;
  for (Index r = 0; r < row_count; ++r) {
    if (ids[r] < -1 || ids[r] >= classes) {
      throw RequestError(say(kOp,
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
    throw RequestError(say(kOp,
                           ": every target is ignored, so there is no mean; give the number "
                           "of tokens to divide by."));
  }
}

/// The gradient of an input is that of the loss times what forward computed.
void put_scaled(Backward& b, Var input, const Tensor& from, Var loss) {
  if (!b.wants(input)) return;
  const WantedRows to = wanted(b, input);
  const Tensor upstream = b.grad(loss);
  dispatch(kOp, from, [&](auto who, auto zero) {
    using T = decltype(zero);
    kernels::run(who,
                 kernels::PutScaled<T>{.from = rows<const T>(from),
                                       .factor = elements<const Wide<T>>(upstream),
                                       .to = to.rows<T>(),
                                       .into = to.into});
  });
}

}  // namespace

CrossEntropyResult cross_entropy(Var logits, Var targets, Var scale, CrossEntropySpec spec) {
  require_float(kOp, "logits", logits);
  if (!targets) throw RequestError(say(kOp, ": targets are missing."));
  require_vector_type(kOp, logits, "scale", scale);
  const Index classes = logits.shape().cols();
  const Index row_count = logits.shape().rows();
  require_shape(kOp, "scale", scale, {classes});
  check_spec(spec, scale);
  const bool hard = targets.dtype() == DType::i32;
  if (spec.count_right && !hard) {
    throw RequestError(say(kOp, ": count_right needs targets that are ids (i32)."));
  }
  if (hard) {
    check_ids(logits, targets, spec);
  } else {
    check_soft(logits, targets);
  }

  Tape& tape = logits.tape();
  const DType dtype = logits.dtype();
  const Var loss = tape.output({1}, wide(dtype));
  const Var token_losses = tape.output({row_count}, wide(dtype));
  const Var right = spec.count_right ? tape.output({row_count}, DType::i32) : Var{};
  // Without a wish for gradients the logits stay as they are.
  const bool scale_wanted = tape.recording() && scale.needs_grad();
  const bool wanted_at_all = scale_wanted || (tape.recording() && logits.needs_grad());
  const bool in_place = wanted_at_all && tape.may_overwrite(logits);
  const Tensor u = logits.value();
  Tensor du;
  if (wanted_at_all) du = in_place ? u : tape.saved(logits.shape(), dtype);
  const Tensor dscale = scale_wanted ? tape.saved({classes}, wide(dtype)) : Tensor{};
  {
    const Scratch losses = tape.scratch({row_count}, DType::f64);
    const Scratch tokens = tape.scratch({1}, DType::f64);
    const Scratch factors = tape.scratch({scale ? 2 * classes : 1}, DType::f64);
    const Scratch partials = tape.scratch(partial_shape(u, classes, scale_wanted), wide(dtype));
    dispatch(kOp, u, [&](auto who, auto zero) {
      using T = decltype(zero);
      const std::int32_t* ids = hard ? elements<const std::int32_t>(targets) : nullptr;
      double* divisor = elements<double>(tokens.tensor());
      kernels::run(kernels::few(who),
                   kernels::LossTokens{
                       .targets = ids, .rows = row_count, .given = spec.tokens, .tokens = divisor});
      kernels::run(who,
                   kernels::CrossEntropyLoss<T>{
                       .u = rows<const T>(u),
                       .targets = ids,
                       .soft = hard ? kernels::Rows<const T>{} : rows<const T>(targets),
                       .scale = elements<const Wide<T>>(scale),
                       .du = du ? rows<T>(du) : kernels::Rows<T>{},
                       .dscale = elements<Wide<T>>(dscale),
                       .partials = elements<Wide<T>>(partials.tensor()),
                       .factors = elements<double>(factors.tensor()),
                       .losses = elements<double>(losses.tensor()),
                       .right = elements<std::int32_t>(right),
                       .scale_mult = spec.scale_mult,
                       .smoothing = spec.smoothing,
                       .softcap = spec.softcap,
                       .z_loss = spec.z_loss,
                       .tokens = divisor,
                       .precondition = spec.precondition});
      kernels::run(kernels::few(who),
                   kernels::LossSum<T>{.losses = elements<double>(losses.tensor()),
                                       .rows = row_count,
                                       .tokens = divisor,
                                       .token_losses = elements<Wide<T>>(token_losses),
                                       .loss = elements<Wide<T>>(loss)});
    });
  }
  if (in_place) tape.consume(logits);
  tape.record(kOp, {logits, scale}, {loss}, [=](Backward& b) {
    if (in_place && b.is_unit_seed(loss) && b.wants(logits)) {
      b.lend(logits, du);
    } else {
      put_scaled(b, logits, du, loss);
    }
    put_scaled(b, scale, dscale, loss);
  });
  return {loss, token_losses, right};
}

}  // namespace norma
