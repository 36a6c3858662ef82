#include "norma/ops/softcap.h"

#include <cmath>

#include "norma/kernels/softcap.h"
#include "norma/ops/dispatch.h"

namespace norma {

Var softcap(Var x, SoftcapSpec spec) {
  constexpr std::string_view kOp = "softcap";
  require_float(kOp, "x", x);
  if (!(spec.cap > 0) || !std::isfinite(spec.cap)) {
    throw RequestError(say(kOp, ": cap must be positive and finite, got ", spec.cap, "."));
  }

  Tape& tape = x.tape();
  const Var y = tape.output(x.shape(), x.dtype());
  dispatch(kOp, x.value(), [&](auto who, auto zero) {
    using T = decltype(zero);
    kernels::run(
        who, kernels::SoftcapForward<T>{.x = rows<const T>(x), .y = rows<T>(y), .cap = spec.cap});
  });
  tape.pin(x);
  tape.record(kOp, {x}, {y}, [=](Backward& b) {
    const Tensor dy = b.grad(y);
    const WantedRows dx = wanted(b, x);
    dispatch(kOp, dy, [&](auto who, auto zero) {
      using T = decltype(zero);
      kernels::run(who,
                   kernels::SoftcapBackward<T>{.x = rows<const T>(x),
                                               .dy = rows<const T>(dy),
                                               .dx = dx.rows<T>(),
                                               .dx_into = dx.into,
                                               .cap = spec.cap});
    });
  });
  return y;
}

}  // namespace norma
