#include "norma/ops/activation.h"

#include "norma/kernels/activation.h"
#include "norma/ops/dispatch.h"

namespace norma {

Var activation(Var x, Activation kind) {
  const std::string_view op = name_of(kind);
  require_float(op, "x", x);

  Tape& tape = x.tape();
  const Var y = tape.output(x.shape(), x.dtype());
  const auto make = [=] {
    dispatch(op, x.value(), [&](auto who, auto zero) {
      using T = decltype(zero);
      kernels::run(
          who, kernels::ActivationForward<T>{.x = rows<const T>(x), .y = rows<T>(y), .kind = kind});
    });
  };
  make();
  tape.pin(x);
  const auto rule = [=](Backward& b) {
    const Tensor dy = b.grad(y);
    const WantedRows dx = wanted(b, x);
    dispatch(op, dy, [&](auto who, auto zero) {
      using T = decltype(zero);
      kernels::run(who,
                   kernels::ActivationBackward<T>{.x = rows<const T>(x),
                                                  .dy = rows<const T>(dy),
                                                  .dx = dx.rows<T>(),
                                                  .dx_into = dx.into,
                                                  .kind = kind});
    });
  };
  tape.record_cheap(Remaking::activations, op, {x}, {y}, rule, make);
  return y;
}

}  // namespace norma
