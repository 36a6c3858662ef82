#include "norma/ops/l2_norm.h"

#include "norma/kernels/l2_norm.h"
#include "norma/ops/dispatch.h"
#include "norma/ops/l2_rows.h"

namespace norma {

Var l2_rows(std::string_view op, Var x, Var gain, L2Rows spec) {
  require_float(op, "x", x);
  require_vector_type(op, x, "gain", gain);
  const Index cols = x.shape().cols();
  require_divides(op, "group", spec.group, "the width", cols);
  require_shape(op, "gain", gain, {spec.gains});

  Tape& tape = x.tape();
  const Var y = tape.output(x.shape(), x.dtype());
  const Tensor rnorm = tape.saved({x.shape().rows(), cols / spec.group}, wide(x.dtype()));
  const auto make = [=] {
    dispatch(op, x.value(), [&](auto who, auto zero) {
      using T = decltype(zero);
      kernels::run(who,
                   kernels::L2NormForward<T>{.x = rows<const T>(x),
                                             .gain = elements<const Wide<T>>(gain),
                                             .gains = spec.gains,
                                             .gain_scale = spec.gain_scale,
                                             .y = rows<T>(y),
                                             .rnorm = elements<Wide<T>>(rnorm),
                                             .group = spec.group,
                                             .eps = spec.eps});
    });
  };
  make();
  tape.pin(x);
  tape.pin(gain);
  const auto rule = [=](Backward& b) {
    const Tensor dy = b.grad(y);
    const WantedRows dx = wanted(b, x);
    const WantedRows dgain = wanted(b, gain);
    const Scratch partials = b.scratch(partial_shape(dy, spec.gains, bool(dgain)), wide(dy.dtype));
    dispatch(op, dy, [&](auto who, auto zero) {
      using T = decltype(zero);
      kernels::run(who,
                   kernels::L2NormBackward<T>{.x = rows<const T>(x),
                                              .gain = elements<const Wide<T>>(gain),
                                              .gains = spec.gains,
                                              .gain_scale = spec.gain_scale,
                                              .rnorm = elements<const Wide<T>>(rnorm),
                                              .dy = rows<const T>(dy),
                                              .dx = dx.rows<T>(),
                                              .dx_into = dx.into,
                                              .dgain = dgain.data<Wide<T>>(),
                                              .dgain_into = dgain.into,
                                              .partials = elements<Wide<T>>(partials.tensor()),
                                              .group = spec.group});
    });
  };
  tape.record_cheap(Remaking::norms, op, {x, gain}, {y}, rule, make);
  return y;
}

Var l2_norm(Var x, Var gain, L2NormSpec spec) {
  constexpr std::string_view kOp = "l2_norm";
  require_float(kOp, "x", x);
  const Index cols = x.shape().cols();
  const Index group = spec.group == 0 ? cols : spec.group;
  return l2_rows(kOp,
                 x,
                 gain,
                 {.group = group,
                  .gains = spec.gain_per_column ? cols : group,
                  .gain_scale = spec.gain_scale,
                  .eps = spec.eps});
}

}  // namespace norma
