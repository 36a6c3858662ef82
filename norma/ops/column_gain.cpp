#include "norma/ops/column_gain.h"

#include "norma/kernels/column_gain.h"
#include "norma/ops/dispatch.h"

namespace norma {

Var column_gain(Var x, Var gain, ColumnGainSpec spec) {
  constexpr std::string_view kOp = "column_gain";
  require_float(kOp, "x", x);
  require_float(kOp, "gain", gain);
  require_vector_type(kOp, x, "gain", gain);
  const Index cols = x.shape().cols();
  const Index gains = spec.groups == 0 ? cols : spec.groups;
  require_divides(kOp, "groups", gains, "the width", cols);
  require_shape(kOp, "gain", gain, {gains});

  Tape& tape = x.tape();
  const Var y = tape.output(x.shape(), x.dtype());
  dispatch(kOp, x.value(), [&](auto who, auto zero) {
    using T = decltype(zero);
    kernels::run(who,
                 kernels::ColumnGainForward<T>{.x = rows<const T>(x),
                                               .gain = elements<const Wide<T>>(gain),
                                               .y = rows<T>(y),
                                               .block = cols / gains,
                                               .mult = spec.mult});
  });
  if (gain.needs_grad()) tape.pin(x);
  tape.pin(gain);
  tape.record(kOp, {x, gain}, {y}, [=](Backward& b) {
    const Tensor dy = b.grad(y);
    const WantedRows dx = wanted(b, x);
    const WantedRows dgain = wanted(b, gain);
    const bool sum_columns = dgain && gains == cols && gains > 1;
    const bool sum_shared = dgain && !sum_columns;
    const Scratch partials = b.scratch(partial_shape(dy, cols, sum_columns), wide(dy.dtype));
    const Scratch shared = b.scratch(partial_shape(dy, gains, sum_shared), DType::f64);
    dispatch(kOp, dy, [&](auto who, auto zero) {
      using T = decltype(zero);
      kernels::run(who,
                   kernels::ColumnGainBackward<T>{
                       .x = dgain ? rows<const T>(x) : kernels::Rows<const T>{},
                       .gain = elements<const Wide<T>>(gain),
                       .dy = rows<const T>(dy),
                       .dx = dx.rows<T>(),
                       .dx_into = dx.into,
                       .dgain = dgain.data<Wide<T>>(),
                       .dgain_into = dgain.into,
                       .partials = sum_columns ? elements<Wide<T>>(partials.tensor()) : nullptr,
                       .shared = sum_shared ? elements<double>(shared.tensor()) : nullptr,
                       .block = cols / gains,
                       .mult = spec.mult});
    });
  });
  return y;
}

}  // namespace norma
