#include "norma/ops/dropout.h"

#include "norma/kernels/dropout.h"
#include "norma/ops/dispatch.h"

namespace norma {

namespace {

void require_drop(std::string_view op, Var x, const DropSpec& spec) {
  if (!(spec.rate >= 0 && spec.rate < 1)) {
    throw RequestError(say(op, ": rate must lie in [0, 1), got ", spec.rate, "."));
  }
  if (!spec.step) return;
  if (spec.step.shape != Shape{1}) throw ShapeError(op, "step", "(1)", spec.step.shape.text());
  if (spec.step.dtype != DType::i32) {
    throw RequestError(say(op, ": step must be i32, got ", name_of(spec.step.dtype), "."));
  }
  if (spec.step.device != x.value().device) {
    throw RequestError(say(op,
                           ": x lies on ",
                           name_of(x.value().device),
                           ", step on ",
                           name_of(spec.step.device),
                           "."));
  }
}

kernels::DropRule rule_of(const DropSpec& spec, Index rows_per_sample) {
  constexpr double kWords = 4294967296.0;
  return {.key = spec.key,
          .step = elements<const std::int32_t>(spec.step),
          .threshold = static_cast<std::uint32_t>(spec.rate * kWords),
          .scale = 1 / (1 - spec.rate),
          .first = spec.first_sample * rows_per_sample};
}

void drop_elements(const Tensor& from, const Tensor& to, Into into, const DropSpec& spec) {
  dispatch("dropout", from, [&](auto who, auto zero) {
    using T = decltype(zero);
    const Index rows_per_sample = from.shape.rank() < 2 ? 1 : from.shape.rows() / from.shape[0];
    kernels::run(who,
                 kernels::Dropout<T>{.from = rows<const T>(from),
                                     .to = rows<T>(to),
                                     .into = into,
                                     .rule = rule_of(spec, rows_per_sample)});
  });
}

void drop_samples(const Tensor& from, const Tensor& to, Into into, const DropSpec& spec) {
  dispatch("drop_path", from, [&](auto who, auto zero) {
    using T = decltype(zero);
    kernels::run(who,
                 kernels::DropPath<T>{.from = rows<const T>(from),
                                      .to = rows<T>(to),
                                      .into = into,
                                      .rule = rule_of(spec, 1),
                                      .rows_per_sample = from.shape.rows() / from.shape[0]});
  });
}

}  // namespace

Var dropout(Var x, DropSpec spec) {
  constexpr std::string_view kOp = "dropout";
  require_float(kOp, "x", x);
  require_drop(kOp, x, spec);
  if (spec.rate == 0 || !spec.training) return x;

  Tape& tape = x.tape();
  const Var y = tape.output(x.shape(), x.dtype());
  drop_elements(x.value(), y.value(), Into::set, spec);
  tape.record(kOp, {x}, {y}, [=](Backward& b) {
    const Tensor dy = b.grad(y);
    const WantedRows dx = wanted(b, x);
    drop_elements(dy, dx.grad, dx.into, spec);
  });
  return y;
}

Var drop_path(Var x, DropSpec spec) {
  constexpr std::string_view kOp = "drop_path";
  require_float(kOp, "x", x);
  require_drop(kOp, x, spec);
  if (x.shape().rank() < 2) throw ShapeError(kOp, "x", "(B, ...)", x.shape().text());
  if (spec.rate == 0 || !spec.training) return x;

  Tape& tape = x.tape();
  const Var y = tape.output(x.shape(), x.dtype());
  drop_samples(x.value(), y.value(), Into::set, spec);
  tape.record(kOp, {x}, {y}, [=](Backward& b) {
    const Tensor dy = b.grad(y);
    const WantedRows dx = wanted(b, x);
    drop_samples(dy, dx.grad, dx.into, spec);
  });
  return y;
}

}  // namespace norma
