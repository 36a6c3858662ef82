#include "norma/ops/cross_entropy.h"

#include "norma/kernels/cross_entropy.h"
#include "norma/ops/dispatch.h"
#include "norma/tensor/plain.h"

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

/// Checks every id and counts the tokens that are not ignored.
Index count_tokens(Var logits, Var targets) {
  const Index row_count = logits.shape().rows();
  const Index classes = logits.shape().cols();
  if (targets.shape().count() != row_count) {
    throw ShapeError(kOp, "targets", say("(N) with N = ", row_count), targets.shape().text());
  }
  if (planning()) return row_count;
  const std::int32_t* ids = elements<const std::int32_t>(targets);
  Index counted = 0;
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
    if (ids[r] >= 0) ++counted;
  }
  return counted;
}

/// What the sum over tokens is divided by.
double divisor_of(const CrossEntropySpec& spec, Index counted) {
  if (spec.tokens > 0) return spec.tokens;
  if (counted == 0) {
    throw RequestError(say(kOp,
                           ": every target is ignored, so there is no mean; give the number "
                           "of tokens to divide by."));
  }
  return static_cast<double>(counted);
}

/// The gradient of an input is factor·from.
void put_scaled(Backward& b, Var input, const Tensor& from, double factor) {
  if (!b.wants(input)) return;
  const Backward::Target target = b.into(input);
  if (target.into == Into::set) {
    copy(from, target.grad);
    if (factor != 1) scale(target.grad, factor);
  } else {
    add_scaled(from, factor, target.grad);
  }
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
  if (!hard) check_soft(logits, targets);
  const double tokens = divisor_of(spec, hard ? count_tokens(logits, targets) : row_count);

  Tape& tape = logits.tape();
  const DType dtype = logits.dtype();
  const Var loss = tape.output({1}, dtype);
  const Var token_losses = tape.output({row_count}, dtype);
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
    const Scratch factors = tape.scratch({scale ? 2 * classes : 1}, DType::f64);
    const Scratch partials = tape.scratch(partial_shape(u, classes, scale_wanted), wide(dtype));
    dispatch(kOp, u, [&](auto who, auto zero) {
      using T = decltype(zero);
      kernels::run(who,
                   kernels::CrossEntropyLoss<T>{
                       .u = rows<const T>(u),
                       .targets = hard ? elements<const std::int32_t>(targets) : nullptr,
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
                       .tokens = tokens,
                       .precondition = spec.precondition});
      // In double and in token order: the loss of a million tokens keeps its digits.
      const double* each = elements<double>(losses.tensor());
      double sum = 0;
      for (Index r = 0; r < row_count; ++r) {
        sum += each[r];
        elements<T>(token_losses)[r] = static_cast<T>(each[r]);
      }
      elements<T>(loss)[0] = static_cast<T>(sum / tokens);
    });
  }
  if (in_place) tape.consume(logits);
  tape.record(kOp, {logits, scale}, {loss}, [=](Backward& b) {
    const double upstream = planning() ? 1 : value_at(b.grad(loss), 0, 0);
    if (in_place && upstream == 1 && b.wants(logits)) {
      b.lend(logits, du);
    } else {
      put_scaled(b, logits, du, upstream);
    }
    put_scaled(b, scale, dscale, upstream);
  });
  return {loss, token_losses, right};
}

}  // namespace norma
