#include "norma/ops/residual.h"

#include "norma/kernels/column_gain.h"
#include "norma/kernels/residual.h"
#include "norma/ops/dispatch.h"

namespace norma {

namespace {

void require_sides(std::string_view op, Var x, Var b) {
  require_float(op, "x", x);
  require_float(op, "b", b);
  require_same_type(op, x, "b", b);
  require_shape(op, "b", b, x.shape());
}

/// y = scale·lambda·x + b
Var joined(std::string_view op, Var x, Var b, Var lambda, double scale) {
  const Var y = x.tape().output(x.shape(), x.dtype());
  dispatch(op, x.value(), [&](auto who, auto zero) {
    using T = decltype(zero);
    kernels::run(who,
                 kernels::ResidualForward<T>{.x = rows<const T>(x),
                                             .b = rows<const T>(b),
                                             .lambda = elements<const Wide<T>>(lambda),
                                             .y = rows<T>(y),
                                             .scale = scale});
  });
  return y;
}

/// Gradients of scale·lambda·x.
void backward_of_x(std::string_view op, Backward& b, Var x, Var lambda, Var y, double scale) {
  const Tensor dy = b.grad(y);
  const WantedRows dx = wanted(b, x);
  const WantedRows dlambda = wanted(b, lambda);
  const Index cols = dy.shape.cols();
  const Scratch partials = b.scratch(partial_shape(dy, cols, bool(dlambda)), wide(dy.dtype));
  dispatch(op, dy, [&](auto who, auto zero) {
    using T = decltype(zero);
    kernels::run(who,
                 kernels::ColumnGainBackward<T>{
                     .x = dlambda ? rows<const T>(x) : kernels::Rows<const T>{},
                     .gain = elements<const Wide<T>>(lambda),
                     .dy = rows<const T>(dy),
                     .dx = dx.rows<T>(),
                     .dx_into = dx.into,
                     .dgain = dlambda.data<Wide<T>>(),
                     .dgain_into = dlambda.into,
                     .partials = dlambda ? elements<Wide<T>>(partials.tensor()) : nullptr,
                     .shared = nullptr,
                     .block = 1,
                     .mult = scale});
  });
}

}  // namespace

Var residual_add(Var x, Var b, ResidualSpec spec) {
  constexpr std::string_view kOp = "residual_add";
  require_sides(kOp, x, b);
  const Var y = joined(kOp, x, b, {}, spec.scale);
  x.tape().record(kOp, {x, b}, {y}, [=](Backward& backward) {
    if (spec.scale == 1) {
      backward.pass(x, y);
    } else if (backward.wants(x)) {
      backward_of_x(kOp, backward, x, {}, y, spec.scale);
    }
    backward.pass(b, y);
  });
  return y;
}

Var residual_rscale(Var x, Var b, Var lambda) {
  constexpr std::string_view kOp = "residual_rscale";
  require_sides(kOp, x, b);
  require_float(kOp, "lambda", lambda);
  require_vector_type(kOp, x, "lambda", lambda);
  require_shape(kOp, "lambda", lambda, {x.shape().cols()});
  const Var y = joined(kOp, x, b, lambda, 1);
  Tape& tape = x.tape();
  if (lambda.needs_grad()) tape.pin(x);
  tape.pin(lambda);
  tape.record(kOp, {x, b, lambda}, {y}, [=](Backward& backward) {
    if (backward.wants(x) || backward.wants(lambda)) {
      backward_of_x(kOp, backward, x, lambda, y, 1);
    }
    backward.pass(b, y);
  });
  return y;
}

Var alerp(Var x, Var b, Var alpha_raw, AlerpSpec spec) {
  constexpr std::string_view kOp = "alerp";
  require_sides(kOp, x, b);
  require_float(kOp, "alpha_raw", alpha_raw);
  require_vector_type(kOp, x, "alpha_raw", alpha_raw);
  const Index cols = x.shape().cols();
  if (alpha_raw.shape() != Shape{1}) require_shape(kOp, "alpha_raw", alpha_raw, {cols});
  const Index alphas = alpha_raw.shape().count();

  Tape& tape = x.tape();
  const Var y = tape.output(x.shape(), x.dtype());
  {
    const Scratch coefficients = tape.scratch({kernels::kAlerpForwardRows, cols}, wide(x.dtype()));
    dispatch(kOp, x.value(), [&](auto who, auto zero) {
      using T = decltype(zero);
      kernels::run(
          who,
          kernels::AlerpForward<T>{.x = rows<const T>(x),
                                   .b = rows<const T>(b),
                                   .alpha_raw = elements<const Wide<T>>(alpha_raw),
                                   .alphas = alphas,
                                   .y = rows<T>(y),
                                   .coefficients = elements<Wide<T>>(coefficients.tensor()),
                                   .mult = spec.mult});
    });
  }
  if (alpha_raw.needs_grad()) {
    tape.pin(x);
    tape.pin(b);
  }
  tape.pin(alpha_raw);
  tape.record(kOp, {x, b, alpha_raw}, {y}, [=](Backward& backward) {
    const Tensor dy = backward.grad(y);
    const WantedRows dx = wanted(backward, x);
    const WantedRows db = wanted(backward, b);
    const WantedRows dalpha = wanted(backward, alpha_raw);
    const Scratch coefficients =
        backward.scratch({kernels::kAlerpBackwardRows, cols}, wide(dy.dtype));
    const Scratch partials =
        backward.scratch(partial_shape(dy, cols, bool(dalpha)), wide(dy.dtype));
    dispatch(kOp, dy, [&](auto who, auto zero) {
      using T = decltype(zero);
      kernels::run(
          who,
          kernels::AlerpBackward<T>{.x = dalpha ? rows<const T>(x) : kernels::Rows<const T>{},
                                    .b = dalpha ? rows<const T>(b) : kernels::Rows<const T>{},
                                    .alpha_raw = elements<const Wide<T>>(alpha_raw),
                                    .alphas = alphas,
                                    .dy = rows<const T>(dy),
                                    .dx = dx.rows<T>(),
                                    .dx_into = dx.into,
                                    .db = db.rows<T>(),
                                    .db_into = db.into,
                                    .dalpha = dalpha.data<Wide<T>>(),
                                    .dalpha_into = dalpha.into,
                                    .partials = elements<Wide<T>>(partials.tensor()),
                                    .coefficients = elements<Wide<T>>(coefficients.tensor()),
                                    .mult = spec.mult});
    });
  });
  return y;
}

}  // namespace norma
