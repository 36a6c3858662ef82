#include "norma/ops/cross_entropy.h"

#include "norma/base/threads.h"
#include "norma/kernels/cross_entropy.h"
#include "norma/ops/dispatch.h"
#include "norma/tensor/plain.h"

namespace norma {

namespace {

constexpr std::string_view kOp = "cross_entropy";

void check_range(std::string_view name, double value, double most, std::string_view range) {
  if (!(value >= 0 && value <= most)) {
    throw RequestError(say(kOp, ": ", name, " must lie in ", range, ", got ", value, "."));
  }
}

/// Checks class ids; returns how many tokens count.
Index count_tokens(Var targets, Index classes) {
  Index valid = 0;
  const auto ids = targets.value().elements<const std::int32_t>();
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < -1 || ids[i] >= classes) {
      throw RequestError(say(kOp,
                             ": target ",
                             i,
                             " is ",
                             ids[i],
                             ", but there are ",
                             classes,
                             " classes (-1 ignores a token)."));
    }
    valid += ids[i] >= 0 ? 1 : 0;
  }
  if (valid == 0) throw RequestError(say(kOp, ": every target is ignored, so there is no loss."));
  return valid;
}

void check_inputs(Var logits, Var targets, Var scale, const CrossEntropySpec& spec) {
  require_float(kOp, "logits", logits);
  if (!targets) throw RequestError(say(kOp, ": targets are missing."));
  const Shape shape = logits.shape();
  if (targets.dtype() == DType::i32) {
    if (targets.value().count() != shape.rows()) {
      throw ShapeError(kOp, "targets", say("(N) with N = ", shape.rows()), targets.shape().text());
    }
  } else {
    require_same_type(kOp, logits, "targets", targets);
    require_shape(kOp, "targets", targets, shape);
    if (targets.needs_grad()) {
      throw RequestError(say(kOp, ": soft targets have no gradient; detach() them."));
    }
  }
  require_same_type(kOp, logits, "scale", scale);
  require_shape(kOp, "scale", scale, {shape.cols()});
  check_range("smoothing", spec.smoothing, 1, "[0, 1]");
  check_range("softcap", spec.softcap, 1e30, "[0, 1e30]");
  check_range("z_loss", spec.z_loss, 1e30, "[0, 1e30]");
  check_range("tokens", spec.tokens, 1e30, "[0, 1e30]");
  if (spec.precondition != 0 && !scale) {
    throw RequestError(say(kOp, ": precondition needs a scale."));
  }
}

/// Adds or sets `from` times a number.
void put_scaled(const Tensor& from, double factor, const WantedRows& to) {
  if (to.into == Into::set) fill(to.grad, 0);
  add_scaled(from, factor, to.grad);
}

}  // namespace

CrossEntropyResult cross_entropy(Var logits, Var targets, Var scale, CrossEntropySpec spec) {
  check_inputs(logits, targets, scale, spec);
  const Index N = logits.shape().rows();
  const Index V = logits.shape().cols();
  const bool hard = targets.dtype() == DType::i32;
  const double tokens =
      hard ? static_cast<double>(count_tokens(targets, V)) : static_cast<double>(N);
  const double weight = 1 / (spec.tokens > 0 ? spec.tokens : tokens);

  Tape& tape = logits.tape();
  const bool in_place = tape.may_overwrite(logits);
  const Tensor u = logits.value();
  const Tensor du = in_place ? u : tape.saved(logits.shape(), logits.dtype());
  const bool dscale_wanted = scale.needs_grad();
  const Tensor dscale = dscale_wanted ? tape.saved({V}, logits.dtype()) : Tensor{};
  const Var token_losses = tape.output({N}, logits.dtype());
  const Var loss = tape.output({1}, logits.dtype());
  {
    const Scratch scales = tape.scratch({2, V}, logits.dtype());
    const Scratch row = tape.scratch({thread_count(), V}, logits.dtype());
    const Scratch partials = tape.scratch(partial_shape(N, V, dscale_wanted), logits.dtype());
    dispatch(kOp, u, [&](auto who, auto zero) {
      using T = decltype(zero);
      T* scaled = scale ? elements<T>(scales.tensor()) : nullptr;
      T* du_scale = scale ? scaled + V : nullptr;
      if (scale) {
        kernels::run(kernels::Ref{},
                     kernels::LogitScales<T>{.stored = elements<const T>(scale),
                                             .count = V,
                                             .mult = spec.scale_mult,
                                             .power = spec.precondition,
                                             .scale = scaled,
                                             .du_scale = du_scale});
      }
      kernels::run(who,
                   kernels::CrossEntropy<T>{
                       .u = rows<const T>(u),
                       .targets = hard ? elements<const std::int32_t>(targets) : nullptr,
                       .soft = hard ? kernels::Rows<const T>{} : rows<const T>(targets),
                       .scale = scaled,
                       .du_scale = du_scale,
                       .smoothing = spec.smoothing,
                       .softcap = spec.softcap,
                       .z_loss = spec.z_loss,
                       .weight = weight,
                       .du = rows<T>(du),
                       .token_loss = elements<T>(token_losses),
                       .dscale = elements<T>(dscale),
                       .partials = elements<T>(partials.tensor()),
                       .scratch = elements<T>(row.tensor())});
      // In double and in token order: the loss of a million tokens keeps its digits.
      double sum = 0;
      for (const T token : token_losses.value().template elements<const T>()) {
        sum += static_cast<double>(token);
      }
      elements<T>(loss)[0] = static_cast<T>(sum * weight);
    });
  }
  if (in_place) tape.consume(logits);
  tape.record(kOp, {logits, scale}, {loss}, [=](Backward& b) {
    const double upstream = value_at(b.grad(loss), 0, 0);
    if (b.wants(logits)) {
      if (in_place && upstream == 1) {
        b.lend(logits, du);
      } else {
        put_scaled(du, upstream, wanted(b, logits));
      }
    }
    if (b.wants(scale)) put_scaled(dscale, upstream * spec.scale_mult, wanted(b, scale));
  });
  return {loss, token_losses};
}

}  // namespace norma
